"""`Lease`: a sandbox for one request."""

from collections.abc import Awaitable, Callable
from typing import Any

from paddock.errors import ClosedError
from paddock.finishing import to_the_end
from paddock.sandbox import Sandbox
from paddock.sandbox.signs import is_usable, last_call
from paddock.types import ManagedInfo


class Lease:
    """A sandbox for as long as one request needs it. Others may have leases on the same one; none of them ends another's.

    Made by `Manager.get_or_create`. Use it with `async with`, or call `release`.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        info: ManagedInfo,
        beat: Callable[[], None],
        give_back: Callable[["Lease"], Awaitable[None]],
    ) -> None:
        self._sandbox = sandbox
        self._info = info
        self._beat = beat
        self._give_back = give_back
        self._released = False
        self._why: str | None = None
        self._seen = last_call(sandbox)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox. The object is this lease's own: its working directory is, and closing it is no harm to others."""
        return self._sandbox

    @property
    def info(self) -> ManagedInfo:
        """Whose it is, as it was when the lease began."""
        return self._info

    def heartbeat(self) -> None:
        """Say that it is still needed. Calls on the sandbox say so too; a `ClosedError` says that it is gone."""
        if self._why is not None:
            raise ClosedError(f"The lease has ended: {self._why}.", hint="Ask the manager for a new one.")
        if self._released:
            raise ClosedError("The lease was released.", hint="Ask the manager for a new one.")
        if not self._is_usable:
            raise ClosedError("The sandbox has ended, or was closed.", hint="Ask the manager for a new lease.")
        self._beat()

    async def release(self) -> None:
        """It is needed no longer. What becomes of the sandbox, its policy says; releasing again is fine."""
        if not self._released:
            self._released = True
            await to_the_end(self._end())

    async def __aenter__(self) -> "Lease":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.release()

    def __repr__(self) -> str:
        return f"<Lease on {self._sandbox.id} for {self._info.user!r}>"

    async def _end(self) -> None:
        await self._give_back(self)

    # For the manager

    @property
    def _is_usable(self) -> bool:
        """Whether its connection still knows of a sandbox."""
        return is_usable(self._sandbox)

    def _has_lapsed(self, why: str) -> None:
        """It was taken away."""
        self._why = why

    def _was_called(self) -> float | None:
        """When a call last began or ended, if that is news."""
        last = last_call(self._sandbox)
        if last == self._seen:
            return None
        self._seen = last
        return last
