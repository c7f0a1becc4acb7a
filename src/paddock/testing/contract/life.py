"""Making, naming and closing a sandbox."""

import asyncio

import pytest

from paddock.driver import BackendSpec, Capabilities
from paddock.errors import ClosedError, ConfigError, NotFoundError, UnsupportedError
from paddock.registry import find
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite
from paddock.types import Isolation, Limits, Network


class LifeContract(Suite):
    """From `create` to `close`."""

    async def test_awaited_or_entered(self, backend: str | BackendSpec) -> None:
        one = await Sandbox.create(backend)
        async with Sandbox.create(backend) as other:
            assert one.id != other.id
            await one.write("f", "one")
            assert not await other.exists("f")
        await one.close()

    async def test_not_awaited_says_so(self, backend: str | BackendSpec) -> None:
        with pytest.raises(AttributeError, match="await"):
            await Sandbox.create(backend).write("f", "")
        with pytest.raises(TypeError, match="async with"), Sandbox.create(backend):
            pass

    async def test_says_who_it_is(self, backend: str | BackendSpec) -> None:
        async with Sandbox.create(backend, name="my-box", labels={"team": "blue"}) as sb:
            assert (sb.name, sb.labels, sb.backend) == ("my-box", {"team": "blue"}, find(backend).name)
            assert sb.id.startswith("sb-")
            assert isinstance(sb.isolation, Isolation)
            assert sb.backend in repr(sb)

    async def test_close_is_final_and_idempotent(self, sb: Sandbox) -> None:
        view = sb.restrict("/workspace")
        await asyncio.gather(sb.close(), sb.close())
        await sb.close()
        for use in (sb.write("f", ""), sb.read("f"), sb.list(), sb.exec("true"), view.list("/workspace")):
            with pytest.raises(ClosedError):
                await use
        with pytest.raises(ClosedError):
            sb.events()
        with pytest.raises(ClosedError):
            sb.resolve("f")
        with pytest.raises(ClosedError):
            sb.restrict("/workspace")

    async def test_close_ends_calls_under_way(self, sb: Sandbox) -> None:
        await sb.write("f", b"a" * 100_000)
        search = asyncio.ensure_future(sb.grep("(a+)+b"))
        await asyncio.sleep(0.2)
        await sb.close()
        with pytest.raises(ClosedError):
            await search

    async def test_workdir(self, sb: Sandbox) -> None:
        assert sb.workdir == "/workspace"
        await sb.write("sub/f", "x")
        await sb.set_workdir("sub")
        assert sb.workdir == "/workspace/sub"
        assert await sb.read("f") == "x"
        await sb.set_workdir("..")
        assert await sb.list() == ["sub"]
        with pytest.raises(NotFoundError):
            await sb.set_workdir("missing")
        with pytest.raises(NotADirectoryError):
            await sb.set_workdir("sub/f")
        with pytest.raises(PermissionError):
            await sb.set_workdir("/etc")
        assert sb.workdir == "/workspace"

    async def test_a_workdir_that_is_not_there(self, backend: str | BackendSpec) -> None:
        with pytest.raises(NotFoundError):
            await Sandbox.create(backend, workdir="/workspace/missing")

    @pytest.mark.parametrize(
        "options",
        [
            {"timeout": 0},
            {"timeout": "5"},
            {"limits": "2g"},
            {"network": "open"},
            {"name": "a/b"},
            {"workdir": "relative"},
            {"env": "PATH"},
            {"env": {"A=B": "c"}},
            {"mode": "wild"},
            {"mounts": ["/etc"]},
        ],
    )
    async def test_bad_values(self, backend: str | BackendSpec, can: Capabilities, options: dict[str, object]) -> None:
        with pytest.raises((ConfigError, UnsupportedError)):
            await Sandbox.create(backend, **options)  # type: ignore[arg-type]

    async def test_what_it_cannot_do_it_refuses(self, backend: str | BackendSpec, can: Capabilities) -> None:
        asked = {
            "review": {"review": True},
            "images": {"image": "debian"},
            "network": {"network": Network.allow("example.org")},
            "tools": {"tools": [print]},
            "detached": {"detached": True},
            "lifetimes": {"lifetime": 5.0},
        }
        for capability, options in asked.items():
            if not getattr(can, capability):
                with pytest.raises(UnsupportedError) as caught:
                    await Sandbox.create(backend, **options)  # type: ignore[arg-type]
                assert caught.value.capability == capability

    async def test_a_limit_it_cannot_hold(self, backend: str | BackendSpec, can: Capabilities) -> None:
        missing = {"memory", "cpu"} - can.limits
        for name in missing:
            wanted = {name: 1 << 30 if name == "memory" else 1.0}
            with pytest.raises(UnsupportedError, match=name):
                await Sandbox.create(backend, limits=Limits(**wanted))  # type: ignore[arg-type]
            async with Sandbox.create(backend, limits=Limits(**wanted, best_effort=True)) as sb:  # type: ignore[arg-type]
                assert not sb.isolation.limits.get(name)
