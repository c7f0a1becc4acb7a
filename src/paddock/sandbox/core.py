"""What a sandbox and all views of it share: the driver, what runs in threads, what is watched, and the end of it all."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from paddock.audit import EventBus
from paddock.consent import Consent
from paddock.driver import Running
from paddock.errors import ClosedError
from paddock.sandbox.budget import Budget, Stopped
from paddock.sandbox.commands import Environment, environment
from paddock.sandbox.create import Launched
from paddock.sandbox.life import Life, Limit
from paddock.sandbox.operation import Gate, Operation
from paddock.sandbox.process import Process
from paddock.sandbox.watch import Watch
from paddock.types import Guarantee, Isolation, Network

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

    from paddock.bridge.bridge import Bridge
    from paddock.sandbox.egressing import Egress

T = TypeVar("T")

_SEARCHES = 2
"""At once, of one sandbox."""
_SEARCHERS = 64
"""Threads, for those of all."""


@cache
def searchers() -> "Executor":
    """Who searches: threads of their own, which are started as they are needed."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_SEARCHERS, "paddock-search")


class Core:
    """What all views of a sandbox share."""

    def __init__(self, launched: Launched, remote: bool) -> None:
        import asyncio

        self.launched = launched
        self.remote = remote
        self.watches: dict[Watch, Gate] = {}
        self.threads: dict[asyncio.Future[Any], Budget] = {}
        self._searches = asyncio.Semaphore(_SEARCHES)
        self._closing: asyncio.Future[None] | None = None
        self.environment = environment(launched.driver.environment, launched.env)
        """What every command finds, if it is given nothing else. Always this one object, so that drivers can know it."""
        self.consent = Consent(launched.approve, launched.bus, launched.id)
        self.when_closed: Callable[[], object] = _nothing
        self.bridge: Bridge | None = None
        self.egress: Egress | None = None
        self.exposed: list[str] = []
        """Secrets that commands were given."""
        self.running: set[str] = set()
        """Files of the host that granted tools run."""
        self._offers: dict[str, dict[str, str]] = {}
        self._offered: dict[str, str] = {}
        self._life: Life | None = None
        self._commands: WeakSet[Process] = WeakSet()

    def begin(self, gate: Gate) -> None:
        """From now on it may end by itself, if it was made so."""
        plan = self.launched.plan
        idle_timeout = None if self.launched.detached else plan.idle_timeout  # its supervisor knows who uses it
        if plan.lifetime is None and idle_timeout is None:
            return
        self._life = Life(partial(self._end_in_time, gate))
        if plan.lifetime is not None:
            self._life.end_at(self.launched.created + plan.lifetime, plan.lifetime)
        if idle_timeout is not None:
            self._life.end_when_idle(idle_timeout, gate.pulse, self.in_use)

    async def _end_in_time(self, gate: Gate, limit: Limit, why: str) -> None:
        for command in self._commands:
            command._ends_by(limit)
        await self.close(gate, why)

    def process(self, running: Running) -> Process:
        """A command of this sandbox. It is told what ended it, if that is one of the sandbox's own times."""
        process = Process(running)
        if self._life is not None:
            self._commands.add(process)
        return process

    async def in_use(self) -> bool:
        """Whether something goes on in it just now."""
        if self.threads or self.watches:
            return True
        if not self.launched.spec.capabilities.commands:
            return False
        return any(info.exit_code is None for info in await self.launched.driver.processes())

    @property
    def network(self) -> Network:
        """The policy that holds now."""
        return self.launched.network if self.egress is None else self.egress.network

    @property
    def isolation(self) -> Isolation:
        """What holds now."""
        held = self.launched.driver.isolation
        if self.exposed:
            held = replace(held, secrets=Guarantee(False, f"inside is {', '.join(self.exposed)}"))
        return held if self.egress is None else self.egress.described(held)

    def offer(self, service: str, variables: dict[str, str]) -> None:
        """How commands find a service of the host from now on, unless they or the sandbox are given something else."""
        if variables != self._offers.get(service, {}):
            self._offers.pop(service, None)
            if variables:
                self._offers[service] = variables  # the last of all, which counts
            self._offered = {name: value for offer in self._offers.values() for name, value in offer.items()}
            self.environment = environment(self.launched.driver.environment, self._offered, self.launched.env)

    def environment_with(self, env: Environment | None, *, pty: bool) -> dict[str, str]:
        """The environment of a command that is given more, or a terminal."""
        terminal = {"TERM": "xterm-256color"} if pty else None
        return environment(self.launched.driver.environment, self._offered, terminal, self.launched.env, env)

    async def search(self, budget: Budget, function: Callable[[], T]) -> T:
        """A call that may take all the time it has, such as one with a bad pattern: a few at once, and in no thread that
        other file calls wait for."""
        async with self._searches:
            if self._closing is not None:
                raise ClosedError("The sandbox was closed during the call.")
            return await self.in_thread(budget, function, searchers())

    async def in_thread(self, budget: Budget, function: Callable[[], T], pool: "Executor | None" = None) -> T:
        """A long file call, in a thread. Nothing of it goes on when the caller is cancelled or the sandbox closes."""
        import asyncio

        future = asyncio.get_running_loop().run_in_executor(pool, function)
        self.threads[future] = budget
        future.add_done_callback(self._forget_thread)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            budget.stop()
            while not future.done():  # however often it is cancelled: a thread must not outlive the call
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            raise
        except Stopped:
            raise ClosedError("The sandbox was closed during the call.") from None

    def _forget_thread(self, future: "asyncio.Future[Any]") -> None:
        self.threads.pop(future, None)
        if not future.cancelled():
            future.exception()  # looked at, in case nobody else will

    def forget_watch(self, watch: Watch) -> None:
        """It has ended by itself."""
        self.watches.pop(watch, None)

    async def end_watches(self) -> None:
        """End those whose view is closed."""
        for watch, gate in list(self.watches.items()):
            if gate.closed:
                await watch.aclose()

    async def close(self, gate: Gate, why: str | None = None) -> None:
        """Close once; whoever calls again waits for the first."""
        import asyncio

        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(gate, why))
        elif self._closing.done():
            return  # what it could not remove was told to whoever closed it first
        await asyncio.shield(self._closing)

    async def _close(self, gate: Gate, why: str | None) -> None:
        import asyncio

        if self._life is not None:
            self._life.stop()
        operation = Operation(gate, "sandbox", "close", None)
        try:
            with operation:
                gate.close(why)
                for budget in self.threads.values():
                    budget.stop()
                await self.end_watches()
                if self.threads:
                    await asyncio.wait(list(self.threads))
                await self.launched.driver.close()
        finally:
            self.when_closed()
            self.when_closed = _nothing
            self.launched.bus.close()
            await _flushed(self.launched.bus)


def _nothing() -> None:
    pass


async def _flushed(bus: EventBus) -> None:
    """The log is on disk. Not on the loop, if another process may be writing to it just now."""
    import asyncio

    if bus.flush_few():
        return
    try:
        await asyncio.to_thread(bus.flush)
    except RuntimeError:  # at the end of the program there are no more threads
        bus.flush()
