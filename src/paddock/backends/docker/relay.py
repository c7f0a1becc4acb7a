"""A channel where no socket and no descriptor can be shared: bytes, through a program that the engine starts inside.

Whoever makes file calls waits for their answers, on the event loop's own thread too: so another thread carries the bytes.
"""

import os
import socket
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from paddock.backends.docker.engine import reached
from paddock.backends.docker.order import PROGRAM, SERVED
from paddock.errors import UnavailableError, visible

if TYPE_CHECKING:
    import asyncio

    import aiodocker.stream

_PIECE = 64 << 10
_USER = "65534:65534"
"""Nobody that commands are, so that they can do nothing to it; and not root."""
_NO_SECRET = {"PADDOCK_SECRET": ""}
"""Whatever is started in a container inherits its environment."""


async def relayed(address: str | None, container: str) -> tuple[int, int]:
    """Descriptors to read from and to write to the supervisor. `UnavailableError` if it does not take us."""
    import asyncio

    writing, theirs_in = socket.socketpair()
    reading, theirs_out = socket.socketpair()
    carrier = _Carrier(address, container, theirs_in, theirs_out)
    try:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(carrier.begin(), _loop(os.getpid())))
    except BaseException:
        writing.close()
        reading.close()
        raise
    return reading.detach(), writing.detach()


@cache
def _loop(_process: int) -> "asyncio.AbstractEventLoop":
    """The event loop of the thread that carries; a forked process has one of its own."""
    import asyncio

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="paddock-relay", daemon=True).start()
    return loop


class _Carrier:
    """One connection: what comes out of one end goes into the other, until either ends."""

    def __init__(self, address: str | None, container: str, taken: socket.socket, given: socket.socket) -> None:
        self._address, self._container = address, container
        self._taken, self._given = taken, given

    async def begin(self) -> None:
        """Return when the relay runs; it goes on by itself."""
        import asyncio

        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._run(started))
        _running.add(task)
        task.add_done_callback(_running.discard)
        await started

    async def _run(self, started: "asyncio.Future[None]") -> None:
        try:
            async with reached(self._address) as engine:
                words = [PROGRAM, "bridge", SERVED]
                container = engine.containers.container(self._container)
                relay = await container.exec(words, stdin=True, stderr=False, user=_USER, environment=_NO_SECRET)
                async with relay.start(detach=False) as stream:
                    started.set_result(None)
                    await self._carry(stream, container)
        except Exception as error:  # noqa: BLE001 - told to whoever waits, or seen as the end of the stream
            if not started.done():
                started.set_exception(_typed(error))
        finally:
            self._taken.close()
            self._given.close()

    async def _carry(self, stream: "aiodocker.stream.Stream", container: Any) -> None:
        """Until one side ends, or the container does: not every runtime tells those who are attached."""
        import asyncio

        ways = [asyncio.ensure_future(way) for way in (self._in(stream), self._out(stream), container.wait())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _in(self, stream: "aiodocker.stream.Stream") -> None:
        import asyncio

        self._taken.setblocking(False)
        while data := await asyncio.get_running_loop().sock_recv(self._taken, _PIECE):
            await stream.write_in(data)

    async def _out(self, stream: "aiodocker.stream.Stream") -> None:
        import asyncio

        self._given.setblocking(False)
        while (message := await stream.read_out()) is not None:
            await asyncio.get_running_loop().sock_sendall(self._given, message.data)


def _typed(error: Exception) -> UnavailableError:
    if isinstance(error, UnavailableError):
        return error
    return UnavailableError(f"The container cannot be reached: {visible(str(error))}.", hint="Try again.")


_running: set["asyncio.Task[None]"] = set()
