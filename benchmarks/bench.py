"""Where a run happens: a private directory, one event loop, and how much is measured."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import plain
from paddock import Sandbox
from paddock.audit import default_log
from paddock.driver import BackendSpec

AUDITED = {"local": True, "namespaces": True, "memory": False}
"""The backends, and whether a user's sandbox there is audited without asking."""

Drain = Callable[[], object]
"""Puts the audit log on disk, so that each turn pays for its own events."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    rounds: int
    calls: int
    """Calls in one turn: enough that writing the audit log once a turn is as rare as it is in real use."""
    few_rounds: int
    """Rounds of what takes long."""
    files: int
    directories: int
    stream: int
    """Bytes of output."""
    fleet: tuple[int, int]
    """Sandboxes at once, and commands over all of them."""


FULL = Scale(rounds=41, calls=250, few_rounds=7, files=10_000, directories=100, stream=1 << 30, fleet=(500, 5_000))
QUICK = Scale(rounds=9, calls=100, few_rounds=3, files=1_000, directories=10, stream=256 << 20, fleet=(50, 500))


@dataclass(frozen=True, slots=True)
class Subject:
    """A sandbox to measure."""

    sandbox: Sandbox
    title: str
    default: bool
    """Whether it is audited as users have it."""
    drain: Drain


class Bench:
    """One run. Sandboxes and baselines work in the same directories: where a directory lies on a disk matters.

    Nothing is removed before the end of the run: some file systems take long to use a freed inode again, and what comes
    after a removal would be measured with that.
    """

    def __init__(self, directory: Path, runner: asyncio.Runner, scale: Scale, stack: ExitStack) -> None:
        self.directory = directory
        self.root = directory / "root"
        """Where every `local` sandbox of the run has its directories."""
        self.workspace = self.root / "workspace"
        self.run = runner.run
        self.scale = scale
        self._stack = stack
        os.makedirs(self.workspace)
        self.at = stack.enter_context(plain.directory(self.workspace))
        """The workspace's descriptor."""

    def sandbox(self, backend: str, *, audit: bool | None = None) -> Subject:
        """A new sandbox; with `audit=None` it is audited as users have it."""
        audited = AUDITED[backend] if audit is None else audit
        with self.audit(audited) as drain:
            sandbox = self.run(_create(backend, self.root if backend == "local" else None))
        self._stack.callback(lambda: self.run(sandbox.close()))
        title = f"{backend}, audit {'on' if audited else 'off'}"
        return Subject(sandbox, title, audited == AUDITED[backend], drain)

    def keep(self, backend: BackendSpec) -> Sandbox:
        """A sandbox on this backend, as users have it, until the end of the run."""
        sandbox = self.run(_create(backend, None))
        self._stack.callback(lambda: self.run(sandbox.close()))
        return sandbox

    @contextmanager
    def audit(self, on: bool) -> Iterator[Drain]:
        """A block whose new sandboxes are audited, or not."""
        with variable("PADDOCK_AUDIT", str(self.directory / "audit.jsonl") if on else "off"):
            log = default_log()
            yield nothing if log is None else log.flush


@contextmanager
def opened(scale: Scale, parent: Path) -> Iterator[Bench]:
    """A run in a new directory below `parent`, with a state directory of its own; nothing of it is left afterwards."""
    with ExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory(prefix="paddock-bench-", dir=parent))
        stack.enter_context(variable("PADDOCK_STATE", os.path.join(path, "state")))
        runner = stack.enter_context(asyncio.Runner())
        yield Bench(Path(path), runner, scale, stack)


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """An environment variable for the length of a block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def nothing() -> None:
    """Drains a log that is not kept."""


async def _create(backend: str | BackendSpec, root: Path | None) -> Sandbox:
    return await Sandbox.create(backend, root=root)
