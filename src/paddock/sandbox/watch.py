"""`watch`: a stream of changes below a directory, each path's flurry of them folded into one."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Self

from paddock import paths
from paddock.dirs.protocol import Change
from paddock.errors import NotDirectoryError, visible
from paddock.sandbox.failures import typed
from paddock.sandbox.files import Files
from paddock.types import FileEvent

if TYPE_CHECKING:
    import asyncio

SETTLE_SECONDS = 0.05
BACKLOG = 100_000


class Watch(AsyncIterator[FileEvent]):
    """The changes below a directory, from the moment it is entered (`async with`) or first awaited."""

    def __init__(self, files: Files, path: str, ended: Callable[["Watch"], None]) -> None:
        self._files = files
        self._path = path
        self._ended_hook = ended
        self._stop: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known: set[str] | None = None
        self._latest: dict[str, bool] = {}  # path → whether it is there now, for the changes still settling
        self._overflow = False
        self._ready: deque[FileEvent] = deque()
        self._wakeup: asyncio.Future[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    async def __anext__(self) -> FileEvent:
        import asyncio

        await self._start()
        while not self._ready:
            if self._closed or self._loop is None:
                raise StopAsyncIteration
            if self._wakeup is None or self._wakeup.done():
                self._wakeup = self._loop.create_future()
            await asyncio.shield(self._wakeup)
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Stop watching."""
        self._closed = True
        stop, self._stop = self._stop, None
        if stop is not None:
            import asyncio

            await asyncio.to_thread(stop)
        self._ended_hook(self)
        self._wake()

    async def _start(self) -> None:
        if self._loop is not None or self._closed:
            return
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._stop = await asyncio.to_thread(self._attach)

    def _attach(self) -> Callable[[], None]:
        """Begin to watch the real place; called in a thread."""
        if not self._files.stat(self._path).is_dir:
            raise NotDirectoryError(f"'{visible(self._path)}' is not a directory.", path=self._path)
        place = self._files.target(self._path)
        prefix = f"{place.relative}/" if place.relative else ""

        def notify(changes: list[Change]) -> None:
            shown = [Change(c.kind, paths.join(self._path, c.path.removeprefix(prefix))) for c in changes]
            if self._known is None:
                self._known = {change.path for change in shown}
            elif self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._take, shown)

        try:
            return place.dir.watch(place.relative, notify)
        except OSError as error:
            raise typed(error, self._path) from None

    def _take(self, changes: list[Change]) -> None:
        if self._loop is None or self._closed:
            return
        if not self._latest and not self._overflow:
            self._loop.call_later(SETTLE_SECONDS, self._settle)
        for change in changes:
            if change.kind == "overflow":
                self._overflow = True
            else:
                self._latest[change.path] = change.kind != "vanished"

    def _settle(self) -> None:
        known = self._known if self._known is not None else set()
        for path, there in self._latest.items():
            if there:
                self._ready.append(FileEvent("modified" if path in known else "created", path))
                known.add(path)
            else:
                self._remove(path, known)
        if self._overflow or len(self._ready) > BACKLOG:
            self._ready.clear()
            self._ready.append(FileEvent("overflow", self._path))
        self._latest, self._overflow = {}, False
        self._wake()

    def _remove(self, path: str, known: set[str]) -> None:
        """A directory that is gone took along what was in it."""
        gone = sorted(p for p in known if paths.within(p, path)) if path in known else []
        for inner in gone:
            known.discard(inner)
            if not self._latest.get(inner):
                self._ready.append(FileEvent("deleted", inner))

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)
