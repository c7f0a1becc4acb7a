"""Which limit ended a command: told of those that failed."""

import asyncio
import errno
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from paddock import ExecTimeoutError, Limits, QuotaExceededError, Sandbox, TooLargeError
from paddock.backends.supervised.blame import Blame
from paddock.backends.supervised.running import _why_not
from paddock.errors import LimitReachedError
from paddock.sandbox.failures import typed
from paddock.wire.frames import Stage

LARGE_FILE = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)"
LARGE_FILE += "; resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)); open('f', 'wb').write(b'x' * 100)"


class Counters:
    """The counters of a sandbox, as its cgroup would have them."""

    def __init__(self) -> None:
        self.now = {"memory": 3, "pids": 2}
        self.reads = 0

    def __call__(self) -> dict[str, int]:
        self.reads += 1
        return dict(self.now)


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
async def sb(counters: Counters) -> AsyncIterator[Sandbox]:
    async with Sandbox.create("local") as sb:
        sb._core.launched.driver._blame = Blame(counters)  # type: ignore[attr-defined]
        counters.reads = 0
        yield sb


async def test_a_command_that_succeeds_is_looked_at_once(sb: Sandbox, counters: Counters) -> None:
    assert (await sb.exec("true")).limit is None
    assert counters.reads == 1


async def test_a_limit_that_others_met_before(sb: Sandbox, counters: Counters) -> None:
    """As a part of a command that came to a good end did, or what an earlier one has left running."""
    counters.now["memory"] += 1
    assert (await sb.exec("false")).limit is None


@pytest.mark.parametrize("code", [1, 137])
@pytest.mark.parametrize("limit", ["memory", "pids"])
async def test_a_limit_that_was_met(sb: Sandbox, counters: Counters, limit: str, code: int) -> None:
    process = await sb.start(f"read x; exit {code}", stdin=True)
    counters.now[limit] += 1
    await process.write("go\n")
    assert (await process.wait()).limit == limit
    assert (await sb.exec(f"exit {code}")).limit is None


async def test_memory_comes_first(sb: Sandbox, counters: Counters) -> None:
    process = await sb.start("read x; exit 1", stdin=True)
    counters.now = {"memory": 4, "pids": 50}
    await process.write("go\n")
    assert (await process.wait()).limit == "memory"


async def test_all_that_failed_are_told(sb: Sandbox, counters: Counters) -> None:
    processes = [await sb.start(f"read x; exit {code}", stdin=True) for code in (137, 0, 1)]
    counters.now["memory"] += 1
    for process in processes:
        await process.write("go\n")
    results = await asyncio.gather(*(process.wait() for process in processes))
    assert [result.limit for result in results] == ["memory", None, "memory"]


async def test_what_we_end_ourselves_met_no_limit(sb: Sandbox, counters: Counters) -> None:
    counters.now["memory"] += 1
    with pytest.raises(ExecTimeoutError) as late:
        await sb.exec("sleep 60", timeout=0.1)
    assert late.value.result is not None
    assert late.value.result.limit is None


async def test_a_file_that_is_too_large() -> None:
    async with Sandbox.create("local") as sb:
        result = await sb.exec([sys.executable, "-SEc", LARGE_FILE])
    assert (result.exit_code, result.limit) == (128 + signal.SIGXFSZ, "file_size")


@pytest.mark.parametrize(
    ("code", "limit"), [(errno.EAGAIN, "pids"), (errno.ENOMEM, "memory"), (errno.EMFILE, "open_files")]
)
def test_commands_that_cannot_be_started(code: int, limit: str) -> None:
    error = _why_not(code, Stage.RESOURCES)
    assert isinstance(error, LimitReachedError)
    assert error.limit == limit


def test_no_more_terminals() -> None:
    error = _why_not(errno.ENOSPC, Stage.RESOURCES, terminal=True)
    assert isinstance(error, LimitReachedError)
    assert error.limit == "terminals"
    assert "no more terminals on this host" in str(error)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_what_to_do(code: int) -> None:
    error = typed(OSError(code, "full"), "/workspace/f")
    assert isinstance(error, QuotaExceededError)
    assert str(error) == (
        "'/workspace/f' does not fit: the disk is full. "
        "Delete something, or create the sandbox with larger limits on disk and tmp."
    )


async def test_a_large_file_says_what_to_do() -> None:
    async with Sandbox.create("memory", limits=Limits(file_size=10)) as sb:
        with pytest.raises(TooLargeError, match=r"larger Limits\.file_size"):
            await sb.write("f", b"x" * 11)
        await sb.write("f", b"x" * 10)
