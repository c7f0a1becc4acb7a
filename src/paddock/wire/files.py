"""One file over the wire: read in pieces, or written without a name until it is whole. A few pieces travel at once."""

import errno
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from paddock.paths import encode
from paddock.wire.calls import Answer, Root, broken, wait
from paddock.wire.fields import Fields, Malformed, pack_text, pack_u8, pack_u32, pack_u64
from paddock.wire.frames import MAX_DATA, Frame, Reply, Request
from paddock.wire.nodes import read_node

_AHEAD = 4
_FIRST_READ = 64 << 10
_KEEP_MODE = 0xFFFFFFFF
_NOT_A_FILE = {"directory": errno.EISDIR, "link": errno.ELOOP, "other": errno.ENXIO}


class WireReader:
    """An open regular file. Its beginning comes with the answer that it is open."""

    stamp = None

    def __init__(self, root: Root, path: str, offset: int) -> None:
        self._root = root
        self._position = offset
        opening = root.request(Request.OPEN, root.at(path))
        self._file = opening.id
        opened, first = root.calls.send([opening, self._request(offset, _FIRST_READ)])
        (payload,) = wait(opened, Reply.OPENED)
        try:
            fields = Fields(payload)
            self.size, self.mode = fields.u64(), fields.u16() & 0o777
            fields.end()
            self._left = max(0, self.size - offset)
            self._buffer = _data(first, _FIRST_READ)
        except (Malformed, OSError) as error:
            self.__exit__(None, None, None)
            raise error if isinstance(error, OSError) else broken() from None

    def read(self, size: int) -> bytes:
        wanted = min(size, self._left)
        data, self._buffer = self._buffer[:wanted], self._buffer[wanted:]
        self._position += len(data)
        if len(data) < wanted:
            data = b"".join((data, *self._pieces(wanted - len(data))))
        self._left -= len(data)
        return data

    def _pieces(self, size: int) -> Iterator[bytes]:
        waiting: deque[tuple[int, Answer]] = deque()
        at, end = self._position, self._position + size
        while waiting or at < end:
            while at < end and len(waiting) < _AHEAD:
                wanted = min(MAX_DATA, end - at)
                waiting.append((wanted, self._root.calls.send([self._request(at, wanted)])[0]))
                at += wanted
            wanted, answer = waiting.popleft()
            part = _data(answer, wanted)
            self._position += len(part)
            yield part
            if len(part) < wanted:  # it has become shorter
                return

    def _request(self, offset: int, size: int) -> Frame:
        return self._root.request(Request.READ, pack_u32(self._file) + pack_u64(offset) + pack_u32(size))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._root.send(Request.CLOSE, pack_u32(self._file))


def _data(answer: Answer, most: int) -> bytes:
    (payload,) = wait(answer, Reply.DATA)
    if len(payload) > most:
        raise broken()
    return payload


class NewFile:
    """A file that is being written and has no name yet. Errors come as soon as they are known, at the latest in `settle`."""

    def __init__(self, root: Root, directory: str) -> None:
        self.size = 0
        self.refused = False
        """Whether not even an empty file could be made."""
        self._root = root
        creating = root.request(Request.CREATE, root.at(directory))
        self._file = creating.id
        self._unsent = [creating]
        self._waiting: deque[Answer] = deque()
        self._made = False

    def append(self, data: bytes) -> None:
        """Write on; it waits only when much is on its way."""
        for start in range(0, len(data), MAX_DATA):
            piece = data[start : start + MAX_DATA] if len(data) > MAX_DATA else data
            self._unsent.append(self._root.request(Request.APPEND, pack_u32(self._file) + piece))
            if len(self._unsent) > _AHEAD:
                self._flush(_AHEAD)
        self.size += len(data)

    def put(self, name: str, mode: int | None, *, replace: bool) -> None:
        """Give it its name, without waiting for that."""
        asked = _KEEP_MODE if mode is None else mode & 0o777
        payload = pack_u32(self._file) + pack_text(encode(name)) + pack_u32(asked) + pack_u8(replace)
        self._unsent.append(self._root.request(Request.PUT, payload))
        self._flush(len(self._unsent) + _AHEAD)

    def settle(self) -> None:
        """Wait until all of it is done."""
        self._flush(0)

    def close(self) -> None:
        """Forget it, if it has no name yet."""
        if self._made or self._waiting:
            with suppress(OSError):
                self._root.send(Request.CLOSE, pack_u32(self._file))

    def _flush(self, ahead: int) -> None:
        """Send what is ready, and wait until no more than so many answers are due."""
        self._waiting.extend(self._root.calls.send(self._unsent))
        self._unsent = []
        while len(self._waiting) > ahead:
            try:
                wait(self._waiting.popleft(), Reply.OK)
            except OSError:
                self.refused = not self._made
                raise
            self._made = True


def replaceable(look: Answer) -> int | None:
    """The mode of what a new file would replace, by the answer to STAT: a regular file, or nothing."""
    try:
        (payload,) = wait(look, Reply.NODE)
        node = read_node(payload, "")
    except FileNotFoundError:
        return None
    except Malformed:
        raise broken() from None
    if node.kind == "file":
        return node.mode
    code = _NOT_A_FILE[node.kind]
    raise OSError(code, os.strerror(code))
