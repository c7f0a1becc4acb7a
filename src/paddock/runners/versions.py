"""Which versions programs are that do not lie where it can be seen: they are asked, in a sandbox that holds nothing else."""

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from paddock.errors import SandboxError
from paddock.runners.programs import Program
from paddock.sandbox import Sandbox

_OURS = "scripted"
"""It comes with Paddock, and has no version of its own."""
_SECONDS = 5.0
_LOOKED_AT = 400
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+[\w.+-]{0,40})")


async def with_versions(programs: Iterable[Program | None]) -> list[Program | None]:
    """The same, with the versions that could be found out. A name on the PATH may be anybody's, so none is run outside."""
    found = list(programs)
    asked = [one for one in found if one is not None and one.version is None and one.agent != _OURS]
    answers: list[str | None] = []
    if asked:
        shown = {mount.target: mount for program in asked for mount in program.mounts}
        with suppress(SandboxError):  # where there can be none, nobody is asked
            async with Sandbox.create("namespaces", mounts=shown.values()) as sb:
                answers = await asyncio.gather(*(_answer(sb, program) for program in asked))
    known = {program.agent: answer for program, answer in zip(asked, answers, strict=False) if answer is not None}
    return [program and replace(program, version=known.get(program.agent, program.version)) for program in found]


async def _answer(sb: Sandbox, program: Program) -> str | None:
    with suppress(SandboxError):
        said = await sb.exec([*program.argv, "--version"], timeout=_SECONDS)
        match = _VERSION.search(said.stdout[:_LOOKED_AT]) if said.exit_code == 0 else None
        return match[1] if match else None
    return None
