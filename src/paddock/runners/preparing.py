"""What an agent finds in its home before it runs: files of Paddock's, skills, and the way to tools and models."""

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING

from paddock.driver import HOME
from paddock.errors import AgentError, ConfigError, SandboxError
from paddock.paths import within
from paddock.runners.agent import Agent, Inside
from paddock.runners.programs import Program
from paddock.sandbox import Sandbox
from paddock.skills import Skill, copy_skills
from paddock.types.mounts import Mount

if TYPE_CHECKING:
    from paddock.gateway import Attachment

_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ASKED = ("HOME", "PADDOCK_SOCKETS", "PADDOCK_BRIDGE", "PWD")
_ASK = "printf '%s\\n' " + " ".join(f'"${name}"' for name in _ASKED)


def profile_place(name: str) -> str:
    """Where the home of a profile is, below the home."""
    if not isinstance(name, str) or not _PROFILE.fullmatch(name):
        raise ConfigError(f"{name!r:.80} is no name for a profile.", hint="Use letters, digits, '_', '.' and '-'.")
    return f".paddock/profiles/{name}"


async def prepare(
    sandbox: Sandbox,
    agent: Agent,
    program: Program,
    home: str,
    skills: Collection[Skill],
    models: "Attachment | None",
) -> Inside:
    """Everything that stays the same from run to run."""
    real_home, sockets, socket, workdir = await _asked(sandbox, agent)
    seen = real_home + home.removeprefix(HOME)
    await _make(sandbox, home)
    if skills:
        await _teach(sandbox, agent, home, skills)
    bridge = (f"{sockets or os.path.dirname(socket)}/paddock-bridge", socket) if sandbox.tools else ()
    connector = None if models is None else models.connector
    return Inside(
        seen,
        workdir,
        tuple(_as_seen(word, program, sandbox.mounts, same=real_home == HOME) for word in program.argv),
        bridge,
        None if models is None else models.url,
        None if connector is None else connector.model,
    )


async def _asked(sandbox: Sandbox, agent: Agent) -> list[str]:
    """Home, sockets, the bridge's socket and the working directory, as a program inside is told of them."""
    lines = (await sandbox.exec(_ASK, check=True)).stdout.split("\n")
    if len(lines) != len(_ASKED) + 1 or not lines[0].startswith("/"):
        raise AgentError(
            "A shell in the sandbox does not say where its home is.",
            hint="Look at what is in the sandbox, or use a new one.",
            agent=agent.name,
            kind="sandbox",
        )
    return lines[:-1]


async def _make(sandbox: Sandbox, home: str) -> None:
    """The home of a profile is in a directory that is the agent's, who may have put something else there."""
    try:
        await sandbox.mkdir(home)
    except SandboxError:
        await _clear_way(sandbox, HOME, os.path.relpath(home, HOME))
        await sandbox.mkdir(home)


async def _teach(sandbox: Sandbox, agent: Agent, home: str, skills: Collection[Skill]) -> None:
    if agent.skills is None:
        raise ConfigError(f"{agent.title} knows no skills.", hint="Leave them out, or use another agent.")
    await copy_skills(sandbox, skills, f"{home}/{agent.skills}")


async def write(sandbox: Sandbox, home: str, files: Mapping[str, str]) -> None:
    """Files of Paddock's, which nobody else there reads. What the agent has put in their place goes."""
    wanted = {f"{home}/{path}": content for path, content in files.items()}
    try:
        await sandbox.write_files(wanted)
    except SandboxError:
        for path in files:
            await _clear_way(sandbox, home, os.path.dirname(path))
            await _remove(sandbox, f"{home}/{path}")
        await sandbox.write_files(wanted)


async def _clear_way(sandbox: Sandbox, home: str, path: str) -> None:
    """Remove what is no directory, and has to be one."""
    for place in accumulate(path.split("/"), "{}/{}".format):
        if not await _is_directory(sandbox, f"{home}/{place}"):
            await _remove(sandbox, f"{home}/{place}")


async def _is_directory(sandbox: Sandbox, path: str) -> bool:
    with suppress(SandboxError):
        return (await sandbox.stat(path)).kind == "directory"
    return False


async def _remove(sandbox: Sandbox, path: str) -> None:
    with suppress(SandboxError):
        await sandbox.delete(path, recursive=True)


def _as_seen(word: str, program: Program, shown: Collection[Mount], *, same: bool) -> str:
    """A word of its command: where it is shown, or where the workspace has it, or the host if paths are the host's."""
    for mount in program.mounts:
        if within(word, mount.target):
            at = mount.target if any(one.target == mount.target for one in shown) else _elsewhere(mount, shown)
            return f"{at if same else mount.source}{word.removeprefix(mount.target)}"
    return word


def _elsewhere(mount: Mount, shown: Collection[Mount]) -> str:
    """Where a sandbox sees a directory that is no mount of its own, but may lie in one."""
    source = os.path.realpath(os.fspath(mount.source or ""))
    for one in shown:
        if one.source is not None and within(source, os.fspath(one.source)):
            return one.target + source.removeprefix(os.fspath(one.source))
    return mount.target
