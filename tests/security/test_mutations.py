"""Each part of the boundary is taken away in turn, and a test of the suite has to notice: so none of them is for nothing."""

import asyncio
import inspect
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from paddock import Sandbox, SandboxError, UnavailableError
from paddock.backends.namespaces import order
from paddock.backends.namespaces import start as starting
from paddock.driver import HOME, SOCKETS
from paddock.state import sweep
from security import test_security
from security.mutations import INTERPRETER, MUTATIONS, REFUSES, ROOT, Mutation
from security.test_crash import alive, host
from supervisor.marks import Mark, until

ENDS = {"--die-with-parent", "the owner"}
STARTED_BY = {".git over itself": "test_git_of_a_direct_workspace", "the layer": "test_a_layer_lies_between"}
"""Which tests start a sandbox that has the part at all."""


async def complaint(test: str, tmp_path: Path, patch: pytest.MonkeyPatch) -> str | None:
    """What a test of the suite has to say about sandboxes as they are now; None if it passes."""
    method = getattr(test_security.TestSecurity(), test)
    given: dict[str, Any] = {
        "backend": "namespaces",
        "tmp_path": tmp_path,
        "monkeypatch": patch,
        "uid": os.geteuid(),
        "contained": False,
    }
    wanted = inspect.signature(method).parameters
    try:
        async with AsyncExitStack() as stack:
            if "sb" in wanted:
                given["sb"] = await stack.enter_async_context(Sandbox.create("namespaces"))
            await method(**{name: given[name] for name in wanted})
    except UnavailableError:
        return REFUSES
    except (AssertionError, SandboxError, pytest.fail.Exception) as error:
        return str(error) or "it fails"
    return None


@pytest.mark.parametrize("mutation", [m for m in MUTATIONS.values() if m.name not in ENDS], ids=lambda m: m.name)
async def test_it_is_noticed(mutation: Mutation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = mutation.noticed_by
    if test == REFUSES:
        test = STARTED_BY.get(mutation.name, "test_few_processes")
    for hidden_by in mutation.beside:
        MUTATIONS[hidden_by].remove(monkeypatch)
    if mutation.beside:
        (tmp_path / "before").mkdir()
        assert await complaint(test, tmp_path / "before", monkeypatch) in (None, REFUSES)
    mutation.remove(monkeypatch)
    (tmp_path / "after").mkdir()
    found = await complaint(test, tmp_path / "after", monkeypatch)
    assert found is not None
    assert (found == REFUSES) == (mutation.noticed_by == REFUSES)


def test_every_option_is_in_the_table() -> None:
    options = {word for word in order._NAMESPACES if word.startswith("--")}
    assert options - set(MUTATIONS) == (set() if ROOT else {"--cap-drop", "--clearenv"})


async def test_every_size_and_every_read_only_place_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a sandbox is told to bound or to protect is taken away by one of them."""
    told: list[bytes] = []
    pack = starting._packed

    def noted(words: list[bytes]) -> bytes:
        told.extend(words)
        return pack(words)

    monkeypatch.setattr(starting, "_packed", noted)
    async with Sandbox.create("namespaces"):
        sized = {told[at + 3].decode() for at, word in enumerate(told) if word == b"--size"}
        shown = {told[at + 2].decode() for at, word in enumerate(told) if word.startswith(b"--ro-bind")}
    assert sized == {
        "/tmp",
        "/dev/shm",
        HOME,
        SOCKETS,
    }
    assert shown == {
        "/usr",
        "/etc",
        "/proc/sys",
        order.SUPERVISOR,
        order._BRIDGE,
        *([INTERPRETER] if INTERPRETER else []),
    }


@pytest.mark.parametrize("kept", ["the owner", "--die-with-parent", None])
async def test_the_end_of_the_host(kept: str | None) -> None:
    """Where a forked child holds the channel open, either of the two ends the sandbox, and without both nothing does."""
    mark, removed = Mark(), sorted(ENDS - {kept})
    with host("namespaces", "forked", mark, removed) as (maker, below, _):
        others = {pid for pid in below if "creator.py" in Path(f"/proc/{pid}/cmdline").read_text()}
        os.kill(maker, signal.SIGKILL)
        if kept is None:
            await asyncio.sleep(1)
            assert mark.pids()
        else:
            assert await until(mark.gone)
        for pid in others:
            os.kill(pid, signal.SIGKILL)
        assert await until(lambda: not any(alive(pid) for pid in below))
    assert await until(sweep)
