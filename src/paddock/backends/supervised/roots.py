"""The mounts of a sandbox as the supervisor opens them: by the handles that it sends, or by calls on the wire."""

import errno
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from paddock.backends.supervised.driver import Root
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.protocol import Dir
from paddock.errors import UnavailableError
from paddock.wire.blocking import BlockingCalls
from paddock.wire.channel import Channel, StreamChannel, root_payload
from paddock.wire.dir import WireDir
from paddock.wire.fields import Malformed, read_failure
from paddock.wire.frames import Frame, Reply, Request


@dataclass(frozen=True, slots=True)
class _Asked:
    """A directory that the supervisor was asked for."""

    channel: Channel
    target: str
    number: int
    answered: Callable[[], Awaitable[list[Frame]]]

    async def dir(self, make: Callable[[str, int], Dir] | None) -> Dir:
        """The directory, when it is here; `make` takes its target and its handle."""
        (frame,) = await self.answered()
        if frame.type != Reply.OK:
            raise self._refused(frame)
        if isinstance(self.channel, StreamChannel):
            return WireDir(BlockingCalls(self.channel), self.number)
        return DescriptorDir(frame.fds[0]) if make is None else make(self.target, frame.fds[0])

    def _refused(self, frame: Frame) -> Exception:
        try:
            code, _ = read_failure(frame.payload)
        except Malformed as error:
            return self.channel.fail(error)
        words = os.strerror(code)
        if code == errno.ETOOMANYREFS:
            return UnavailableError(
                f"The directory for {self.target!r} cannot be handed over: {words}.",
                hint="Another program of this user, perhaps in a sandbox, has sent many descriptors that nobody takes. "
                "End it.",
            )
        return UnavailableError(
            f"The directory for {self.target!r} cannot be opened: {words}.", hint="Check its permissions."
        )


async def open_roots(
    channel: Channel,
    paths: Mapping[str, str],
    host_paths: Mapping[str, str],
    make: Callable[[str, int], Dir] | None = None,
) -> dict[str, Root]:
    """The directory of every mount, by where the supervisor sees it; all of them, or none. They are asked for at once."""
    asked = [_ask(channel, target, path) for target, path in paths.items()]
    roots: dict[str, Root] = {}
    failed: BaseException | None = None
    for one in asked:
        try:
            roots[one.target] = Root(one.number, await one.dir(make), host_paths.get(one.target))
        except BaseException as error:  # noqa: BLE001 - raised below, when all answers are here
            failed = failed or error
    if failed is not None:
        for root in roots.values():
            root.dir.close()
        raise failed
    return roots


def _ask(channel: Channel, target: str, path: str) -> _Asked:
    number = channel.new_id()
    answered = channel.begin(Request.ROOT, root_payload(path), number, descriptors=int(channel.descriptors))
    return _Asked(channel, target, number, answered)
