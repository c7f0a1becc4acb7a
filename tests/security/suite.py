"""What the parts of the suite share: a sandbox, and asking somebody inside it."""

import json
from collections.abc import AsyncIterator, Callable, Set
from pathlib import Path
from typing import TypeVar

import pytest
import pytest_asyncio

from paddock import Sandbox
from paddock.driver import BackendSpec
from paddock.registry import find
from security import inside

T = TypeVar("T")
Backend = str | BackendSpec

REFUSED = {"EPERM", "EACCES", "EROFS", "ENOSYS", "SIGSYS"}
"""How things end that are not for a sandbox. Anything else was looked at by more of the kernel than it should have been."""
NOT_THERE = {*REFUSED, "ENOENT"}

_PROGRAM = Path(inside.__file__).read_text(encoding="utf-8")


class Suite:
    """Override `backend`; the rest follows from it."""

    @pytest.fixture
    def backend(self) -> Backend:
        """The backend under test."""
        raise NotImplementedError("a test class of the suite has a fixture `backend`")

    @pytest.fixture
    def contained(self, backend: Backend) -> bool:
        """Whether an engine made it: then the system is an image's, the users are the host's, and mounts the engine's."""
        return find(backend).name == "docker"

    @pytest_asyncio.fixture
    async def sb(self, backend: Backend) -> AsyncIterator[Sandbox]:
        """A sandbox with everything private."""
        async with Sandbox.create(backend) as sandbox:
            yield sandbox


async def own_id(sb: Sandbox) -> int:
    """Who its processes are, inside."""
    found = set((await ask(sb, inside.identity))["ids"])  # type: ignore[call-overload]
    assert len(found) == 1, "user and group have one number"
    return int(found.pop())


async def ask(sb: Sandbox, function: Callable[..., T], *arguments: object, pty: bool = False) -> T:
    """What a function of `inside` tells when it runs in the sandbox."""
    words = words_of(function, *arguments)
    if pty:
        result = await (await sb.start(words, pty=True)).wait()
    else:
        result = await sb.exec(words)
    assert result.exit_code == 0, (result.stdout, result.stderr)
    told: T = json.loads(result.stdout)
    return told


def words_of(function: Callable[..., object], *arguments: object) -> list[str]:
    """The command that runs a function of `inside`."""
    return ["python3", "-I", "-S", "-c", _PROGRAM, function.__name__, json.dumps(arguments)]


def not_refused(found: dict[str, str], words: Set[str] = REFUSED) -> dict[str, str]:
    """The things that did not end as they should."""
    return {what: word for what, word in found.items() if word not in words}


def failed(found: dict[str, str]) -> dict[str, str]:
    """The things that should have been possible."""
    return {what: word for what, word in found.items() if word != "ok"}
