"""`Manager`: sandboxes for many users, each made once, kept as long as its policy says."""

import builtins
import os
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from paddock.audit import Events
from paddock.config import (
    BACKEND,
    CLEAN_AT,
    IDLE_TIMEOUT,
    LIFETIME,
    MAX_TOTAL,
    ONESHOT_LIFETIME,
    POLICY,
    RETENTION,
    STOP_AFTER,
    SWEEP_EVERY,
)
from paddock.driver import BackendSpec
from paddock.errors import ClosedError
from paddock.finishing import in_thread, to_the_end
from paddock.manager import overview
from paddock.manager.asking import Asking
from paddock.manager.clock import Clock, SystemClock
from paddock.manager.keys import keys, place
from paddock.manager.lease import Lease
from paddock.manager.policies import GRACE
from paddock.manager.running import Running
from paddock.manager.settings import Settings, chosen, chosen_unless_none, policy_name, seconds
from paddock.sandbox.layout import HostPath
from paddock.state import manager_directory
from paddock.types import ManagedInfo, ManagerStats, Removal, WorkspaceInfo
from paddock.types.mounts import host_path

if TYPE_CHECKING:
    import asyncio


class Leasing:
    """A lease about to be there: await it, or enter it with `async with` to have it released at the end of the block."""

    def __init__(self, take: Callable[[], Coroutine[Any, Any, Lease]]) -> None:
        self._take = take
        self._lease: Lease | None = None

    def __await__(self) -> Generator[Any, None, Lease]:
        return self._take().__await__()

    async def __aenter__(self) -> Lease:
        self._lease = await self._take()
        return self._lease

    async def __aexit__(self, *_: Any) -> None:
        if self._lease is not None:
            await self._lease.release()

    def __getattr__(self, name: str) -> NoReturn:
        call = "manager.get_or_create()"
        raise AttributeError(f"{call} was not awaited: use `lease = await {call}` before `.{name}`.")


class Manager:
    """Sandboxes for many users: one for each chat, or for each workspace that chats share, made when first asked for.

    Use it with `async with`, or `open` and `close` it. There is one for each state directory: a second is a `ConflictError`.
    The arguments that are not its own are those of `Sandbox.create`, for every sandbox that it makes.
    """

    def __init__(
        self,
        state: HostPath | None = None,
        *,
        backend: str | BackendSpec = BACKEND,
        policy: str = POLICY,
        max_total: int = MAX_TOTAL,
        max_per_user: int | None = None,
        idle_timeout: float | None = IDLE_TIMEOUT,
        stop_after: float | None = STOP_AFTER,
        lifetime: float | None = LIFETIME,
        oneshot_lifetime: float | None = ONESHOT_LIFETIME,
        grace: float = GRACE,
        retention: float | None = RETENTION,
        clean_at: str | None = CLEAN_AT,
        sweep_every: float | None = SWEEP_EVERY,
        quota: int | str | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self._settings = Settings(
            policy=policy_name(chosen("policy", policy)),
            max_total=chosen("max_total", max_total, "manager_max"),
            max_per_user=chosen_unless_none("max_per_user", max_per_user),
            idle_timeout=chosen("idle_timeout", idle_timeout, "idle_timeout"),
            stop_after=chosen("stop_after", stop_after),
            lifetime=chosen("lifetime", lifetime),
            oneshot_lifetime=chosen("oneshot_lifetime", oneshot_lifetime),
            grace=seconds("grace", grace),
            retention=chosen("retention", retention),
            clean_at=chosen("clean_at", clean_at),
            sweep_every=chosen("sweep_every", sweep_every),
            quota=chosen_unless_none("quota", quota),
        )
        self._asking = Asking(self._settings, backend, options)
        self._directory = manager_directory() if state is None else Path(os.path.abspath(host_path(state))) / "manager"
        self._clock = SystemClock() if clock is None else clock
        self._running: Running | None = None
        self._opening: asyncio.Lock | None = None
        self._closed = False

    async def open(self) -> None:
        """Take over what runs already, and begin to look after it. Opening again is fine; `async with` does it."""
        async with self._opening_or_closing():
            if self._running is None and not self._closed:
                self._running = await Running.begun(self._directory, self._settings, self._clock)
            if self._closed:
                raise _is_closed()

    async def close(self) -> None:
        """Release every lease and let go. Sandboxes run on, but for those of `oneshot`: the next manager finds them."""
        self._closed = True
        await to_the_end(self._end())

    async def _end(self) -> None:
        if self._running is not None and not self._running.keeper.is_ours:
            return
        async with self._opening_or_closing():  # one that is being opened would have the directory for ever
            if self._running is not None:
                await self._running.end()

    def _opening_or_closing(self) -> "asyncio.Lock":
        import asyncio

        if self._opening is None:
            self._opening = asyncio.Lock()
        return self._opening

    async def __aenter__(self) -> "Manager":
        await self.open()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Manager of {self._directory}{' (closed)' if self._closed else ''}>"

    # Sandboxes

    def get_or_create(
        self,
        user: str,
        chat: str,
        *,
        policy: str | None = None,
        assistant: str | None = None,
        workspace: str | None = None,
        idle_timeout: float | None = None,
        lifetime: float | None = None,
        quota: float | str | None = None,
        **options: Any,
    ) -> Leasing:
        """A lease on the sandbox of a chat, which is made if there is none.

        `await` it, or use `async with`. However many ask at once, there is one sandbox. `policy` is `oneshot`, `session`,
        `longrunning` or `persistent`; without one it is that of the sandbox that there is, or else the default. A named
        `workspace` is shared by the user's chats; with the last two policies the sandbox is, too. `quota` is instead of the
        manager's own; with `math.inf` there is none. Other arguments are those of `Sandbox.create`, and are copied.
        """
        times = (idle_timeout, lifetime)
        ask = self._asking.ask(user, chat, policy, assistant, workspace, times, quota, options)
        known = keys(user, chat, assistant, workspace) if policy is None and times == (None, None) else ()
        return Leasing(lambda: self._open_one().lease(ask, known))

    async def stop(self, user: str, chat: str, *, assistant: str | None = None, workspace: str | None = None) -> None:
        """End a sandbox and all that runs in it; its workspace stays, and it starts again when it is asked for."""
        await self._put_away("stop", user, chat, assistant, workspace)

    async def remove(self, user: str, chat: str, *, assistant: str | None = None, workspace: str | None = None) -> None:
        """End a sandbox and forget it. Its workspace stays; nothing being there is fine."""
        await self._put_away("remove", user, chat, assistant, workspace)

    async def list(self, user: str | None = None) -> builtins.list[ManagedInfo]:
        """The sandboxes of a user, or of all, the oldest first; also those that are stopped."""
        running = self._open_one()
        return await running.do(running.infos(user))

    async def stats(self) -> ManagerStats:
        """How many there are, by state, policy and user, and how many there may be; and what the workspaces hold."""
        running = self._open_one()
        keeper = running.keeper
        infos = await running.do(running.infos(None))
        leases = sum(len(slot.leases) for slot in keeper.slots.values())
        return await running.do(in_thread(overview.stats, infos, leases, keeper.places, keeper.workspaces))

    def events(self) -> Events:
        """What the manager does from now on, until it closes."""
        return self._open_one().keeper.teller.listen()

    # Workspaces

    async def workspaces(self, user: str | None = None) -> builtins.list[WorkspaceInfo]:
        """The workspaces of a user, or of all. They stay when their sandbox ends, until nobody used them for `retention`."""
        running = self._open_one()
        infos = await running.do(running.keeper.workspaces.infos())
        return [info for info in infos if user in (None, info.user)]

    async def delete_workspace(self, id: str, *, force: bool = False) -> None:
        """Remove a workspace with all that is in it. While something uses it that is a `ConflictError`, unless `force`."""
        running = self._open_one()
        await running.do(running.delete_workspace(id, force))

    # Looking after them

    async def sweep(self, *, dry_run: bool = False) -> builtins.list[Removal]:
        """Stop and remove the sandboxes that are due, as happens every `sweep_every` seconds; what that was."""
        running = self._open_one()
        return await running.do(running.sweeper.sweep(dry_run=dry_run))

    async def clean(self, *, dry_run: bool = False) -> builtins.list[Removal]:
        """Sweep, and remove workspaces that nobody used for `retention`; what that was, or with `dry_run` would be."""
        running = self._open_one()
        return await running.do(running.clean(dry_run))

    async def _put_away(
        self, action: Literal["stop", "remove"], user: str, chat: str, assistant: str | None, workspace: str | None
    ) -> None:
        """With a workspace both the sandbox that its chats share and that of this chat, if it is the one with it."""
        running = self._open_one()
        only = None if workspace is None else place(user, chat, workspace).id
        await running.do(running.put_away(keys(user, chat, assistant, workspace), action, only))

    def _open_one(self) -> Running:
        if self._closed:
            raise _is_closed()
        if self._running is None:
            raise ClosedError("The manager is not open.", hint="Use `async with Manager() as manager`, or open().")
        if not self._running.keeper.is_ours:
            raise ClosedError("The manager belongs to the process that forked this one.", hint="Ask that one.")
        return self._running


def _is_closed() -> ClosedError:
    return ClosedError("The manager is closed.", hint="Make a new one.")
