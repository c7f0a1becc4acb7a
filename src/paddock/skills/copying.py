"""Skills into a sandbox: whole folders, with their run bits.

A folder may lie where an agent can write, in the workspace of this very sandbox too. So it is copied by descriptor first,
through no link at all, to a place of our own; what then goes inside is that copy.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from secrets import token_hex
from tempfile import TemporaryDirectory

from paddock import paths
from paddock.dirs.copying import Copy, copy_tree
from paddock.dirs.syscalls import open_beneath
from paddock.errors import ConfigError, ExistsError, NotFoundError, SandboxError, TooLargeError, visible
from paddock.finishing import in_thread, to_the_end
from paddock.sandbox import Sandbox
from paddock.skills.skill import FILE, FILES, Skill

MAX_ENTRIES = 10_000
MAX_BYTES = 256 << 20
_TRIES = 100


async def copy_skills(sandbox: Sandbox, skills: Collection[Skill], to: str) -> tuple[str, ...]:
    """Copy skills into a directory of the sandbox; their folders there, in the same order.

    A folder that is there under a skill's name is replaced, with all that was in it; others stay. Scripts stay executable.
    Links have to stay in their folder. All skills of one call have 10,000 entries and 256 MiB at the most.
    """
    if len({skill.name for skill in skills}) < len(skills):
        raise ConfigError("Two of these skills have the same name.", hint="Give each name once.")
    inside = paths.normalise(to, sandbox.workdir)
    with TemporaryDirectory(prefix="paddock-skills-") as place:
        allowance = _Allowance()
        for skill in skills:  # all of them, before anything changes inside
            await in_thread(_take, skill, os.path.join(place, skill.name), allowance)
        return tuple([await _put(sandbox, os.path.join(place, skill.name), inside, skill.name) for skill in skills])


class _Allowance:
    """What may be copied altogether."""

    def __init__(self) -> None:
        self._entries, self._copied, self._sizes = 0, 0, 0

    def spend(self, entries: int, size: int) -> None:
        """Count what was just copied."""
        self._entries += entries
        self._copied += size
        self._check()

    def look(self, directory: str) -> None:
        """Count what is there by its sizes: holes in a file cost nothing here, and all that they are inside."""
        for parent, _, files in os.walk(directory):
            self._sizes += sum(os.lstat(os.path.join(parent, name)).st_size for name in files)
        self._check()

    def _check(self) -> None:
        if self._entries > MAX_ENTRIES or max(self._copied, self._sizes) > MAX_BYTES:
            raise TooLargeError(
                f"The skills have more than {MAX_ENTRIES} entries or {MAX_BYTES >> 20} MiB.",
                hint="Take out what an agent does not need: dependencies, caches, a .git directory.",
            )


def _take(skill: Skill, target: str, allowance: _Allowance) -> None:
    """A copy of the folder as it is now, of our own."""
    shown = f"The skill '{visible(skill.name)}'"
    try:
        left_out = _copy(skill.path, target, allowance)
        allowance.look(target)
        if FILE not in os.listdir(target):
            os.rename(os.path.join(target, FILES[1]), os.path.join(target, FILE))
    except TooLargeError:
        raise
    except OSError as error:
        raise ConfigError(
            f"{shown} cannot be copied: {error.strerror}.", hint=f"Look at '{visible(skill.path)}', and load it again."
        ) from None
    if left_out:
        raise ConfigError(f"{shown} has {left_out} files that cannot be read.", hint="Check their permissions.")


def _copy(path: str, target: str, allowance: _Allowance) -> int:
    """How many entries could not be read. A link on the way to the folder was put there since it was loaded."""
    owner = (0, os.getegid()) if os.geteuid() == 0 else None
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        source = open_beneath(top, os.fsencode(path.strip("/")), os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(top)
    try:
        return copy_tree(Copy(source, target, f"{target}.copied", owner), allowance.spend)
    finally:
        os.close(source)


async def _replace(sandbox: Sandbox, aside: str, goal: str) -> None:
    """Others may put the same skill there meanwhile: whoever comes last is the one that stays."""
    for left in reversed(range(_TRIES)):
        old = f"{aside}.old"
        with suppress(NotFoundError):
            await sandbox.move(goal, old)
            await sandbox.delete(old, recursive=True)
        try:
            await sandbox.move(aside, goal)
            return
        except ExistsError:
            if not left:
                raise


async def _put(sandbox: Sandbox, source: str, inside: str, name: str) -> str:
    """Beside its place first, so that a copy that fails leaves the old one there."""
    goal, aside = paths.join(inside, name), paths.join(inside, f".{name}.{token_hex(4)}")
    try:
        await sandbox.upload(source, aside)
        await _replace(sandbox, aside, goal)
    except BaseException:
        with suppress(SandboxError):
            await to_the_end(sandbox.delete(aside, recursive=True))
        raise
    return goal
