"""Requests whose answers a thread waits for: what directories over the wire are made of."""

import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from paddock.errors import SandboxDiedError
from paddock.wire.calls import Answer
from paddock.wire.channel import StreamChannel, grown, is_more
from paddock.wire.frames import Frame, encode


class BlockingCalls:
    """`Calls` over a stream that a thread reads. Safe in every thread, the loop's own too."""

    def __init__(self, channel: StreamChannel) -> None:
        self._channel = channel

    def new_id(self) -> int:
        return self._channel.new_id()

    def send(self, requests: Sequence[Frame]) -> list[Answer]:
        waiting = [_Waiting(self._channel, request.id) for request in requests]
        self._channel.send_bytes(b"".join(encode(r.type, r.id, r.payload) for r in requests))
        return [one.answer for one in waiting]

    def listen(self, id: int, heard: Callable[[bytes | None], None]) -> None:
        self._channel.listen(id, _Heard(heard))

    def unlisten(self, id: int) -> None:
        self._channel.forget(id)


class _Waiting:
    """The answer to one request, as it comes."""

    blocking = True

    def __init__(self, channel: StreamChannel, id: int) -> None:
        self.answer: Answer = Future()
        self._frames: list[Frame] = []
        self._size = 0
        self._channel = channel
        channel.listen(id, self)

    def frame(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._size = grown(self._size, frame)
        if not is_more(frame):
            self._channel.forget(frame.id)
            self.answer.set_result(self._frames)

    def lost(self, error: SandboxDiedError) -> None:
        if not self.answer.done():
            self.answer.set_exception(OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN)))


class _Heard:
    blocking = True

    def __init__(self, heard: Callable[[bytes | None], None]) -> None:
        self._heard = heard

    def frame(self, frame: Frame) -> None:
        self._heard(frame.payload)

    def lost(self, error: SandboxDiedError) -> None:
        self._heard(None)
