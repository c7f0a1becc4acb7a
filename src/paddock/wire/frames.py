"""Frames: the header of 12 bytes, the types, and taking a stream of bytes apart again. `docs/protocol.md` has all of it."""

import os
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from enum import IntEnum, IntFlag
from typing import NamedTuple

from paddock.wire.fields import Malformed

VERSION = 1
MAX_PAYLOAD = 2 << 20
MAX_DATA = 256 << 10
MAX_DESCRIPTORS = 8
HEADER = struct.Struct("<IBBHI")


class Request(IntEnum):
    """What the host asks."""

    HELLO = 0x01
    ROOT = 0x02
    END = 0x03
    SPAWN = 0x10
    SIGNAL = 0x11
    KILL = 0x12
    INPUT = 0x13
    RESIZE = 0x14
    WINDOW = 0x15
    DROP = 0x16
    PROCESSES = 0x17
    ATTACH = 0x18
    STAT = 0x20
    LIST = 0x21
    OPEN = 0x22
    READ = 0x23
    CREATE = 0x24
    APPEND = 0x25
    PUT = 0x26
    CLOSE = 0x27
    MKDIR = 0x28
    REMOVE = 0x29
    RENAME = 0x2A
    LINK = 0x2B
    WATCH = 0x2C
    UNWATCH = 0x2D
    LISTEN = 0x40
    ACCEPT = 0x41
    CONNECT = 0x42
    PASS = 0x43
    ALLOW = 0x44
    HANG_UP = 0x45


class Reply(IntEnum):
    """What the supervisor answers and tells."""

    HELLO = 0x81
    OK = 0x82
    FAILED = 0x83
    STARTED = 0x84
    OUTPUT = 0x85
    ENDED = 0x86
    GONE = 0x87
    WINDOW = 0x88
    PROCESSES = 0x89
    NODE = 0x8A
    ENTRIES = 0x8B
    OPENED = 0x8C
    DATA = 0x8D
    WATCHED = 0x8E
    CHANGED = 0x8F
    LISTENING = 0x90
    CONNECTED = 0x91
    ERROR = 0xFF


class SpawnFlag(IntFlag):
    """How a command is started."""

    STDIN = 1
    PTY = 2
    QUIET = 4
    DESCRIPTORS = 8
    LEFT = 32


class Stage(IntEnum):
    """Where starting a command failed."""

    NONE = 0
    REQUEST = 1
    DIRECTORY = 2
    PROGRAM = 3
    RESOURCES = 4


class Frame(NamedTuple):
    """One frame, taken apart."""

    type: int
    id: int
    payload: bytes
    fds: tuple[int, ...] = ()


def encode(type: int, id: int, payload: bytes = b"", fds: int = 0) -> bytes:
    """A frame as bytes. A payload that is too large is a `ValueError`: the caller splits, or refuses."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError("the payload is too large")
    return HEADER.pack(len(payload), type, fds, 0, id) + payload


class Decoder:
    """Bytes and descriptors as they come, to frames. After `Malformed` it is of no more use."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._fds: deque[int] = deque()

    def feed(self, data: bytes, fds: Sequence[int] = ()) -> Iterator[Frame]:
        """The frames that are now complete."""
        self._fds.extend(fds)
        waiting = self._waiting
        waiting += data
        at, end = 0, len(waiting)
        try:
            while end - at >= HEADER.size:
                size, type_, count, zero, id_ = HEADER.unpack_from(waiting, at)
                if size > MAX_PAYLOAD or count > MAX_DESCRIPTORS or zero:
                    raise Malformed("a header breaks the rules")
                start = at + HEADER.size
                if end - start < size:
                    break
                at = start + size
                yield Frame(type_, id_, bytes(waiting[start:at]), self._take(count))
        finally:
            del waiting[:at]
        if len(self._fds) > MAX_DESCRIPTORS or (self._fds and not waiting):
            raise Malformed("descriptors belong to no frame")

    def close(self) -> None:
        """Close the descriptors that nobody took."""
        while self._fds:
            os.close(self._fds.pop())

    def _take(self, count: int) -> tuple[int, ...]:
        if count == 0:
            return ()
        if count > len(self._fds):
            raise Malformed("descriptors are missing")
        return tuple(self._fds.popleft() for _ in range(count))
