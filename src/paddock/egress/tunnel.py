"""Two connections made one: bytes both ways, each way with an end of its own."""

import asyncio

from paddock.driver import Connection

_READ = 256 << 10
_BETWEEN_NOTES = 1.0


class Tunnel:
    """It ends when both ways have ended, when one breaks, or when nothing passed for too long: `TimeoutError`."""

    def __init__(self, one: Connection, other: Connection, idle: float) -> None:
        self._ways = ((one, other), (other, one))
        self._idle = idle
        self.size = 0

    async def run(self) -> None:
        """To its end. Whoever holds the connections closes them."""
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(self._idle) as limit:
                self._limit, self._noted = limit, loop.time()
                tasks += [asyncio.create_task(self._pass_on(*way)) for way in self._ways]
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _pass_on(self, source: Connection, target: Connection) -> None:
        while data := await source.read(_READ):
            await target.write(data)
            self.size += len(data)
            self._note()
        await target.end()

    def _note(self) -> None:
        """Something passed; told to the clock now and then, since that is not for nothing."""
        now = asyncio.get_running_loop().time()
        if now - self._noted > min(_BETWEEN_NOTES, self._idle / 4):
            self._noted = now
            self._limit.reschedule(now + self._idle)
