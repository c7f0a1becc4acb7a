"""What a command has printed, as far as it is kept, and who reads along."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Literal
from weakref import ref

from paddock.types import Chunk

if TYPE_CHECKING:
    import asyncio

Stream = Literal["stdout", "stderr"]
BEHIND = 1 << 20
"""So many bytes may wait for a reader before the command has to wait too."""

SMALL = 4 << 10
"""A piece of fewer bytes is joined with the next."""


class Output:
    """Both streams of one command: the first `limit` bytes of each, or with `last` the last."""

    def __init__(self, limit: int, *, last: bool) -> None:
        self._limit = limit
        self._last = last
        self._pieces: dict[str, deque[tuple[int, bytes]]] = {"stdout": deque(), "stderr": deque()}
        self._sizes = {"stdout": 0, "stderr": 0}
        self._number = 0
        self._readers: set[ref[Chunks]] = set()
        self._latest: Stream | None = None
        self.held = False
        """Whether nobody can have begun to read: then nothing is let go of, and the command has to wait."""
        self.truncated = False
        self.ended = False
        self.on_caught_up: Callable[[], object] = lambda: None
        self.on_left: Callable[[], object] = lambda: None

    @property
    def behind(self) -> bool:
        """Whether somebody reads who has not kept up, or could not begin."""
        return self.held or any(
            (reader := known()) is not None and reader.waiting > BEHIND for known in tuple(self._readers)
        )

    def take(self, stream: Stream, data: bytes) -> None:
        """One more piece."""
        for known in tuple(self._readers):
            reader = known()
            if reader is not None:
                reader.push(Chunk(stream, data))
        room = self._limit - self._sizes[stream]
        if not self._last and room < len(data):
            self.truncated = True
            data = data[: max(room, 0)]
        if data:
            self._keep(stream, data)
        if self._sizes[stream] > self._limit and not self.held:
            self._forget(stream)

    def kept(self, stream: Stream) -> bytes:
        """What is kept of one stream."""
        data = b"".join([data for _, data in self._pieces[stream]])
        self.truncated |= len(data) > self._limit
        return data[max(0, len(data) - self._limit) :]

    def end(self) -> None:
        """There will be no more."""
        self.ended = True
        if self._readers:
            for reader in self._reading():
                reader.wake()

    def read(self) -> "Chunks":
        """What is kept, in the order it came, and then what comes."""
        pieces = merge(*([(n, s, d) for n, d in self._pieces[s]] for s in self._pieces), key=itemgetter(0))
        reader = Chunks(self, [Chunk(stream, data) for _, stream, data in pieces])  # type: ignore[arg-type]
        self._readers.add(ref(reader, self._left))
        return reader

    def _reading(self) -> "list[Chunks]":
        return [reader for reader in (known() for known in self._readers) if reader is not None]

    def _left(self, reader: "ref[Chunks]") -> None:
        """One of them is gone: the command need not wait for it any more."""
        self._readers.discard(reader)
        self.on_left()

    def caught_up(self) -> None:
        """Go on, if nobody is behind any more."""
        if not self.ended and not self.behind:
            self.on_caught_up()

    def _keep(self, stream: Stream, data: bytes) -> None:
        """Add it. Small pieces are joined: each would cost much more than it holds."""
        pieces = self._pieces[stream]
        self._sizes[stream] += len(data)
        if self._latest == stream and pieces and len(pieces[-1][1]) < SMALL:
            number, before = pieces.pop()
            pieces.append((number, before + data))
            return
        self._number += 1
        self._latest = stream
        pieces.append((self._number, data))

    def _forget(self, stream: Stream) -> None:
        """Let go of the oldest, so that no more is kept than may be."""
        self.truncated = True
        pieces = self._pieces[stream]
        over = self._sizes[stream] - self._limit
        while over > 0:
            number, data = pieces.popleft()
            self._sizes[stream] -= len(data)
            if len(data) > over:
                pieces.appendleft((number, data[over:]))
                self._sizes[stream] += len(data) - over
            over -= len(data)


class Chunks(AsyncIterator[Chunk]):
    """One reader of a command's output. What it has not read yet holds the command up, as a pipe would."""

    def __init__(self, output: Output, chunks: list[Chunk]) -> None:
        self._output = output
        self._chunks = deque(chunks)
        self._wakeup: asyncio.Future[None] | None = None
        self.waiting = 0
        """Bytes that came since, and were not read yet."""

    def push(self, chunk: Chunk) -> None:
        """One more."""
        last = self._chunks[-1] if self._chunks else None
        if last is not None and last.stream == chunk.stream and len(last.data) < SMALL:
            self._chunks[-1] = Chunk(chunk.stream, last.data + chunk.data)
        else:
            self._chunks.append(chunk)
        self.waiting += len(chunk.data)
        self.wake()

    def wake(self) -> None:
        """Something has changed."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def __anext__(self) -> Chunk:
        import asyncio

        while not self._chunks:
            if self._output.ended:
                raise StopAsyncIteration
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        chunk = self._chunks.popleft()
        if self.waiting:
            self.waiting = max(0, self.waiting - len(chunk.data))
            if not self._output.behind:
                self._output.on_caught_up()
        return chunk
