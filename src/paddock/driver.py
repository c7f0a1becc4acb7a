"""The seam between the one `Sandbox` and the many places it can run.

A backend is a frozen spec (`BackendSpec`) whose `launch` returns a `Driver`. Files go through the driver's directories
(`paddock.dirs`), commands through `spawn`; everything else that users enjoy is written once above this module.
"""

import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from paddock.dirs.protocol import Dir
from paddock.errors import SandboxError
from paddock.records import SandboxRecord
from paddock.types import Chunk, ExecResult, Isolation, Limits, Mount, Network, ProcessInfo
from paddock.types.ports import RelayAddress
from paddock.types.record import Record
from paddock.types.review import Layer

HOME = "/home/agent"
SOCKETS = "/run/paddock"
"""Where Paddock is inside, and sockets of its relays can be."""


@dataclass(frozen=True, slots=True)
class Capabilities(Record):
    """What a backend can do, as data: the documentation's table and every `UnsupportedError` come from here."""

    commands: bool = False
    """`exec`, `start`, `processes`."""
    shell: bool = False
    """A command given as text is run by a shell."""
    pty: bool = False
    host_mounts: bool = False
    """`root=`, `workspace=`, `cache=` and `mounts=` show host directories."""
    same_paths: bool = True
    """Commands see the same paths as file calls."""
    resolve: bool = False
    """`resolve()` finds the real path on this host."""
    view_commands: bool = False
    """Commands on a `restrict` view, with just the view's mounts."""
    review: bool = False
    images: bool = False
    network: bool = False
    """A policy other than `Network.none()`."""
    relays: bool = False
    """Connections between handlers of this host and ports or sockets inside: its driver is a `RelayingDriver`."""
    tools: bool = False
    secrets: bool = False
    detached: bool = False
    lifetimes: bool = False
    """`idle_timeout=` and `lifetime=`."""
    limits: frozenset[str] = frozenset()
    """The limits it can hold."""
    host_effects: bool = True
    """Whether anything it does can be seen outside this process; if not, it is audited only when asked."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to launch: checked, complete and free of conflicts."""

    id: str
    mounts: tuple[Mount, ...]
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    network: Network = Network()  # noqa: RUF009 - frozen
    image: str | None = None
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    """Sandbox paths that are read-only though their mount is not."""
    idle_timeout: float | None = None
    """Only for a detached one: others are looked after above."""
    lifetime: float | None = None
    review: bool = False
    """Whether every writable mount of a host directory is to be a `Layer` over it: the host's is never written."""
    record: SandboxRecord | None = None
    """With it the sandbox is detached, and this is to be kept as long as it lives, with what the backend adds to it."""


class CommandFiles(Protocol):
    """The files a command may touch, for backends whose commands are Python functions."""

    def read(self, path: str) -> str: ...
    def read_bytes(self, path: str) -> bytes: ...
    def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None: ...
    def list(self, path: str = ".") -> builtins.list[str]: ...
    def exists(self, path: str) -> bool: ...
    def delete(self, path: str, *, recursive: bool = False) -> None: ...


class Spawn(NamedTuple):
    """One command to start; a tuple, since it is made while somebody waits for it."""

    argv: tuple[str, ...]
    """What to run; when `shell`, one element: the text for the shell."""
    shell: bool
    cwd: str
    mount: str
    """The target of the mount that `cwd` lies in, with all links resolved."""
    relative: str
    """Where it lies below that mount; '' is the mount itself."""
    env: Mapping[str, str]
    stdin: bool
    """Whether something will be written to its standard input; if not, it is closed from the start."""
    pty: bool
    background: bool
    """Whether it was started to run on by itself: then the last of its output is kept, and not the first."""
    max_output: int
    files: CommandFiles
    left: bool = False
    """Whether nobody waits for it: in a detached sandbox it is nobody's as soon as it runs, as if everybody had gone."""


class Running(Protocol):
    """A command that was started. It keeps at most `max_output` of each stream and never blocks the command."""

    @property
    def pid(self) -> int: ...
    @property
    def exit_code(self) -> int | None: ...
    def chunks(self) -> AsyncIterator[Chunk]:
        """The output as it comes, until the command ends."""

    async def write(self, data: bytes) -> None:
        """Send to its standard input; a command that no longer reads is a `BrokenPipeError`."""

    async def close_stdin(self) -> None: ...
    async def resize(self, rows: int, columns: int) -> None: ...
    async def signal(self, number: int) -> None:
        """Signal the command's own process; one that has ended is no error."""

    async def kill(self) -> None:
        """End its whole tree; returns when none of it is left."""

    async def wait(self) -> ExecResult:
        """How it ended, with what it printed. Any number of callers may wait."""


@runtime_checkable
class Driver(Protocol):
    """One launched sandbox. Errors are the typed ones of `paddock.errors`; directories speak errno instead."""

    @property
    def isolation(self) -> Isolation:
        """What really holds here."""

    @property
    def error(self) -> SandboxError | None:
        """Why it ended under its user, once it has."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What its commands find in their environment besides what all have, or instead of it."""

    def dir(self, target: str) -> Dir:
        """The directory behind the mount at `target`, one of the plan's."""

    def host_path(self, target: str) -> str | None:
        """Where that mount really is on this host, or None where it is nowhere."""

    async def spawn(self, command: Spawn) -> Running:
        """Start a command; one that cannot be started is a typed error, one that fails is a result."""

    async def processes(self) -> builtins.list[ProcessInfo]:
        """The commands that run now, and those of a detached sandbox that ended while nobody was connected to them."""

    async def attach(self, pid: int) -> Running:
        """A command again, by the pid that `processes` showed. The end of one that ended unheard is told once."""

    async def close(self) -> None:
        """End every command and give back everything private; let go of a detached one. Idempotent."""


@runtime_checkable
class ReviewingDriver(Driver, Protocol):
    """One that may have been launched with `Plan.review`."""

    @property
    def layers(self) -> Mapping[str, Layer]:
        """What lies over host directories, by the targets of their mounts."""


@runtime_checkable
class BackendSpec(Protocol):
    """A backend's name, what it can do, and how to launch it; a frozen dataclass with that backend's own options."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    async def launch(self, plan: Plan) -> Driver:
        """Make the sandbox, or raise and leave nothing behind."""


@runtime_checkable
class DetachableSpec(BackendSpec, Protocol):
    """A backend whose sandboxes outlive whoever made them."""

    async def connect(self, record: SandboxRecord) -> Driver:
        """One that runs; `NotFoundError` if it has ended."""

    async def remove(self, record: SandboxRecord) -> None:
        """End it, with all that it had; one that has ended is fine."""


@runtime_checkable
class KeptElsewhereSpec(DetachableSpec, Protocol):
    """One whose detached sandboxes are kept by somebody who has to be asked."""

    async def living(self, found: Iterable[SandboxRecord]) -> builtins.list[SandboxRecord]:
        """Those of them that run; what is left of the others is removed."""


@runtime_checkable
class RootedSpec(BackendSpec, Protocol):
    """A backend that can be given a root file system of its own, or show more of this host's."""

    def host_directories(self) -> tuple[str, ...]:
        """Directories of this host that are shown where they are, without links in their paths."""

    def root_mounts(self, image: str | None) -> tuple[Mount, ...]:
        """What file calls reach of it besides the mounts, only to read; `image` is the one that was asked for."""


class Connection(Protocol):
    """A connection between this host and something inside: bytes both ways, each way with an end of its own.

    What breaks is a `ConnectionError`, also when the sandbox has ended or the connection was closed here. One task reads at
    a time; those who write take turns. It belongs to the event loop that it was made on.
    """

    async def read(self, size: int = 65_536) -> bytes:
        """The next bytes, at most so many; b"" when the other side sends no more. Nothing is read ahead of this call
        but what the window of a connection in frames allows."""

    async def write(self, data: bytes) -> None:
        """Send all of it, which waits while the other side does not take it.

        A peer that no longer reads is a `BrokenPipeError`. If this is cancelled, some of it may have been sent.
        """

    async def end(self) -> None:
        """Send no more: the other side reads to its end, and can still answer."""

    def close(self) -> None:
        """Let go of it; idempotent. What was written still arrives."""

    def abort(self) -> None:
        """The same, and the other side shall hear that it was cut off."""


Handler = Callable[[Connection], Awaitable[None]]
"""Serves one connection, which is closed when it returns, and aborted when it raises or is cancelled."""


class Listener(Protocol):
    """Something that is listened at inside."""

    @property
    def address(self) -> RelayAddress:
        """Where; with the port that was found, if any would do."""

    async def close(self) -> None:
        """Accept nobody any more; handlers are cancelled and waited for. Idempotent."""


@runtime_checkable
class RelayingDriver(Driver, Protocol):
    """One whose sandbox can be connected to, and from. All of it ends with this driver, also where the sandbox lives on."""

    async def listen(self, address: RelayAddress, handler: Handler) -> Listener:
        """Listen inside, and call `handler` in a task of its own for each connection that something inside makes.

        A place that is taken is an `ExistsError`. There are at most 1024 connections in a sandbox; more wait.
        """

    async def connect(self, address: RelayAddress) -> Connection:
        """Connect to something that listens inside; `NotFoundError` if nothing does."""

    def on_close(self, action: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Have `action` done first of all when this is closed; what is returned undoes that."""
