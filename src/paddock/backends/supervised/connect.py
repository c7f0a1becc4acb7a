"""Connecting to a supervisor that listens, and ending it: what detached sandboxes are found again by."""

import os
import socket

from paddock.errors import SandboxDiedError, SandboxError, UnavailableError
from paddock.finishing import to_the_end
from paddock.wire.channel import Channel, SocketChannel, greet
from paddock.wire.fields import Malformed
from paddock.wire.frames import Request

_SECONDS_TO_LEAVE = 5.0
_SECONDS_TO_END = 30.0
_TRIES, _PAUSE = 1000, 0.01


async def connect(path: str | os.PathLike[str]) -> SocketChannel:
    """A channel to the supervisor that listens at this path. Its end is not that of the sandbox.

    `SandboxDiedError` if there is none any more, `UnavailableError` if it does not take us.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        channel = await _reach(sock, os.fspath(path))
    except BaseException:
        sock.close()
        raise
    channel.ends_sandbox = False
    try:
        await greet(channel)
    except BaseException as error:
        await to_the_end(hang_up(channel))
        if isinstance(error, SandboxDiedError):
            raise UnavailableError(
                f"The sandbox does not take this connection. {error.message}",
                hint="Close other connections to it, or try again.",
            ) from error
        raise
    return channel


async def hang_up(channel: Channel) -> None:
    """Leave, and return when the supervisor has noticed, or will not."""
    import asyncio

    channel.close()
    try:
        async with asyncio.timeout(_SECONDS_TO_LEAVE):
            await channel.ended()
    except TimeoutError:
        channel.fail(Malformed("it does not answer"))


async def end_sandbox(channel: Channel) -> None:
    """End the sandbox as a whole, for everybody, and return when nothing of it runs any more."""
    import asyncio

    if channel.error is not None:
        raise channel.error
    channel.closing = channel.ends_sandbox = True
    channel.send(Request.END, channel.new_id())
    try:
        async with asyncio.timeout(_SECONDS_TO_END):
            await channel.ended()
    except TimeoutError:
        raise SandboxError(
            "The sandbox did not end: a process of it cannot be ended.", hint="Look at it on the host."
        ) from None


async def _reach(sock: socket.socket, path: str) -> SocketChannel:
    import asyncio

    sock.setblocking(False)
    try:
        await _connect(sock, path)
        return SocketChannel(sock, asyncio.get_running_loop())
    except (FileNotFoundError, ConnectionRefusedError):
        raise SandboxDiedError("The sandbox has ended.") from None
    except OSError as error:
        words = error.strerror or str(error)
        raise UnavailableError(f"The sandbox cannot be reached: {words}.", hint="Try again.") from error


async def _connect(sock: socket.socket, path: str) -> None:
    import asyncio

    for _ in range(_TRIES):
        try:
            sock.connect(path)
        except BlockingIOError:  # too many are before us, which cannot be waited for
            await asyncio.sleep(_PAUSE)
        else:
            return
    raise TimeoutError("it does not answer")
