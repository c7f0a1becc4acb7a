"""Where programs of agents are found on a host, and what a sandbox is shown for them. Nothing is run."""

import errno
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paddock import ConfigError, Sandbox, UnavailableError
from paddock.runners import Program, agents, find_agent
from paddock.runners.registry import load
from paddock.state import programs_directory
from paddock.types import Mount

ARCH = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
NATIVE = f"@anthropic-ai/claude-code-linux-{ARCH}"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with nothing on it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work" / "deep").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path / "work" / "deep")
    return tmp_path


def program(path: Path, content: bytes = b"\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def package(modules: Path, name: str = NATIVE, entry: str = "claude", version: object = "2.1.0") -> Path:
    (modules / name).mkdir(parents=True)
    (modules / name / "package.json").write_text(json.dumps({"version": version}))
    return program(modules / name / entry)


def test_nowhere(host: Path) -> None:
    with pytest.raises(UnavailableError, match="Claude Code was not found") as caught:
        find_agent("claude")
    assert "npm install" in str(caught.value)
    with pytest.raises(ConfigError, match="There is no agent 'clod'") as unknown:
        find_agent("clod")
    assert all(name in str(unknown.value) for name in agents())


@pytest.mark.parametrize("where", ["work/deep", "work"])
def test_in_node_modules_here_or_above(host: Path, where: str) -> None:
    found = package(host / where / "node_modules")
    assert find_agent("claude") == Program(
        "claude",
        ("/opt/agents/claude/claude",),
        (Mount(found.parent, "/opt/agents/claude"),),
        str(found),
        "2.1.0",
    )


def test_a_plain_program_on_the_path(host: Path) -> None:
    """A link to a version, as installers make it."""
    real = program(host / "versions" / "2.1.7")
    (host / "bin" / "claude").symlink_to(real)
    found = find_agent("claude")
    assert found.argv == ("/opt/agents/claude/2.1.7",)
    assert found.version == "2.1.7"
    assert shown(found, "claude").samefile(real)
    assert find_agent("claude") == found


def shown(found: Program, agent: str) -> Path:
    """The one file that a sandbox is shown of it."""
    (mount,) = [mount for mount in found.mounts if mount.target == f"/opt/agents/{agent}"]
    assert mount.read_only
    assert mount.source is not None
    (file,) = Path(mount.source).iterdir()
    return file


def test_what_lies_beside_a_program_is_not_shown(host: Path) -> None:
    """Neither of an agent's, nor of what runs it; a package is shown with all of its files."""
    program(host / "bin" / "codex")
    program(host / "bin" / "node")
    (host / "bin" / ".ssh").mkdir()
    assert shown(find_agent("codex"), "codex").name == "codex"
    found = package(host / "work" / "node_modules", "@google/gemini-cli", "bundle/gemini.js")
    gemini = find_agent("gemini")
    assert shown(gemini, "node").samefile(host / "bin" / "node")
    assert Mount(found.parents[1], "/opt/agents/gemini") in gemini.mounts


def test_a_program_that_cannot_be_linked_is_copied(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from another disk. A new version is another copy, and one that nobody looks for any more goes."""
    monkeypatch.setattr(Path, "hardlink_to", cannot_link)
    real = program(host / "bin" / "codex", b"\x7fELF one")
    first = shown(find_agent("codex"), "codex")
    assert (first.read_bytes(), first.stat().st_mode & 0o777) == (b"\x7fELF one", 0o755)
    assert not first.samefile(real)
    program(real, b"\x7fELF the second")
    second = shown(find_agent("codex"), "codex")
    assert second.read_bytes() == b"\x7fELF the second"
    assert first.exists(), "what runs now may need it"
    os.utime(first.parent, (0, 0))
    assert shown(find_agent("codex"), "codex") == second
    assert not first.exists()


def cannot_link(*_: object) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def test_a_program_that_cannot_be_shown(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "hardlink_to", cannot_link)
    monkeypatch.setattr(shutil, "copyfile", full)
    program(host / "bin" / "codex")
    with pytest.raises(UnavailableError, match=r"No space left on device.*XDG_CACHE_HOME"):
        find_agent("codex")
    assert list(programs_directory().glob(".*")) == []


async def test_a_sandbox_sees_the_program_alone(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(host / "bin" / "codex", b"#!/bin/sh\nls -A ${0%/*}\n")
    (host / "bin" / "secret").write_text("x")
    found = find_agent("codex")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    async with Sandbox.create("namespaces", mounts=found.mounts) as sb:
        assert (await sb.exec(found.argv)).stdout == "codex\n"
    with pytest.raises(ConfigError, match="cache directory"):
        await Sandbox.create("namespaces", mounts=[Mount(programs_directory(), "/programs")])


def test_a_script_of_npm_leads_to_the_program_itself(host: Path) -> None:
    modules = host / "lib" / "node_modules"
    shim = program(modules / "@anthropic-ai" / "claude-code" / "shim.cjs", b"#!/usr/bin/env node\n")
    (host / "bin" / "claude").symlink_to(shim)
    assert package(modules) == Path(str(find_agent("claude").found))


def test_the_path_comes_first(host: Path) -> None:
    package(host / "work" / "node_modules")
    first = program(host / "bin" / "claude")
    assert find_agent("claude").found == str(first)


def test_a_package_in_a_store_is_shown(host: Path) -> None:
    """As pnpm installs them; the folder itself may be elsewhere, too."""
    modules = host / "work" / "node_modules"
    found = package(modules / ".pnpm" / "claude@2.1.0" / "node_modules")
    (modules / NATIVE).parent.mkdir(parents=True)
    (modules / NATIVE).symlink_to(found.parent)
    assert find_agent("claude").mounts == (Mount(found.parent, "/opt/agents/claude"),)
    modules.rename(host / "modules")
    modules.symlink_to(host / "modules")
    (modules / NATIVE).unlink()
    found = package(host / "modules")
    assert find_agent("claude").mounts == (Mount(found.parent, "/opt/agents/claude"),)


@pytest.mark.parametrize("link", ["../../..", "../../../home", ".."])
def test_a_package_that_is_a_link_to_somewhere_else_is_none(host: Path, link: str) -> None:
    modules = host / "work" / "node_modules"
    (modules / NATIVE).parent.mkdir(parents=True)
    (modules / NATIVE).symlink_to(link)
    (host / "home").mkdir()
    program((modules / NATIVE).resolve() / "claude")
    with pytest.raises(UnavailableError):
        find_agent("claude")


@pytest.mark.parametrize("content", [b"", b"hello", b"MZ"])
def test_what_is_no_program(host: Path, content: bytes) -> None:
    program(host / "bin" / "claude", content)
    with pytest.raises(UnavailableError):
        find_agent("claude")


@pytest.mark.parametrize("version", [None, 7, {"a": 1}])
def test_a_version_that_is_none(host: Path, version: object) -> None:
    package(host / "work" / "node_modules", version=version)
    assert find_agent("claude").version is None


@pytest.mark.parametrize("made", ["/dev/zero", "loop", "pipe", "deep"])
def test_what_a_repository_brings_is_not_read_for_ever(host: Path, made: str) -> None:
    found = package(host / "work" / "node_modules")
    about = found.with_name("package.json")
    about.unlink()
    if made == "pipe":
        os.mkfifo(about)
    elif made == "deep":
        about.write_text("[" * 500_000)
    else:
        about.symlink_to(made if made != "loop" else about)
    assert (find_agent("claude").found, find_agent("claude").version) == (str(found), None)


@pytest.mark.parametrize("name", agents())
def test_every_agent_says_what_it_is(name: str) -> None:
    agent = load(name)
    assert agent.name == name
    assert agent.title
    assert agent.install
    assert all(not place.startswith("/") for place in (agent.skills or "", *agent.sessions))


@pytest.mark.parametrize(("machine", "package"), [("x86_64", "linux-x64@"), ("aarch64", "linux-arm64@")])
def test_how_to_get_it_on_this_machine(machine: str, package: str) -> None:
    said = "from paddock.runners.registry import load; print(load('claude').install)"
    script = f"import platform; platform.machine = lambda: {machine!r}; {said}"
    assert package in subprocess.check_output([sys.executable, "-c", script], text=True)


def test_the_names_stay_callable() -> None:
    """An agent's file lies in a folder of the same name as the function."""
    done = subprocess.run(
        [sys.executable, "-c", "import paddock.runners as r; r.find_agent('scripted'); print(*r.agents())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == list(agents())
