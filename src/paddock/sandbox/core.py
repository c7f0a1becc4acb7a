"""What a sandbox and all views of it share: the driver, what runs in threads, what is watched, and the end of it all."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from paddock.errors import ClosedError
from paddock.sandbox.budget import Budget, Stopped
from paddock.sandbox.create import Launched
from paddock.sandbox.operation import Gate, Operation
from paddock.sandbox.watch import Watch

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Core:
    """What all views of a sandbox share."""

    def __init__(self, launched: Launched, remote: bool) -> None:
        self.launched = launched
        self.remote = remote
        self.watches: dict[Watch, Gate] = {}
        self.threads: dict[asyncio.Future[Any], Budget] = {}
        self._closing: asyncio.Future[None] | None = None

    async def in_thread(self, budget: Budget, function: Callable[[], T]) -> T:
        """A long file call, in a thread. Nothing of it goes on when the caller is cancelled or the sandbox closes."""
        import asyncio

        future = asyncio.get_running_loop().run_in_executor(None, function)
        self.threads[future] = budget
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            budget.stop()
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # looked at: nobody else will
            raise
        except Stopped:
            raise ClosedError("The sandbox was closed during the call.") from None
        finally:
            self.threads.pop(future, None)

    def forget_watch(self, watch: Watch) -> None:
        """It has ended by itself."""
        self.watches.pop(watch, None)

    async def end_watches(self) -> None:
        """End those whose view is closed."""
        for watch, gate in list(self.watches.items()):
            if gate.closed:
                await watch.aclose()

    async def close(self, gate: Gate) -> None:
        """Close once; whoever calls again waits for the first."""
        import asyncio

        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(gate))
        await asyncio.shield(self._closing)

    async def _close(self, gate: Gate) -> None:
        import asyncio

        operation = Operation(gate, "sandbox", "close", None)
        try:
            with operation:
                gate.close()
                for budget in self.threads.values():
                    budget.stop()
                await self.end_watches()
                if self.threads:
                    await asyncio.wait(list(self.threads))
                await self.launched.driver.close()
        finally:
            self.launched.bus.close()
