"""A manager whose sandboxes are containers: the same as everywhere, and the engine knows who lives."""

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docker.test_ends import gone, left_in_state
from engines.daemon import Engine
from paddock import Manager, Sandbox
from paddock.backends.docker import Docker
from paddock.state import runtime_path

_WORK = """
import asyncio, random, sys
from paddock import ClosedError, LimitReachedError, Manager, SandboxDiedError
from paddock.backends.docker import Docker

async def work(m, worker, chance):
    for count in range(10_000):
        chat = chance.choice(["c0", "c1"])
        try:
            async with m.get_or_create("u", chat, policy="session") as lease:
                await lease.sandbox.write(f"{worker}-{count}", "x")
                print("wrote", chat, f"{worker}-{count}", flush=True)
            if chance.randrange(3) == 0:
                await chance.choice([m.stop, m.remove])("u", chat)
        except (LimitReachedError, SandboxDiedError, ClosedError):
            pass

async def main():
    async with Manager(backend=Docker(socket=sys.argv[1]), image="busybox", max_total=2) as m:
        print("open", flush=True)
        chance = random.Random(int(sys.argv[2]))
        await asyncio.gather(*(work(m, worker, chance) for worker in range(3)))

asyncio.run(main())
"""


async def test_one_for_a_key_and_files_that_stay(docker_engine: Engine, backend: Docker) -> None:
    async with Manager(backend=backend) as manager:

        async def request(number: int) -> str:
            async with manager.get_or_create("alice", "chat", policy="session") as lease:
                await lease.sandbox.exec(f"echo {number} > {number}", check=True)
                return lease.sandbox.id

        assert len(set(await asyncio.gather(*map(request, range(5))))) == 1
        assert len(docker_engine.api.held()) == 1
        await manager.stop("alice", "chat")
        assert docker_engine.api.held() == []
        async with manager.get_or_create("alice", "chat", policy="session") as lease:
            assert await lease.sandbox.list() == ["0", "1", "2", "3", "4"]
        await manager.remove("alice", "chat")
    assert docker_engine.api.held() == []


async def test_an_engine_that_ended_it(docker_engine: Engine, backend: Docker) -> None:
    async with Manager(backend=backend) as manager:
        async with manager.get_or_create("alice", "chat", policy="session") as lease:
            first = lease.sandbox.id
            await lease.sandbox.write("f", "kept")
        docker_engine.api.call("DELETE", f"/containers/paddock-{first}", force="1")
        async with manager.get_or_create("alice", "chat", policy="session") as lease:
            assert lease.sandbox.id != first
            assert await lease.sandbox.read("f") == "kept"
        assert (await manager.stats()).total == 1
        await manager.remove("alice", "chat")


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 51))])
async def test_killed_at_work(docker_engine: Engine, backend: Docker, seed: int) -> None:
    """The next one finds what runs, every file, and no second sandbox for a key; nothing is left in the end."""
    words = [sys.executable, "-c", _WORK, str(docker_engine.socket), str(seed)]
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"open\n"
    await asyncio.sleep(random.Random(seed).uniform(0, 2))
    process.send_signal(signal.SIGKILL)
    said = (await process.stdout.read()).decode().splitlines()
    await process.wait()
    async with Manager(backend=backend, image="busybox") as manager:
        for _ in range(100):  # one that was half made may just be ending
            await manager.sweep()
            running = {info.sandbox for info in await manager.list() if info.state == "running"}
            living = await Sandbox.find()
            if {info.id for info in living} == running:
                break
            await asyncio.sleep(0.05)
        assert {info.id for info in living} == running
        assert len({info.labels["paddock.key"] for info in living}) == len(living)
        assert str(runtime_path()) not in Path("/proc/self/mountinfo").read_text()
        for chat in ("c0", "c1"):
            async with manager.get_or_create("u", chat, policy="session") as lease:
                there = set(await lease.sandbox.list())
                assert {line.split()[2] for line in said if line.startswith(f"wrote {chat} ")} <= there
            await manager.remove("u", chat)
    assert await gone(docker_engine)
    assert left_in_state() == []
