"""Names to addresses: asked once, in a thread, for a bounded time."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from paddock.types.addresses import Address

SECONDS = 15.0
MOST_AT_ONCE = 8

Lookup = Callable[[str], list[str]]
"""All addresses of a name; an `OSError` if it has none. It may block."""


def system_lookup(name: str) -> list[str]:
    """As every program of this host resolves it."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class Resolver:
    """Of one sandbox, which cannot have more than a few names looked up at once."""

    def __init__(self, lookup: Lookup = system_lookup, seconds: float = SECONDS) -> None:
        self._lookup = lookup
        self._seconds = seconds
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def addresses(self, host: str) -> list[Address]:
        """All of them: `OSError` if there is none, `TimeoutError` if nobody knows in time."""
        with suppress(ValueError):
            return [ip_address(host)]
        async with asyncio.timeout(self._seconds):
            found = await self._looked_up(host)
        if not found:
            raise OSError("no addresses")
        return [ip_address(text.partition("%")[0]) for text in found]

    async def _looked_up(self, host: str) -> list[str]:
        """The thread keeps its turn until it is done, whoever waits for it."""
        await self._turns.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def tell(found: list[str] | None, error: Exception | None) -> None:
            self._turns.release()
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(found or [])

        def work() -> None:
            found, failed = None, None
            try:
                found = self._lookup(host)
            except Exception as error:  # noqa: BLE001 - it is for whoever waits
                failed = error
            with suppress(RuntimeError):  # the loop may have ended
                loop.call_soon_threadsafe(tell, found, failed)

        try:
            threading.Thread(target=work, name="paddock-names", daemon=True).start()
        except RuntimeError:  # this host has no more of them
            self._turns.release()
            raise OSError("no thread for it") from None
        return await answer
