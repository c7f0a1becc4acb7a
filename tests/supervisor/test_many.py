"""Very many commands at once, with few descriptors too."""

import asyncio
import os
import resource
from collections.abc import Iterator

import pytest

import descriptors
from paddock import LimitReachedError, Sandbox
from paddock.backends.local import Local

COUNT = 1_000


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, old[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, old)


async def _run(mode: Local) -> None:
    async with Sandbox.create(mode, timeout=100) as sb:
        before = descriptors.count()
        results = await asyncio.gather(*(sb.exec(["echo", str(n)]) for n in range(COUNT)))
        assert [result.stdout for result in results] == [f"{n}\n" for n in range(COUNT)]
        await asyncio.sleep(0.05)
        assert await descriptors.soon_back_to(before)


async def test_at_once(owner: Local) -> None:
    await _run(owner)


@pytest.mark.usefixtures("few_descriptors")
async def test_with_few_descriptors(mode: Local) -> None:
    await _run(mode)


@pytest.mark.usefixtures("few_descriptors")
async def test_all_alive_with_few_descriptors(mode: Local) -> None:
    """They wait for each other, so that all of them run at the same time."""
    async with Sandbox.create(mode, timeout=100) as sb:
        waiting = [
            asyncio.ensure_future(sb.exec("echo begun; while [ ! -e go ]; do sleep 0.5; done")) for _ in range(200)
        ]
        async with asyncio.timeout(60):
            while len(await sb.processes()) < 200:
                await asyncio.sleep(0.05)
        await sb.write("go", "")
        assert {result.stdout for result in await asyncio.gather(*waiting)} == {"begun\n"}


async def test_no_descriptors_left_in_the_supervisor(mode: Local) -> None:
    """Commands that there is no room for are refused, and the others run on."""
    async with Sandbox.create(mode, timeout=100) as sb:
        supervisor = next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_ours(pid))
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (32, 32))
        results = await asyncio.gather(*(sb.exec(["sleep", "0.3"]) for _ in range(60)), return_exceptions=True)
        refused = [result for result in results if isinstance(result, BaseException)]
        assert 0 < len(refused) < 60
        assert all(isinstance(error, LimitReachedError) for error in refused)
        assert (await sb.exec(["echo", "still here"])).stdout == "still here\n"


def _is_ours(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as cmdline, open(f"/proc/{pid}/stat", "rb") as stat:
            return b"paddock-init" in cmdline.read() and int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid()
    except OSError:
        return False
