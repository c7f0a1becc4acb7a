"""Requests that have an answer, as the file calls make them."""

import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from paddock.paths import encode
from paddock.wire.fields import Malformed, pack_text, pack_u32, read_failure
from paddock.wire.frames import Frame, Reply, Request

_HERE = {
    11: errno.EAGAIN, 35: errno.EDEADLK, 36: errno.ENAMETOOLONG, 38: errno.ENOSYS, 39: errno.ENOTEMPTY, 40: errno.ELOOP,
    71: errno.EPROTO, 75: errno.EOVERFLOW, 84: errno.EILSEQ, 95: errno.EOPNOTSUPP, 116: errno.ESTALE, 122: errno.EDQUOT,
}  # fmt: skip
"""Linux's numbers, which the supervisor sends, where this host's may be others."""

Answer = Future[list[Frame]]


class Calls(Protocol):
    """A channel that requests go out on and answers come back from. Every method may be called from any thread."""

    def new_id(self) -> int:
        """A number that nothing on this channel has now."""

    def send(self, requests: Sequence[Frame]) -> list[Answer]:
        """Send these requests in this order, and return at once with what will be their answers.

        An answer is all frames with the request's id up to the last: one, or as many as say that more follow. When the
        channel ends, every answer that is still due is an `OSError` with ENOTCONN, and so is a later call of this.
        """

    def listen(self, id: int, heard: Callable[[bytes | None], None]) -> None:
        """Call `heard` with the payload of every CHANGED frame of this id, and with None when the channel has ended.

        It is called by the thread that reads the channel, and returns quickly.
        """

    def unlisten(self, id: int) -> None:
        """Undo `listen`."""


class Root:
    """One root of a supervisor, and the requests about it."""

    __slots__ = ("_number", "calls")

    def __init__(self, calls: Calls, number: int) -> None:
        self.calls = calls
        self._number = number

    def at(self, path: str) -> bytes:
        """The fields that say where."""
        return pack_u32(self._number) + pack_text(encode(path))

    def request(self, type: Request, payload: bytes) -> Frame:
        """A request with an id of its own."""
        return Frame(type, self.calls.new_id(), payload)

    def send(self, type: Request, payload: bytes) -> Answer:
        """Send one request, and do not wait."""
        return self.calls.send([self.request(type, payload)])[0]

    def ask(self, type: Request, payload: bytes, reply: Reply = Reply.OK) -> list[bytes]:
        """Send one request and wait for its answer."""
        return wait(self.send(type, payload), reply)


def wait(answer: Answer, type: Reply) -> list[bytes]:
    """The payloads of an answer of the type that is expected; `OSError` for any other."""
    frames = answer.result()
    if frames[-1].type == Reply.FAILED:
        raise _failure(frames[-1].payload)
    if any(frame.type != type for frame in frames):
        raise broken()
    return [frame.payload for frame in frames]


def broken() -> OSError:
    """The other side does not keep to the protocol: nothing that it says can be trusted."""
    return OSError(errno.ENOTCONN, "the supervisor's answer makes no sense")


def _failure(payload: bytes) -> OSError:
    try:
        code, _ = read_failure(payload)
    except Malformed:
        return broken()
    code = _HERE.get(code, code)
    return OSError(code, os.strerror(code))
