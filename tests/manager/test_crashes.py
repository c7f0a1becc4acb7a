"""A manager that ends in any way: the next one goes on, and nothing is lost, left, or there twice."""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

import detached
from manager.fakes import FakeClock, World
from paddock import ClosedError, ConflictError, Manager, Sandbox, state
from paddock.manager import locks
from paddock.manager.asking import MANAGER
from paddock.manager.reading import managed

HERE = "namespaces"
POLICIES = ("oneshot", "session", "longrunning", "persistent")

WORK = """
import random
chance = random.Random(int(sys.argv[1]))
policies = ("oneshot", "session", "longrunning", "persistent")

async def work(m, worker):
    for count in range(10_000):
        chat = chance.randrange(4)
        user, name = f"u{chance.randrange(2)}", f"{worker}-{count}"
        try:
            async with m.get_or_create(user, f"c{chat}", policy=policies[chat]) as lease:
                await lease.sandbox.write(name, name)
                print("wrote", user, f"c{chat}", name, flush=True)
                if chance.randrange(3) == 0:
                    await lease.sandbox.start("sleep 1000")
            if chance.randrange(4) == 0:
                await chance.choice([m.stop, m.remove])(user, f"c{chat}")
        except (LimitReachedError, SandboxDiedError, ClosedError):
            pass

async with Manager(backend="namespaces", max_total=5, sweep_every=0.05) as m:
    print("open", flush=True)
    await asyncio.gather(*(work(m, worker) for worker in range(4)))
"""


async def _killed(seed: int, seconds: float) -> list[str]:
    """A manager at work, killed after so long; what it said it had written."""
    worker = detached.program(WORK, str(seed))
    assert detached.first_line(worker) == "open"
    await asyncio.sleep(seconds)
    worker.kill()
    said, errors = worker.communicate()
    assert worker.returncode == -signal.SIGKILL, errors
    return [line for line in said.splitlines() if line.startswith("wrote ") and len(line.split()) == 4]


async def _killed_early(seed: int, seconds: float) -> None:
    """Another one, killed while it takes over what the first has left; or before that, or after."""
    worker = detached.program(WORK, str(seed))
    await asyncio.sleep(seconds)
    worker.kill()
    worker.communicate()


async def _survives(seed: int, seconds: float, tmp_path: Path) -> None:
    wrote = await _killed(seed, seconds)
    await _killed_early(seed + 1000, 0.2 + seconds / 2)
    async with Manager(backend=HERE) as m:
        running = {info.sandbox for info in await m.list() if info.state == "running"}
        living = await Sandbox.find()
        assert {info.id for info in living} == running
        assert max(Counter(info.labels["paddock.key"] for info in living).values(), default=0) <= 1
        assert (await m.stats()).total == len(running)
        places = {(info.user, str(info.chat)): Path(info.path) for info in await m.workspaces()}
        for line in wrote:
            _, user, chat, name = line.split()
            assert (places[user, chat] / name).read_text() == name
        for user, chat in list(places):
            policy = POLICIES[int(chat[1:])]
            async with m.get_or_create(user, chat, policy=policy) as lease:
                assert (await lease.sandbox.exec("ls | wc -l")).stdout.strip() == str(
                    len(list(places[user, chat].iterdir()))
                )
            await m.remove(user, chat)
        assert (await m.list(), await Sandbox.find()) == ([], [])
    await _nothing_left(tmp_path)


async def _nothing_left(tmp_path: Path) -> None:
    async def is_clear() -> bool:
        return detached.left() == [] and detached.seeing(str(tmp_path)) == []

    await detached.until(is_clear, "something is left")
    manager = state.manager_directory()
    assert list((manager / "entries").iterdir()) == []
    assert [path for path in (manager / "workspaces").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("seed", range(5))
async def test_killed_at_a_random_moment(seed: int, tmp_path: Path) -> None:
    await _survives(seed, random.Random(seed).uniform(0.0, 0.5), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5, 55))
async def test_killed_at_many_moments(seed: int, tmp_path: Path) -> None:
    await _survives(seed, random.Random(seed).uniform(0.0, 1.0), tmp_path)


# Going on


async def test_the_next_one_goes_on_with_the_clocks(world: World, clock: FakeClock) -> None:
    first = Manager(backend="fake", clock=clock, policy="session", sweep_every=None)
    await first.open()
    lease = await first.get_or_create("alice", "chat", idle_timeout=100)
    await lease.sandbox.write("f", "x")
    clock.advance(60)
    lease.heartbeat()
    await first.sweep()  # which notes it
    _killed_here(first)
    clock.advance(60)
    async with Manager(backend="fake", clock=clock, sweep_every=None) as m:
        (info,) = await m.list()
        assert (info.sandbox, info.leases, info.policy) == (lease.sandbox.id, 0, "session")
        assert clock.time() - info.last_used == 60
        clock.advance(39)
        assert await m.sweep() == []
        clock.advance(1)
        assert len(await m.sweep()) == 1


def _killed_here(m: Manager) -> None:
    """As if its process had been: nothing is written any more, and the locks are gone."""
    running = m._running
    assert running is not None
    running._lock.release()
    for slot in running.keeper.slots.values():
        if slot.hold is not None:
            slot.hold.release()


async def test_the_labels_are_enough(world: World, clock: FakeClock) -> None:
    clock.wall = time.time()  # which is when the records say that it was made
    first = Manager(backend="fake", clock=clock, policy="longrunning", sweep_every=None)
    await first.open()
    async with first.get_or_create("al\nice", 'cha"t', assistant="ä") as lease:
        await lease.sandbox.write("f", "x")
    _killed_here(first)
    for path in (state.manager_directory() / "entries").iterdir():
        path.write_text("{")
    async with Manager(backend="fake", clock=clock, policy="longrunning", sweep_every=None) as m:
        (info,) = await m.list()
        assert (info.user, info.chat, info.assistant, info.policy) == ("al\nice", 'cha"t', "ä", "longrunning")
        async with m.get_or_create("al\nice", 'cha"t', assistant="ä") as again:
            assert again.sandbox.id == lease.sandbox.id
            assert await again.sandbox.read("f") == "x"


async def test_orphans_and_half_made_ones_go(world: World, clock: FakeClock) -> None:
    directory = os.path.realpath(state.manager_directory())
    labels = {MANAGER: directory}
    orphan = await Sandbox.create("fake", detached=True, labels=labels)
    other = await Sandbox.create("fake", detached=True, labels={MANAGER: "/another/manager"})
    unmade = Path(directory, "workspaces", ".new-0123")
    unmade.mkdir(parents=True)
    unmade.joinpath("f").write_text("x")
    async with Manager(backend="fake", clock=clock, sweep_every=None) as m:
        assert [info.id for info in await Sandbox.find()] == [other.id]
        assert not unmade.exists()
        late = await Sandbox.create("fake", detached=True, labels=labels)
        await m.sweep()
        assert {info.id for info in await Sandbox.find()} == {other.id}
    for sandbox in (orphan, other, late):
        await sandbox.close()


async def test_one_that_came_up_late_makes_way(world: World, clock: FakeClock) -> None:
    first = Manager(backend="fake", clock=clock, policy="session", sweep_every=None)
    await first.open()
    async with first.get_or_create("alice", "chat") as lease:
        name, labels = lease.sandbox.name, lease.sandbox.labels
    await first.remove("alice", "chat")
    late = await Sandbox.create("fake", detached=True, labels=labels, name=name)
    async with first.get_or_create("alice", "chat") as lease:
        assert [info.id for info in await Sandbox.find()] == [lease.sandbox.id]
    await late.close()
    await first.close()


async def test_what_was_stopped_is_still_known(world: World, clock: FakeClock) -> None:
    for policy in POLICIES:
        async with (
            Manager(backend="fake", clock=clock, sweep_every=None) as m,
            m.get_or_create("alice", policy, policy=policy),
        ):
            pass
    world.end()  # as after a reboot
    async with Manager(backend="fake", clock=clock, sweep_every=None) as m:
        assert {info.chat: info.state for info in await m.list()} == {"longrunning": "stopped", "persistent": "stopped"}
        assert len(await m.workspaces()) == 4
        assert (await m.stats()).total == 0


# Only one


async def test_a_second_one_is_told_who_is_the_first(world: World, clock: FakeClock, tmp_path: Path) -> None:
    async with Manager(backend="fake", clock=clock) as first:
        second = Manager(backend="fake", clock=clock)
        with pytest.raises(ConflictError, match=f"process {os.getpid()}"):
            await second.open()
        async with Manager(tmp_path / "elsewhere", backend="fake", clock=clock) as other:
            assert await other.list() == []
        async with first.get_or_create("alice", "chat"):
            pass
    async with Manager(backend="fake", clock=clock):
        pass


async def test_one_in_another_process() -> None:
    holder = detached.program("async with Manager():\n    print('open', flush=True)\n    await asyncio.sleep(1000)")
    assert detached.first_line(holder) == "open"
    assert locks.holder(state.manager_directory()) == holder.pid
    with pytest.raises(ConflictError, match=f"process {holder.pid}"):
        await Manager().open()
    holder.kill()
    holder.communicate()
    assert locks.holder(state.manager_directory()) is None
    state.manager_directory().joinpath("lock").write_text("1\n")  # the number of somebody who has nothing to do with it
    async with Manager():
        pass


async def test_a_forked_child_holds_nothing() -> None:
    m = Manager(backend=HERE)
    await m.open()
    lease = await m.get_or_create("alice", "chat")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(go[1])
        try:
            m.get_or_create("alice", "chat").__await__().send(None)
        except ClosedError:
            for call in (lease.release(), m.close()):
                try:
                    call.send(None)
                except StopIteration:
                    continue
                except RuntimeError:  # there is no loop in which anything could be done
                    continue
            os.write(ready[1], b"closed")
        os.read(go[0], 1)
        os._exit(0)
    assert os.read(ready[0], 10) == b"closed"
    assert (await lease.sandbox.exec("echo still here")).stdout == "still here\n"
    await lease.release()
    await m.close()
    async with Manager(backend=HERE) as again:  # though the child lives
        await again.clean()
        for info in await again.workspaces():
            await again.delete_workspace(info.id)
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for fd in (*ready, *go):
        os.close(fd)


async def test_a_sandbox_ends_without_a_manager() -> None:
    """Nobody has to come back for it to end: its supervisor knows how long it is kept."""
    wanted = {
        "session": (125, None),
        "longrunning": (7320, 7 * 86400 + 420),
        "oneshot": (420, 8 * 3600 + 120),
        "persistent": (None, None),
    }
    async with Manager(backend=HERE, idle_timeout=5) as m:
        for policy, times in wanted.items():
            async with m.get_or_create("alice", policy, policy=policy):
                (info,) = await Sandbox.find()
                assert tuple(time and round(time, -1) for time in (info.idle_timeout, info.lifetime)) == tuple(
                    time and round(time, -1) for time in times
                )
            await m.remove("alice", policy)


async def test_its_acts_are_events(
    world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "audit.jsonl"
    monkeypatch.setenv("PADDOCK_AUDIT", str(log))
    async with Manager(backend="fake", clock=clock, policy="session", sweep_every=None) as m:
        async with m.events() as events:
            async with m.get_or_create("alice", "chat") as lease:
                pass
            told = [await anext(events) for _ in range(3)]
            assert [(event.operation, event.sandbox, event.subject) for event in told] == [
                (operation, lease.sandbox.id, "alice/chat") for operation in ("create", "lease", "release")
            ]
        with pytest.raises(ConflictError):
            await m.delete_workspace(lease.info.workspace)
        clock.advance(3600)
        await m.sweep()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    mine = [(line["operation"], line["outcome"]) for line in lines if line["kind"] == "manager"]
    expected = ["open", "create", "lease", "release", "delete_workspace", "remove", "close"]
    assert mine == [(operation, "CONFLICT" if "_" in operation else "ok") for operation in expected]
    (removed,) = [line for line in lines if line["operation"] == "remove" and line["kind"] == "manager"]
    assert removed["target"] == "it was not used for 1800 seconds"


async def test_labels_that_make_no_sense(world: World, clock: FakeClock) -> None:
    """Of another version, or of somebody who plays: such a sandbox is nobody's, and a manager ends it."""
    good = {"paddock.chat": "c", "paddock.workspace": "w", "paddock.options": "o", "paddock.policy": "session"}
    keys = (
        *('{"user": 5, "assistant": null, "scope": "chat", "name": "c"}', "[1]", "5", "no", '{"user": "u"}'),
        *('{"user": "u", "assistant": {"a": {}}, "scope": "chat", "name": "c"}', "[" * 100_000),
        *('{"user": "u", "assistant": null, "scope": ["chat"], "name": "c"}', '"user assistant scope name"'),
    )
    key = '{"user": "u", "assistant": null, "scope": "chat", "name": "c"}'
    marked = [*({**good, "paddock.key": text} for text in keys), {**good, "paddock.key": key, "paddock.policy": "new"}]
    ours = {MANAGER: os.path.realpath(state.manager_directory())}
    made = [await Sandbox.create("fake", detached=True, labels=labels | ours) for labels in marked]
    assert [managed(info) for info in await Sandbox.find()] == [None] * len(marked)
    async with Manager(backend="fake", clock=clock, sweep_every=None) as m:
        assert (await m.list(), await Sandbox.find()) == ([], [])
    for sandbox in made:
        await sandbox.close()
