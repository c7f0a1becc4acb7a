"""One sandbox for a key, however many ask; leases that do not end each other."""

import asyncio
import math
import stat
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from manager.fakes import FakeClock, World
from paddock import (
    ClosedError,
    ConfigError,
    ConflictError,
    Lease,
    Limits,
    Manager,
    Memory,
    NotFoundError,
    QuotaExceededError,
    Sandbox,
    SandboxError,
    UnavailableError,
    UnsupportedError,
    sync,
)
from paddock.manager import leasing
from paddock.manager.about import Workspace
from paddock.manager.measuring import measure
from paddock.manager.workspaces import Workspaces


def manager(clock: FakeClock, **more: Any) -> Manager:
    return Manager(clock=clock, sweep_every=None, **{"backend": "fake", "policy": "session", **more})


async def leased(m: Manager, user: str, chat: str) -> Lease:
    return await m.get_or_create(user, chat)


async def test_ten_at_once_get_one(world: World, clock: FakeClock) -> None:
    world.pause = 0.01
    async with manager(clock) as m:
        leases = await asyncio.gather(*(leased(m, "alice", "chat") for _ in range(10)))
        assert len({lease.sandbox.id for lease in leases}) == 1
        assert world.made == 1
        assert [info.leases for info in await m.list()] == [10]


def test_ten_threads_get_one(world: World, clock: FakeClock) -> None:
    world.pause = 0.01
    found: list[str] = []
    with sync.Manager(backend="fake", policy="session", sweep_every=None) as m:

        def work() -> None:
            with m.get_or_create("alice", "chat") as lease:
                lease.sandbox.write(threading.current_thread().name, "x")
                lease.heartbeat()
                found.append(lease.sandbox.id)

        threads = [threading.Thread(target=work, name=f"t{n}") for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(found), len(set(found)), world.made) == (10, 1, 1)
        with m.get_or_create("alice", "chat") as lease:
            assert len(lease.sandbox.list()) == 10


async def test_the_end_of_one_is_not_the_end_of_another(world: World, clock: FakeClock) -> None:
    async with manager(clock, policy="oneshot") as m:
        first = await m.get_or_create("alice", "chat")
        second = await m.get_or_create("alice", "chat")
        await first.sandbox.set_workdir("/cache")
        assert second.sandbox.workdir == "/workspace"
        await first.release()
        await first.release()
        await second.sandbox.write("f", "still here")
        assert await second.sandbox.read("f") == "still here"
        with pytest.raises(ClosedError):
            await first.sandbox.read("f")
        with pytest.raises(ClosedError):
            first.heartbeat()
        await second.release()
        assert world.held == {}
        assert await m.list() == []


async def test_closing_the_sandbox_of_a_lease_harms_nobody_else(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        first, second = [await m.get_or_create("alice", "chat") for _ in range(2)]
        async with first.sandbox as sb:
            await sb.write("f", "x")
        assert await second.sandbox.read("f") == "x"
        await first.release()


async def test_files_stay_for_the_next_request(world: World, clock: FakeClock) -> None:
    async with manager(clock, policy="oneshot") as m:
        async with m.get_or_create("alice", "chat") as lease:
            await lease.sandbox.write_files({"/workspace/f": "x", "/cache/c": "y"})
        assert world.held == {}
        async with m.get_or_create("alice", "chat") as lease:
            assert (await lease.sandbox.read("f"), await lease.sandbox.read("/cache/c")) == ("x", "y")
        assert world.made == 2


async def test_chats_are_kept_apart(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        for user, chat in (("a-b", "c"), ("a", "b-c"), ("a", "b"), ("A", "b")):
            async with m.get_or_create(user, chat) as lease:
                assert await lease.sandbox.list() == []
                await lease.sandbox.write("f", "x")
        assert len(world.held) == 4
        assert [info.chat for info in await m.list("a")] == ["b", "b-c"]
        assert [info.chat for info in await m.workspaces("a-b")] == ["c"]


async def test_chats_that_share_a_workspace(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        for chat in ("one", "two"):
            async with m.get_or_create("alice", chat, policy="longrunning", workspace="project") as lease:
                await lease.sandbox.write(chat, "x")
        assert world.made == 1
        async with m.get_or_create("alice", "three", workspace="project") as lease:  # a session has one of its own
            assert await lease.sandbox.list() == ["one", "two"]
        assert world.made == 2
        async with m.get_or_create("bob", "one", policy="longrunning", workspace="project") as lease:
            assert await lease.sandbox.list() == []
        (info,) = await m.workspaces("alice")
        assert (info.name, info.chat, info.in_use) == ("project", None, True)
        await m.remove("alice", "any", workspace="project")
        assert [info.chat for info in await m.list("alice")] == ["three"]


async def test_assistants_have_their_own(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        ids = set()
        for assistant in (None, "writer", "coder", "writer"):
            async with m.get_or_create("alice", "chat", assistant=assistant) as lease:
                ids.add(lease.sandbox.id)
        assert len(ids) == 3
        assert len(await m.workspaces()) == 1


# What was asked for


async def test_options_are_copied(world: World, clock: FakeClock) -> None:
    defaults = {"A": "1"}
    async with manager(clock, env=defaults) as m:
        defaults["A"] = "changed"
        env, labels = {"B": "2"}, {"team": "blue"}
        asked = m.get_or_create("alice", "chat", env=env, labels=labels)
        env["B"] = "changed"
        labels["team"] = "changed"
        async with asked as lease:
            assert lease.sandbox.labels["team"] == "blue"
            assert lease.sandbox._core.launched.env == {"B": "2"}
        async with m.get_or_create("alice", "other") as lease:
            assert lease.sandbox._core.launched.env == {"A": "1"}


async def test_other_options_are_another_sandbox(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        first = await m.get_or_create("alice", "chat")
        await first.sandbox.write("f", "x")
        with pytest.raises(ConflictError, match=r"manager\.remove"):
            await m.get_or_create("alice", "chat", env={"A": "1"})
        await first.release()
        async with m.get_or_create("alice", "chat", env={"A": "1"}) as second:
            assert second.sandbox.id != first.sandbox.id
            assert await second.sandbox.read("f") == "x"
        async with m.get_or_create("alice", "chat", env={"A": "1"}) as third:
            assert third.sandbox.id == second.sandbox.id
        async with m.get_or_create("alice", "kept", policy="persistent"):
            pass
        with pytest.raises(ConflictError):
            await m.get_or_create("alice", "kept", policy="session")
        await m.remove("alice", "kept")
        async with m.get_or_create("alice", "kept", policy="session"):
            pass


@pytest.mark.parametrize(
    "options",
    [
        {"name": "x"},
        {"detached": False},
        {"root": "."},
        {"mode": "direct"},
        {"labels": {"paddock.user": "bob"}},
        {"policy": "forever"},
        {"policy": "persistent", "lifetime": 5},
        {"policy": "oneshot", "idle_timeout": 5},
        {"idle_timeout": "none"},
        {"quota": "much"},
    ],
    ids=str,
)
async def test_what_cannot_be_asked_for(options: dict[str, Any], world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        with pytest.raises(ConfigError):
            await m.get_or_create("alice", "chat", **options)
        assert (world.made, await m.list(), (await m.stats()).total) == (0, [], 0)
        async with m.get_or_create("alice", "chat", labels={"user": "bob"}, policy="longrunning", idle_timeout=5):
            pass
    with pytest.raises(TypeError, match="nonsense"):
        Manager(nonsense=1)


async def test_a_backend_that_cannot_be_detached(clock: FakeClock) -> None:
    for backend in (Memory(), "memory", "local"):
        with pytest.raises(UnsupportedError, match="cannot be a manager's") as raised:
            Manager(backend=backend)
        assert (raised.value.backend in ("memory", "local"), raised.value.capability) == (True, "detached")
    async with Manager(backend="namespaces", clock=clock) as m:
        with pytest.raises(UnsupportedError, match="memory"):
            await m.get_or_create("alice", "chat", backend="memory")
        assert (await m.stats()).total == 0


async def test_what_fails_is_given_back(world: World, clock: FakeClock) -> None:
    async with manager(clock, max_total=1) as m:
        world.fail = [SandboxError("not today")]
        with pytest.raises(SandboxError, match="not today"):
            await m.get_or_create("alice", "chat")
        assert ((await m.stats()).total, await m.list()) == (0, [])
        world.pause = 10
        task = asyncio.ensure_future(leased(m, "alice", "chat"))
        await asyncio.sleep(0.05)
        assert (await m.stats()).total == 1
        task.cancel()
        await asyncio.wait([task])
        world.pause = 0
        assert ((await m.stats()).total, await m.list(), await Sandbox.find()) == (0, [], [])
        async with m.get_or_create("bob", "chat", limits=Limits()):
            assert (await m.stats()).users == {"bob": 1}


async def test_one_that_was_cancelled_is_not_for_nobody(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        for steps in range(30):
            task = asyncio.ensure_future(leased(m, "alice", "chat"))
            for _ in range(steps):
                await asyncio.sleep(0)
            finished = task.done()
            task.cancel()
            await asyncio.wait([task])
            infos = await m.list()
            assert sum(info.leases or 0 for info in infos) == int(finished)
            await m.remove("alice", "chat")


# Death


@pytest.mark.parametrize("policy", ["session", "longrunning", "persistent"])
async def test_one_that_died_is_made_anew(policy: str, world: World, clock: FakeClock) -> None:
    async with manager(clock, policy=policy) as m:
        async with m.get_or_create("alice", "chat") as lease:
            await lease.sandbox.write("f", "x")
            first = lease.sandbox.id
        world.die(first)
        async with m.get_or_create("alice", "chat") as lease:
            assert lease.sandbox.id != first
            assert await lease.sandbox.read("f") == "x"
        assert (await m.stats()).total == 1


async def test_a_lease_on_what_died(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        lease = await m.get_or_create("alice", "chat")
        world.die(lease.sandbox.id)
        await m.sweep()
        assert await m.list() == []
        with pytest.raises(ClosedError, match="its sandbox has ended"):
            lease.heartbeat()
        async with m.get_or_create("alice", "chat") as again:
            await lease.release()
            await again.sandbox.write("f", "x")
            assert [info.leases for info in await m.list()] == [1]


@pytest.mark.parametrize(("policy", "left"), [("session", []), ("longrunning", ["stopped"])])
async def test_what_just_died(policy: str, left: list[str], world: World, clock: FakeClock) -> None:
    """Before any sweep."""
    async with manager(clock, policy=policy) as m:
        lease = await m.get_or_create("alice", "chat")
        lease.heartbeat()
        assert [info.state for info in await m.list()] == ["running"]
        world.die(lease.sandbox.id)
        with pytest.raises(ClosedError, match="The sandbox has ended"):
            lease.heartbeat()
        assert ([info.state for info in await m.list()], (await m.stats()).total) == (left, 0)
        with pytest.raises(ClosedError, match="its sandbox has ended"):
            lease.heartbeat()


# Stop, remove, close


async def test_stop_and_remove(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        for call in (m.stop, m.remove):
            await call("nobody", "chat")
        async with m.get_or_create("alice", "chat") as lease:
            await lease.sandbox.write("f", "x")
            await m.stop("alice", "chat")
            with pytest.raises(ClosedError):
                await lease.sandbox.read("f")
        assert world.held == {}
        assert [info.state for info in await m.list()] == ["stopped"]
        async with m.get_or_create("alice", "chat") as lease:
            assert await lease.sandbox.read("f") == "x"
        await m.remove("alice", "chat")
        assert (world.held, await m.list(), len(await m.workspaces())) == ({}, [], 1)


@pytest.mark.parametrize("policy", ["oneshot", "session", "longrunning", "persistent"])
async def test_stop_and_remove_with_a_workspace(policy: str, world: World, clock: FakeClock) -> None:
    async with manager(clock, policy=policy) as m:
        lease = await m.get_or_create("alice", "chat", workspace="w")
        own = await m.get_or_create("alice", "other")
        for call in (m.stop, m.remove):
            await call("alice", "chat", workspace="v")
            await call("alice", "other", workspace="v")
        assert len(world.held) == 2
        await m.stop("alice", "chat", workspace="w")
        assert list(world.held) == [own.sandbox.id]
        await m.remove("alice", "chat", workspace="w")
        assert [info.chat for info in await m.list()] == ["other"]
        await lease.release()
        await own.release()


async def test_closed_and_not_open(world: World, clock: FakeClock) -> None:
    m = manager(clock)
    with pytest.raises(ClosedError, match="not open"):
        await m.get_or_create("alice", "chat")
    await m.open()
    await m.open()
    oneshot = await m.get_or_create("alice", "gone", policy="oneshot")
    session = await m.get_or_create("alice", "stays")
    world.pause = 10
    waiting = asyncio.ensure_future(leased(m, "alice", "chat"))
    await asyncio.sleep(0.01)
    await m.close()
    await m.close()
    with pytest.raises(ClosedError, match="meanwhile"):
        await waiting
    for lease in (oneshot, session):
        with pytest.raises(ClosedError):
            await lease.sandbox.read("f")
        await lease.release()
    assert [info.labels["paddock.chat"] for info in await Sandbox.find()] == ["stays"]
    with pytest.raises(ClosedError, match="is closed"):
        await m.list()
    with pytest.raises(ClosedError, match="is closed"):
        await m.open()


async def test_opened_twice_at_once(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m, m.get_or_create("alice", "chat"):
        pass
    m = manager(clock)
    await asyncio.gather(m.open(), m.open(), m.open())
    assert len(await m.list()) == 1
    await m.close()


async def test_a_disk_that_is_full(world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise UnavailableError("No space.")

    async with manager(clock, policy="oneshot") as m:
        lease = await m.get_or_create("alice", "chat")
        with monkeypatch.context() as patch:
            patch.setattr("paddock.manager.entries.write_whole", full)
            async with m.get_or_create("alice", "chat"):
                pass  # what runs can be used
            with pytest.raises(UnavailableError):
                await m.get_or_create("bob", "chat")
            assert (await m.stats()).total == len(world.held) == 1
            await lease.release()
            assert ((await m.stats()).total, world.held) == (0, {})
        async with m.get_or_create("bob", "chat"):
            pass


async def test_not_awaited(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        with pytest.raises(AttributeError, match="await manager"):
            m.get_or_create("alice", "chat").sandbox  # noqa: B018


# Quota and workspaces


async def test_quota(world: World, clock: FakeClock) -> None:
    async with manager(clock, quota="64k") as m:
        async with m.get_or_create("alice", "chat") as lease:
            await lease.sandbox.write("small", b"x" * 1000)
        async with m.get_or_create("alice", "chat") as lease:
            await lease.sandbox.write("large", b"x" * 100_000)
        with pytest.raises(QuotaExceededError, match="65536"):
            await m.get_or_create("alice", "chat")
        (info,) = await m.workspaces()
        assert info.quota == 65536
        assert (info.size or 0) > 100_000
        async with m.get_or_create("alice", "chat", quota="1m") as lease:
            await lease.sandbox.delete("large")
        async with m.get_or_create("alice", "chat"):
            pass


async def test_a_workspace_of_more_than_can_be_counted(
    world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "measure", partial(measure, entries=5))
    async with manager(clock, quota="1m") as m:
        async with m.get_or_create("alice", "chat") as lease:
            await lease.sandbox.write_files({f"f{n}": "" for n in range(9)})
        with pytest.raises(QuotaExceededError, match="can be counted") as raised:
            await m.get_or_create("alice", "chat", quota="1t")
        assert "quota=math.inf" in (raised.value.hint or "")
        async with m.get_or_create("alice", "chat", quota=math.inf) as lease:
            for n in range(9):
                await lease.sandbox.delete(f"f{n}")
        async with m.get_or_create("alice", "chat"):
            pass


@pytest.mark.parametrize("name", ["workspace", "cache"])
async def test_a_workspace_that_a_command_closed(name: str, world: World, clock: FakeClock) -> None:
    async with manager(clock, policy="session") as m:
        async with m.get_or_create("alice", "chat"):
            (info,) = await m.workspaces()
        shown = Path(info.path).parent / name
        shown.chmod(0o025)
        async with m.get_or_create("alice", "chat"):
            assert stat.S_IMODE(shown.stat().st_mode) == 0o725


async def test_no_link_is_followed_to_what_is_opened(world: World, clock: FakeClock, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o500)
    async with manager(clock, policy="session") as m:
        async with m.get_or_create("alice", "chat"):
            (info,) = await m.workspaces()
        cache = Path(info.path).parent / "cache"
        cache.rmdir()
        cache.symlink_to(elsewhere)
        async with m.get_or_create("alice", "chat"):
            assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o500


async def test_deleting_a_workspace(world: World, clock: FakeClock) -> None:
    async with manager(clock) as m:
        lease = await m.get_or_create("alice", "chat")
        await lease.sandbox.write("f", "x")
        id = lease.info.workspace
        with pytest.raises(ConflictError, match="lease"):
            await m.delete_workspace(id)
        await lease.release()
        with pytest.raises(ConflictError, match=lease.sandbox.id):
            await m.delete_workspace(id)
        await m.remove("alice", "chat")
        (info,) = await m.workspaces()
        assert Path(info.path, "f").read_text() == "x"
        await m.delete_workspace(id)
        assert not Path(info.path).exists()
        with pytest.raises(NotFoundError, match="paddock workspaces"):
            await m.delete_workspace(id)
        lease = await m.get_or_create("alice", "chat")
        await m.delete_workspace(id, force=True)
        with pytest.raises(ClosedError):
            lease.heartbeat()
        await lease.release()
        assert (world.held, await m.workspaces(), await m.list()) == ({}, [], [])


async def test_a_workspace_that_somebody_else_mounts(world: World, clock: FakeClock) -> None:
    async with manager(clock, policy="oneshot") as m:
        async with m.get_or_create("alice", "chat") as lease:
            id = lease.info.workspace
        (info,) = await m.workspaces()
        async with Sandbox.create("fake", root=Path(info.path).parent, detached=True) as other:
            with pytest.raises(ConflictError, match=other.id):
                await m.delete_workspace(id)
            clock.advance(30 * 86400)
            assert await m.clean() == []
            assert await m.clean(dry_run=True) == []
        await Sandbox.remove(other.id)
        assert [removal.id for removal in await m.clean(dry_run=True)] == [id]
        assert [removal.id for removal in await m.clean()] == [id]
        assert await m.workspaces() == []


async def test_a_workspace_that_is_asked_for_while_it_goes(
    world: World, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for between its end and the last look is a new one: that look finds who uses that."""
    async with manager(clock, policy="oneshot") as m:
        async with m.get_or_create("alice", "chat") as lease:
            await lease.sandbox.write("f", "old")
        users, asking = Workspaces.users, list[Lease]()

        async def looked(self: Workspaces, workspace: Workspace) -> list[str]:
            if not workspace.directory.exists() and not asking:
                asking.append(await m.get_or_create("alice", "chat"))
            return await users(self, workspace)

        monkeypatch.setattr(Workspaces, "users", looked)
        await m.delete_workspace(lease.info.workspace)
        assert await asking[0].sandbox.list() == []
        await asking[0].sandbox.write("f", "new")
        await asking[0].release()
        (info,) = await m.workspaces()
        assert [path.name for path in Path(info.path).parent.parent.iterdir()] == [Path(info.path).parent.name]


async def test_a_sandbox_that_its_engine_has_lost_uses_nothing(world: World, clock: FakeClock) -> None:
    async with manager(clock, backend="elsewhere") as m:
        for chat in ("cleaned", "deleted"):
            async with m.get_or_create("alice", chat) as lease:
                world.gone.add(lease.sandbox.id)
        assert [info.in_use for info in await m.workspaces()] == [False, False]
        await m.delete_workspace(lease.info.workspace)
        clock.advance(30 * 86400)
        assert [removal.chat for removal in await m.clean() if removal.what == "workspace"] == ["cleaned"]


async def test_without_a_policy_it_is_the_one_it_has(world: World, clock: FakeClock) -> None:
    """Not to name one is not to name another."""
    async with manager(clock, policy="oneshot") as m:
        for named, workspace in (("session", None), ("longrunning", "shared"), ("persistent", None)):
            async with m.get_or_create("alice", named, policy=named, workspace=workspace) as lease:
                first = lease.sandbox.id
            async with m.get_or_create("alice", named, workspace=workspace) as lease:
                assert (lease.sandbox.id, lease.info.policy) == (first, named)
            assert first in {info.sandbox for info in await m.list()}
        async with m.get_or_create("alice", "new") as lease:
            assert lease.info.policy == "oneshot"
