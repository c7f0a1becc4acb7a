"""Signs of life of a sandbox, for those who look after many: `Pool`, and the manager."""

from paddock.sandbox.sandbox import Sandbox


def is_usable(sandbox: Sandbox) -> bool:
    """Whether calls can still succeed: it was not closed, and has not ended under us."""
    return not sandbox._gate.closed and sandbox._core.launched.driver.error is None


def last_call(sandbox: Sandbox) -> float:
    """When a call through this object last began or ended, by `time.perf_counter`."""
    return sandbox._gate.pulse.last


async def in_use(sandbox: Sandbox) -> bool:
    """Whether something goes on in it just now: a command, a long file call, a watch."""
    return await sandbox._core.in_use()
