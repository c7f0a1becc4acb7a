"""`watch`: a stream of changes below a directory, each path's flurry of them folded into one."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from paddock import paths
from paddock.dirs.protocol import Change
from paddock.errors import NotDirectoryError, UnsupportedError, visible
from paddock.sandbox.budget import Budget
from paddock.sandbox.failures import typed
from paddock.sandbox.files import Files
from paddock.types import FileEvent

if TYPE_CHECKING:
    import asyncio

SETTLE_SECONDS = 0.05
BACKLOG = 100_000
InThread = Callable[[Budget, Callable[[], Callable[[], None]]], Awaitable[Callable[[], None]]]


class Watch(AsyncIterator[FileEvent]):
    """The changes below a directory, from the moment it is entered (`async with`) or first awaited.

    It ends when it is closed, when the sandbox or its view closes, and when the directory itself is gone.
    """

    def __init__(self, files: Files, path: str, in_thread: InThread, ended: Callable[["Watch"], None]) -> None:
        self._files = files
        self._path = path
        self._in_thread = in_thread
        self._ended_hook = ended
        self._starting: asyncio.Future[None] | None = None
        self._stop: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known: dict[str, set[str]] | None = None  # each directory with what is in it
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
        import asyncio

        self._closed = True
        self._wake()
        if self._starting is not None and not self._starting.done():
            await asyncio.wait([self._starting])
        stop, self._stop = self._stop, None
        if stop is not None:
            await asyncio.to_thread(stop)
        self._ended_hook(self)

    async def _start(self) -> None:
        import asyncio

        if self._stop is not None or self._closed:
            return
        if self._starting is None or self._starting.done():
            self._loop = asyncio.get_running_loop()
            self._starting = asyncio.ensure_future(self._begin())
        await asyncio.shield(self._starting)

    async def _begin(self) -> None:
        import asyncio

        self._known = None
        stop = await self._in_thread(Budget(), self._attach)
        if self._closed:  # meanwhile
            await asyncio.to_thread(stop)
        else:
            self._stop = stop

    def _attach(self) -> Callable[[], None]:
        """Begin to watch the real place; called in a thread."""
        if not self._files.stat(self._path).is_dir:
            raise NotDirectoryError(f"'{visible(self._path)}' is not a directory.", path=self._path)
        place = self._files.target(self._path)
        if self._files.table.nested(place.path):
            raise UnsupportedError(
                f"'{visible(self._path)}' holds another mount.",
                path=self._path,
                capability="nested mounts",
                hint="Watch its parts one by one.",
            )
        prefix = f"{place.relative}/" if place.relative else ""

        def shown(change: Change) -> Change:
            inner = "" if change.path == place.relative else change.path.removeprefix(prefix)
            return Change(change.kind, paths.join(self._path, inner))

        def notify(changes: list[Change]) -> None:
            if self._known is None:
                self._known = {}
                for change in changes:
                    self._add(shown(change).path)
            elif self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._take, [shown(change) for change in changes])

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
            elif change.kind != "modified" or change.path in self._latest or self._knows(change.path):
                # What is changed before it has a name is not there yet: it will appear.
                self._latest[change.path] = change.kind != "vanished"

    def _settle(self) -> None:
        latest, overflow = self._latest, self._overflow or len(self._ready) + len(self._latest) > BACKLOG
        self._latest, self._overflow = {}, False
        for path, there in latest.items():
            if there:
                self._ready.append(FileEvent("created" if self._add(path) else "modified", path))
            else:
                self._ready.extend(FileEvent("deleted", gone) for gone in self._remove(path) if not latest.get(gone))
        if overflow:
            self._ready.clear()
            self._ready.append(FileEvent("overflow", self._path))
        if latest.get(self._path) is False:
            self._ready.append(FileEvent("deleted", self._path))
            self._closed = True
        self._wake()

    def _knows(self, path: str) -> bool:
        return path in (self._known or {}).get(paths.parent(path), ())

    def _add(self, path: str) -> bool:
        """Note that something is there; whether that is new."""
        siblings = {} if self._known is None else self._known
        inside = siblings.setdefault(paths.parent(path), set())
        new = path not in inside
        inside.add(path)
        return new

    def _remove(self, path: str) -> list[str]:
        """Note that something is gone; it, if it was known, and what was in it, outermost first."""
        known = self._known or {}
        if path not in known.get(paths.parent(path), ()):
            return []
        known[paths.parent(path)].discard(path)
        gone, pending = [], [path]
        while pending:
            here = pending.pop()
            gone.append(here)
            pending.extend(known.pop(here, ()))
        return gone

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)
