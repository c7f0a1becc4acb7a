"""The registry: known names, lazy imports, hints, and no silent downgrade."""

import sys
from dataclasses import dataclass

import pytest

from paddock import ConfigError, Local, Memory, Namespaces, Sandbox, UnavailableError, registry
from paddock.driver import BackendSpec, Driver, Running
from paddock.registry import find, names, register, unregister


def test_names() -> None:
    assert names() == ["dagger", "docker", "kubernetes", "local", "memory", "namespaces", "remote"]
    assert names(built=True) == ["docker", "local", "memory", "namespaces"]


@pytest.mark.parametrize("name", sorted(set(names()) - set(names(built=True))))
async def test_not_built_yet(name: str) -> None:
    with pytest.raises(UnavailableError, match=f"'{name}'.*memory"):
        await Sandbox.create(name)


async def test_unknown_lists_the_known() -> None:
    with pytest.raises(ConfigError, match=r"no backend 'dokcer'.*docker, .*local, memory, namespaces"):
        await Sandbox.create("dokcer")
    with pytest.raises(ConfigError, match="neither a name"):
        await Sandbox.create(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="neither a name"):
        await Sandbox.create(Memory)  # type: ignore[arg-type]


async def test_auto_never_becomes_local(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("auto") == Namespaces()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnavailableError, match="memory"):
        await Sandbox.create()


def test_specs_are_backends() -> None:
    for spec in (Memory(), Local(), Namespaces()):
        assert isinstance(spec, BackendSpec)
        assert find(spec) is spec
        assert find(spec.name) == spec
    with pytest.raises(ConfigError):
        Memory(commands={"ls": "not a function"})  # type: ignore[dict-item]


def test_the_seam_is_narrow() -> None:
    methods = [name for name in vars(Driver) if not name.startswith("_")]
    assert len(methods) <= 12
    assert len([name for name in vars(Running) if not name.startswith("_")]) <= 12


@dataclass(frozen=True)
class Outsider(Memory):
    """A backend from another package."""


async def test_registering() -> None:
    register("outsider", f"{__name__}:Outsider")
    try:
        with pytest.raises(ConfigError, match="taken"):
            register("outsider", f"{__name__}:Outsider")
        async with Sandbox.create("outsider") as sb:
            await sb.write("f", "x")
    finally:
        unregister("outsider")
    for name in ("outsider", "memory"):
        with pytest.raises(ConfigError, match="register"):
            unregister(name)
    for name, where in (("auto", "a:b"), ("memory", "a:b"), ("x y", "a:b"), ("x", "a"), ("x", ":b")):
        with pytest.raises(ConfigError):
            register(name, where)


async def test_a_missing_package_is_a_hint() -> None:
    register("broken", "no_such_package_at_all:Spec", hint="pip install it.")
    try:
        with pytest.raises(UnavailableError, match="pip install it"):
            await Sandbox.create("broken")
    finally:
        registry.unregister("broken")


async def test_local_needs_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UnavailableError, match="Linux"):
        await Sandbox.create("local")
