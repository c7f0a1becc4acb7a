"""What an agent finds in its home before it runs: files of Paddock's, skills, and the way to tools and models."""

import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from paddock.driver import HOME
from paddock.errors import ConfigError
from paddock.paths import within
from paddock.runners.agent import Agent, Inside
from paddock.runners.programs import Program
from paddock.sandbox import Sandbox
from paddock.skills import Skill, copy_skills
from paddock.types.mounts import Mount

if TYPE_CHECKING:
    from paddock.gateway import Attachment

_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ASK = 'printf "%s\\n" "$HOME" "$PADDOCK_SOCKETS" "$PADDOCK_BRIDGE" "$PWD"'


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
    real_home, sockets, socket, workdir = (await sandbox.exec(_ASK, check=True)).stdout.split("\n")[:4]
    seen = real_home + home.removeprefix(HOME)
    await sandbox.mkdir(home)
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


async def _teach(sandbox: Sandbox, agent: Agent, home: str, skills: Collection[Skill]) -> None:
    if agent.skills is None:
        raise ConfigError(f"{agent.title} knows no skills.", hint="Leave them out, or use another agent.")
    await copy_skills(sandbox, skills, f"{home}/{agent.skills}")


async def write(sandbox: Sandbox, home: str, files: Mapping[str, str]) -> None:
    """Files of Paddock's, which nobody else there reads."""
    await sandbox.write_files({f"{home}/{path}": content for path, content in files.items()})


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
