"""What a sweep removes, by a clock that is turned: exactly what the policy says."""

import asyncio
import os
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from manager.fakes import FakeClock, World
from paddock import ClosedError, Lease, Manager
from paddock.manager.clock import SteadyTime, next_time_of_day
from paddock.manager.watching import Watcher

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
POLICIES = ("oneshot", "session", "longrunning", "persistent")


def manager(clock: FakeClock, **more: Any) -> Manager:
    return Manager(backend="fake", clock=clock, sweep_every=None, **more)


async def states(m: Manager) -> dict[str, str]:
    return {info.chat: info.state for info in await m.list()}


async def test_each_policy_by_the_clock(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        for policy in POLICIES:
            async with m.get_or_create("alice", policy, policy=policy):
                pass
        assert await states(m) == dict.fromkeys(POLICIES[1:], "running")
        clock.advance(30 * MINUTE - 1)
        assert await m.sweep() == []
        clock.advance(1)
        (removal,) = await m.sweep(dry_run=True)
        assert (removal.action, removal.chat, removal.what) == ("remove", "session", "sandbox")
        assert "1800 seconds" in removal.reason
        assert await m.sweep() == [removal]
        assert await states(m) == {"longrunning": "running", "persistent": "running"}
        clock.advance(2 * HOUR - 30 * MINUTE)
        (removal,) = await m.sweep()
        assert (removal.action, removal.chat) == ("stop", "longrunning")
        assert await states(m) == {"longrunning": "stopped", "persistent": "running"}
        clock.advance(7 * DAY)
        assert [removal.action for removal in await m.sweep()] == ["remove"]
        clock.advance(1000 * DAY)
        assert await m.sweep() == []
        assert await states(m) == {"persistent": "running"}


async def test_a_request_brings_times_of_its_own(world: World, clock: FakeClock) -> None:
    async with manager(clock, policy="session", idle_timeout=None) as m:
        async with m.get_or_create("alice", "never"), m.get_or_create("alice", "soon", idle_timeout=5):
            pass
        async with m.get_or_create("alice", "short", lifetime=50):
            pass
        clock.advance(5)
        await m.sweep()
        assert await states(m) == {"never": "running", "short": "running"}
        clock.advance(DAY)
        await m.sweep()
        assert await states(m) == {"never": "running"}


async def test_calls_and_heartbeats_are_use(world: World, clock: FakeClock) -> None:
    async with manager(clock, policy="session") as m:
        lease = await m.get_or_create("alice", "chat")
        for use in ("heartbeat", "call", "command"):
            clock.advance(20 * MINUTE)
            if use == "heartbeat":
                lease.heartbeat()
            elif use == "call":
                await lease.sandbox.exists("f")
                await m.list()
            else:
                world.busy.add(lease.sandbox.id)
                clock.advance(10 * MINUTE)
            clock.advance(20 * MINUTE)
            assert await m.sweep() == [], use
        clock.advance(30 * MINUTE)
        assert await m.sweep() == []  # the command still runs
        world.busy.clear()
        clock.advance(30 * MINUTE)
        assert len(await m.sweep()) == 1  # a lease that nobody uses is one that somebody forgot
        with pytest.raises(ClosedError, match="not used for 1800 seconds"):
            lease.heartbeat()
        await lease.release()
        async with m.get_or_create("alice", "chat"):
            pass


async def test_the_safety_net_of_a_oneshot(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        lease = await m.get_or_create("alice", "chat")
        clock.advance(8 * HOUR - 1)
        lease.heartbeat()
        assert await m.sweep() == []
        clock.advance(1)
        assert len(await m.sweep()) == 1
        await lease.release()


async def test_a_lifetime_has_a_grace_for_leases(world: World, clock: FakeClock) -> None:
    async with manager(clock, policy="longrunning", lifetime=DAY) as m:
        lease = await m.get_or_create("alice", "chat")
        async with m.get_or_create("alice", "free"):
            pass
        clock.advance(DAY)
        lease.heartbeat()
        assert [removal.chat for removal in await m.sweep()] == ["free"]
        clock.advance(5 * MINUTE - 1)
        assert await m.sweep() == []
        clock.advance(1)
        assert [removal.chat for removal in await m.sweep()] == ["chat"]
        await lease.release()


# Against a model


@dataclass
class Model:
    """What should be there, in a few lines."""

    now: float = 0.0
    boxes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def ask(self, chat: str) -> None:
        box = self.boxes.setdefault(chat, {"made": self.now, "leases": 0})
        box.update(state="running", used=self.now, leases=box["leases"] + 1)

    def release(self, chat: str) -> None:
        box = self.boxes[chat]
        box.update(used=self.now, leases=box["leases"] - 1)
        if policy_of(chat) == "oneshot" and not box["leases"]:
            del self.boxes[chat]

    def sweep(self) -> None:
        for chat, box in list(self.boxes.items()):
            policy, idle, age = policy_of(chat), self.now - box["used"], self.now - box["made"]
            most = {"oneshot": 8 * HOUR, "longrunning": 7 * DAY}.get(policy, float("inf"))
            grace = 5 * MINUTE if box["leases"] and policy == "longrunning" else 0
            if age >= most + grace or (policy == "session" and idle >= 30 * MINUTE):
                del self.boxes[chat]
            elif policy == "longrunning" and idle >= 2 * HOUR:
                box.update(state="stopped", leases=0)


def policy_of(chat: str) -> str:
    return chat.split("-")[0]


CHATS = [f"{policy}-{n}" for policy in POLICIES for n in range(2)]
STEPS = some.lists(
    some.one_of(
        some.tuples(some.sampled_from(["ask", "release", "beat"]), some.sampled_from(CHATS)),
        some.tuples(some.just("wait"), some.sampled_from([1.0, 10 * MINUTE, 31 * MINUTE, 2 * HOUR, 9 * HOUR, 4 * DAY])),
        some.tuples(some.just("sweep"), some.none()),
        some.tuples(some.just("restart"), some.none()),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_sweep_removes_what_the_policy_says(steps: list[tuple[str, Any]], world: World) -> None:
    with TemporaryDirectory() as place:
        asyncio.run(_agree(steps, Path(place)))


class Pair:
    """A manager and the model of it, which do the same."""

    def __init__(self, place: Path) -> None:
        self.place, self.clock, self.model = place, FakeClock(), Model()
        self.leases: dict[str, list[Lease]] = {}
        self.m = manager(self.clock, state=place)

    async def ask(self, chat: str) -> None:
        self.model.ask(chat)
        self.leases.setdefault(chat, []).append(await self.m.get_or_create("u", chat, policy=policy_of(chat)))

    async def release(self, chat: str) -> None:
        if self.leases.get(chat):
            self.model.release(chat)
            await self.leases[chat].pop().release()

    async def beat(self, chat: str) -> None:
        if self.leases.get(chat):
            self.model.boxes[chat]["used"] = self.model.now
            self.leases[chat][-1].heartbeat()

    async def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds

    async def sweep(self, _: None) -> None:
        await self.m.sweep()
        self.model.sweep()

    async def restart(self, _: None) -> None:
        await self.m.close()
        for chat, held in self.leases.items():
            for _lease in held:
                self.model.release(chat)
        self.m = manager(self.clock, state=self.place)
        await self.m.open()
        self.model.sweep()

    async def agree(self) -> None:
        boxes = self.model.boxes
        found = {info.chat: (info.state, info.leases) for info in await self.m.list()}
        assert found == {chat: (box["state"], box["leases"]) for chat, box in boxes.items()}
        assert (await self.m.stats()).total == sum(box["state"] == "running" for box in boxes.values())
        self.leases = {chat: held for chat, held in self.leases.items() if boxes.get(chat, {}).get("leases")}


async def _agree(steps: list[tuple[str, Any]], place: Path) -> None:
    pair = Pair(place)
    await pair.m.open()
    for what, value in steps:
        await getattr(pair, what)(value)
        await pair.agree()
    for info in await pair.m.list():
        await pair.m.remove(info.user, info.chat)
    await pair.m.close()


# Workspaces, and the time of day


async def test_retention(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        for chat, policy in (("old", "oneshot"), ("kept", "persistent"), ("stopped", "longrunning")):
            async with m.get_or_create("alice", chat, policy=policy) as lease:
                await lease.sandbox.write("f", "x")
        clock.advance(3 * HOUR)
        await m.sweep()
        await m.stop("alice", "kept")
        clock.advance(6 * DAY)
        async with m.get_or_create("alice", "new"):
            pass
        assert [removal.what for removal in await m.clean()] == []
        held = await m.get_or_create("alice", "held", policy="persistent")
        clock.advance(DAY)
        would = await m.clean(dry_run=True)
        assert {removal.chat for removal in would if removal.what == "workspace"} == {"old", "stopped"}
        assert len(await m.workspaces()) == 5
        assert {removal.chat for removal in await m.clean()} >= {"old", "stopped"}
        assert {info.chat for info in await m.workspaces()} == {"kept", "new", "held"}
        assert await states(m) == {"kept": "stopped", "held": "running"}
        clock.advance(100 * DAY)
        held.heartbeat()
        await m.clean()
        assert {info.chat for info in await m.workspaces()} == {"kept", "held"}
        await held.release()


async def test_a_clock_that_is_set(world: World, clock: FakeClock) -> None:
    async with manager(clock, policy="session") as m:
        async with m.get_or_create("alice", "chat"):
            pass
        clock.wall += 1000 * DAY
        assert await m.clean() == []
        assert len(await m.list()) == 1
        clock.wall -= 2000 * DAY
        assert await m.clean() == []
        clock.advance(30 * MINUTE)
        assert len(await m.clean()) == 1
    assert SteadyTime(clock).since(clock.wall + DAY) == 0


async def test_a_workspace_from_the_future_grows_old_too(world: World, clock: FakeClock) -> None:
    clock.wall += 1000 * DAY
    async with manager(clock) as m, m.get_or_create("alice", "chat"):
        pass
    clock.wall -= 1000 * DAY
    async with manager(clock) as m:
        assert await m.clean() == []
        clock.advance(7 * DAY)
        assert len(await m.clean()) == 1


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("now", "at", "then"),
    [
        ("2027-01-10 02:00", "03:00", "2027-01-10 03:00"),
        ("2027-01-10 03:00", "03:00", "2027-01-11 03:00"),
        ("2027-12-31 23:59", "03:00", "2028-01-01 03:00"),
        ("2027-03-28 00:00", "02:30", "2027-03-28 03:30"),  # there is no half past two that night
        ("2027-10-31 00:00", "02:30", "2027-10-31 02:30"),  # and here there are two
    ],
)
@pytest.mark.usefixtures("berlin")
def test_the_time_of_day(now: str, at: str, then: str) -> None:
    found = next_time_of_day(_moment(now), at)
    assert datetime.fromtimestamp(found).strftime("%Y-%m-%d %H:%M") in (then, then.replace("03:30", "01:30"))
    assert found > _moment(now)
    assert 20 * HOUR < next_time_of_day(found, at) - found < 28 * HOUR


def _moment(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%d %H:%M"))


async def test_the_watcher_cleans_once_a_day(tmp_path: Path, clock: FakeClock) -> None:
    done: list[str] = []

    async def sweep() -> None:
        done.append("sweep")

    async def clean() -> None:
        done.append("clean")

    clock.wall = _moment("2027-01-10 02:59")
    watcher = Watcher(clock, tmp_path, 30, "03:00")
    await watcher.look(sweep, clean)
    clock.advance(60)
    for _ in range(3):
        await watcher.look(sweep, clean)
    assert done.count("clean") == 1
    again = Watcher(clock, tmp_path, 30, "03:00")
    await again.look(sweep, clean)
    assert done.count("clean") == 1
    clock.advance(3 * DAY)
    await Watcher(clock, tmp_path, 30, "03:00").look(sweep, clean)  # what was missed is made up for
    assert done.count("clean") == 2
    watcher = Watcher(clock, tmp_path, 30, "03:00")
    clock.wall -= 300 * DAY
    await watcher.look(sweep, clean)
    clock.advance(DAY)
    await watcher.look(sweep, clean)
    assert done.count("clean") == 3


async def test_the_watcher_goes_on_after_an_error(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    looked = 0

    async def sweep() -> None:
        nonlocal looked
        looked += 1
        raise OSError("no")

    async def clean() -> None: ...

    task = asyncio.ensure_future(Watcher(clock, tmp_path, 30, None).run(sweep, clean))
    while looked < 3:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert "a sweep failed" in caplog.text
    assert os.listdir(tmp_path) == []


async def test_it_looks_by_itself(world: World, clock: FakeClock) -> None:
    async with Manager(backend="fake", clock=clock, policy="session", sweep_every=60) as m:
        async with m.get_or_create("alice", "chat"):
            pass
        while await m.list():
            await asyncio.sleep(0)
        assert world.held == {}
