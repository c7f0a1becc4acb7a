"""Services of the host at ports inside: listening there, and telling commands where."""

from collections.abc import Callable, Mapping

from paddock.driver import Handler, Listener, RelayingDriver
from paddock.errors import ExistsError
from paddock.sandbox.core import Core
from paddock.types.ports import RelayAddress

Variables = Callable[[int], Mapping[str, str]]
"""What commands find in their environment, once it is known at which port they are served."""


class Service:
    """Something of the host that is served inside, until `close` or the end of the sandbox."""

    def __init__(self, core: Core, driver: RelayingDriver, name: str, listener: Listener) -> None:
        self.name = name
        self.when_closed: Callable[[], object] = _nothing
        """Called once, when it has ended."""
        self._core = core
        self._listener = listener
        self._forget = driver.on_close(self.close)

    @property
    def port(self) -> int:
        """Where it is on the sandbox's loopback."""
        return self._listener.address.port

    @property
    def offered_as(self) -> str:
        """What its variables are kept by: there may be another of this name, which is still served."""
        return f"{self.name}:{self.port}"

    async def close(self) -> None:
        """Serve nobody any more, and tell new commands nothing of it; idempotent."""
        self._forget()
        self._core.offer(self.offered_as, {})
        await self._listener.close()
        told, self.when_closed = self.when_closed, _nothing
        told()


async def serve(core: Core, driver: RelayingDriver, name: str, handler: Handler, port: int, told: Variables) -> Service:
    """Serve at `port`, or at any that is free if somebody has it, and offer what commands are to be told."""
    try:
        listener = await driver.listen(RelayAddress.loopback(port), handler)
    except ExistsError:
        if port == 0:
            raise
        listener = await driver.listen(RelayAddress.loopback(), handler)
    service = Service(core, driver, name, listener)
    core.offer(service.offered_as, dict(told(service.port)))
    return service


def _nothing() -> None:
    pass
