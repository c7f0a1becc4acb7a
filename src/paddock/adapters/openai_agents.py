"""Sandboxes for the OpenAI Agents SDK: `RunConfig(sandbox=SandboxRunConfig(client=PaddockSandboxClient()))`."""

import asyncio
import io
import math
import re
import tempfile
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, TypeVar, cast

from paddock.extras import need

need("openai-agents")

from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import Dependencies, SandboxSession, SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    process_id_to_prune_from_meta,
    resolve_pty_write_yield_time_ms,
)
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User
from agents.sandbox.workspace_paths import posix_path_as_path

from paddock import errors
from paddock.errors import ConfigError, NotFoundError, SandboxError, TooLargeError
from paddock.finishing import to_the_end
from paddock.registry import find
from paddock.sandbox import Sandbox
from paddock.sandbox.process import Process
from paddock.types import Limits, Mount, Network
from paddock.types.ports import Endpoint

T = TypeVar("T")

_KEPT_HERE = b"paddock-snapshot:"
_IN_MEMORY = 8 << 20
_PLAIN = re.compile(r"[\w.-][\w./ -]*")
"""A path below the workspace that means what it says."""
_PIECE = 1 << 20
_SECONDS_TO_KEEP = 900.0
_SAID = 16 << 10
_PACK = """
case $(tar --version 2> /dev/null) in *GNU*) holes=-S ;; *) holes= ;; esac
exec tar $holes -C "$@" -cf - .
"""
"""A file with holes is as long as somebody says; GNU's tar leaves the holes out."""
_MEANWHILE = (b"file changed as we read it", b"removed before we read it")
"""Why GNU's tar ends with 1 though all that could be packed was: something still works in there."""
_PRINTED = 1 << 20
"""How much is kept of what a terminal printed since somebody asked."""


class PaddockSandboxClientOptions(BaseSandboxClientOptions):
    """How a sandbox is made; what is left out is as in `Sandbox.create`."""

    type: Literal["paddock"] = "paddock"
    backend: str = "auto"
    image: str | None = None
    memory: str | None = None
    cpu: float | None = None
    network: tuple[str, ...] = ()
    """Hosts that may be reached, as for `Network.allow`; none unless named."""
    exposed_ports: tuple[int, ...] = ()
    detached: bool = False
    """It runs on when its session is closed, or this process ends, and `resume` finds it as it was, until `delete`."""
    keep: Literal["tar", "snapshot"] = "tar"
    """What a workspace is kept as: an archive for anywhere, or a snapshot of Paddock's on this host, which is quicker."""
    max_archive: int = 4 << 30
    """A workspace whose archive has more bytes is not kept as one."""


class PaddockSandboxSessionState(SandboxSessionState):
    """What is written down of a session, to go on with it later."""

    type: Literal["paddock"] = "paddock"
    options: PaddockSandboxClientOptions
    sandbox_id: str | None = None


@dataclass
class _Terminal:
    """A command that an agent started and may come back to."""

    process: Process
    tty: bool
    used: float = field(default_factory=time.monotonic)
    chunks: deque[bytes] = field(default_factory=deque)
    size: int = 0
    left_out: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    pump: "asyncio.Task[None] | None" = None

    async def read(self) -> None:
        """Gather what it prints until it ends. Of what nobody asks for, the end is kept."""
        try:
            async for chunk in self.process:
                self.chunks.append(chunk.data)
                self.size += len(chunk.data)
                while self.size > _PRINTED and len(self.chunks) > 1:
                    lost = len(self.chunks.popleft())
                    self.size, self.left_out = self.size - lost, self.left_out + lost
        finally:
            self.ended.set()

    async def printed(self, wait: int, most: int | None) -> tuple[bytes, int | None, bool]:
        """What it printed since, its tokens, and whether it ended; the SDK would gather without a bound while it waits."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait / 1000):
                await self.ended.wait()
        output, tokens, ended = await collect_pty_output(
            output_chunks=self.chunks,
            output_lock=self.lock,
            output_notify=self.ended,
            is_done=self.ended.is_set,
            yield_time_ms=0,
            max_output_tokens=most,
        )
        left_out, self.left_out, self.size = self.left_out, 0, sum(map(len, self.chunks))
        note = f"[… {left_out} bytes left out …]\n".encode() if left_out else b""
        return note + output, tokens, ended

    async def end(self) -> None:
        """End it with all that it started."""
        if self.pump is not None:
            self.pump.cancel()
            with suppress(asyncio.CancelledError, SandboxError):
                await self.pump
        with suppress(SandboxError):
            await self.process.kill()


class PaddockSandboxSession(BaseSandboxSession):
    """One sandbox. Its workspace is the manifest's root, `/workspace` unless that says otherwise."""

    state: PaddockSandboxSessionState

    def __init__(self, state: PaddockSandboxSessionState) -> None:
        self.state = state
        self._sandbox: Sandbox | None = None
        self._terminals: dict[int, _Terminal] = {}
        self._endpoints: dict[int, Endpoint] = {}

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox itself, once the session has started."""
        if self._sandbox is None:
            raise ConfigError("This session has no sandbox.", hint="Start it first: `async with session`.")
        return self._sandbox

    # Its life

    async def _ensure_backend_started(self) -> None:
        if self._sandbox is not None:
            self._set_start_state_preserved(workspace=True)
            return
        if self.state.options.detached and self.state.sandbox_id is not None:
            with suppress(NotFoundError):
                self._sandbox = await Sandbox.connect(self.state.sandbox_id)
                self._set_start_state_preserved(workspace=True)
                return
        self._sandbox = await self._create()
        self.state.sandbox_id = self._sandbox.id

    async def _create(self) -> Sandbox:
        options, manifest = self.state.options, self.state.manifest
        grants = [grant for grant in manifest.extra_path_grants if grant.host_path is not None]
        return await Sandbox.create(
            options.backend,
            image=options.image,
            limits=Limits(memory=options.memory, cpu=options.cpu),
            network=Network.allow(*options.network) if options.network else Network.none(),
            mounts=[Mount(str(one.host_path), one.path, "ro" if one.read_only else "rw") for one in grants],
            timeout=None,
            detached=options.detached,
        )

    async def _prepare_backend_workspace(self) -> None:
        await self.sandbox.mkdir(self._root)
        await self.sandbox.set_workdir(self._root)

    async def _after_start_failed(self) -> None:
        await self._let_go(remove=not self._workspace_state_preserved_on_start())

    async def _shutdown_backend(self) -> None:
        await self._let_go()

    async def _let_go(self, *, remove: bool = False) -> None:
        sandbox, self._sandbox = self._sandbox, None
        self._endpoints.clear()
        if sandbox is not None:
            await to_the_end(sandbox.close())
            if remove and self.state.options.detached:
                await Sandbox.remove(sandbox.id)

    async def running(self) -> bool:
        """Whether the sandbox answers."""
        if self._sandbox is None:
            return False
        try:
            await self._sandbox.processes()
        except SandboxError:
            return False
        return True

    async def provision_manifest_accounts(self) -> None:
        """Users and groups of a manifest: there is one user in a sandbox."""
        if self.state.manifest.users or self.state.manifest.groups:
            raise ConfigError(
                "A sandbox has one user, and no others can be added.",
                hint="Leave users and groups out of the manifest.",
            )

    @property
    def _root(self) -> str:
        return self._workspace_path_policy().sandbox_root().as_posix()

    # Commands

    def _prepare_exec_command(
        self, *command: str | Path, shell: bool | list[str], user: str | User | None
    ) -> list[str]:
        _need_no_user(user)
        return super()._prepare_exec_command(*command, shell=["sh", "-c"] if shell is True else shell, user=None)

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        words = [str(word) for word in command]
        try:
            result = await self.sandbox.exec(
                words, env=await self._environment(), timeout=math.inf if timeout is None else timeout
            )
        except errors.ExecTimeoutError as error:
            raise ExecTimeoutError(command=words, timeout_s=timeout, cause=error) from error
        except SandboxError as error:
            raise ExecTransportError(command=words, cause=error, message=str(error)) from error
        return ExecResult(stdout=result.stdout_bytes, stderr=result.stderr_bytes, exit_code=result.exit_code)

    async def _environment(self) -> dict[str, str] | None:
        environment = self.state.manifest.environment
        return await environment.resolve() if environment.value else None

    # Commands that go on, in a terminal or not

    def supports_pty(self) -> bool:
        """Whether this backend has terminals."""
        return find(self.state.options.backend).capabilities.pty

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Start a command, and tell what it has printed after a while."""
        words = self._prepare_exec_command(*command, shell=shell, user=user)
        try:
            process = await self.sandbox.start(words, env=await self._environment(), pty=tty)
        except SandboxError as error:
            raise ExecTransportError(command=words, cause=error, message=str(error)) from error
        terminal = _Terminal(process, tty)
        terminal.pump = asyncio.create_task(terminal.read())
        oldest = self._room_made()
        number = allocate_pty_process_id(set(self._terminals))
        self._terminals[number] = terminal  # nothing is awaited before it is known, so that it is ended in any case
        if oldest is not None:
            await to_the_end(oldest.end())
        wait = clamp_pty_yield_time_ms(10_000 if yield_time_s is None else int(yield_time_s * 1000))
        return await self._news(number, terminal, wait, max_output_tokens)

    async def pty_write_stdin(
        self, *, session_id: int, chars: str, yield_time_s: float | None = None, max_output_tokens: int | None = None
    ) -> PtyExecUpdate:
        """Type something, or nothing, and tell what was printed since."""
        terminal = self._resolve_pty_session_entry(pty_processes=self._terminals, session_id=session_id)
        terminal.used = time.monotonic()
        if chars:
            if not terminal.tty:
                raise RuntimeError("This command has no terminal to type in. Start it with tty=True.")
            with suppress(SandboxError, BrokenPipeError):  # it may have ended meanwhile, which is told below
                await terminal.process.write(chars)
        asked = 250 if yield_time_s is None else int(yield_time_s * 1000)
        wait = resolve_pty_write_yield_time_ms(yield_time_ms=asked, input_empty=not chars)
        return await self._news(session_id, terminal, wait, max_output_tokens)

    async def pty_terminate_all(self) -> None:
        """End all of them."""
        ending, self._terminals = self._terminals, {}
        await to_the_end(_ended(list(ending.values())))

    def _room_made(self) -> _Terminal | None:
        """The one that has to end for another, which is forgotten already."""
        if len(self._terminals) < PTY_PROCESSES_MAX:
            return None
        known = [(number, one.used, one.ended.is_set()) for number, one in self._terminals.items()]
        number = process_id_to_prune_from_meta(known)
        return None if number is None else self._terminals.pop(number)

    async def _news(self, number: int, terminal: _Terminal, wait: int, most: int | None) -> PtyExecUpdate:
        output, tokens, ended = await terminal.printed(wait, most)
        if not ended:
            return PtyExecUpdate(number, output, None, tokens)
        self._terminals.pop(number, None)
        return PtyExecUpdate(None, output, (await terminal.process.wait()).exit_code, tokens)

    # Ports

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        if port not in self._endpoints:
            try:
                self._endpoints[port] = await self.sandbox.expose(port)
            except SandboxError as error:
                raise ExposedPortUnavailableError(
                    port=port, exposed_ports=self.state.exposed_ports, reason="backend_unavailable", cause=error
                ) from error
        endpoint = self._endpoints[port]
        return ExposedPortEndpoint(host=endpoint.host, port=endpoint.port)

    # Files

    def normalize_path(self, path: Path | str, *, for_write: bool = False) -> Path:
        """An absolute path of the sandbox, below the workspace or what the manifest grants."""
        if (plain := _plain(self.state.manifest.root, str(path))) is not None:
            return Path(plain)
        return posix_path_as_path(self._workspace_path_policy().normalize_sandbox_path(path, for_write=for_write))

    def _there(self, path: Path | str, *, for_write: bool = False) -> str:
        """The same as a text."""
        plain = _plain(self.state.manifest.root, str(path))
        return self.normalize_path(path, for_write=for_write).as_posix() if plain is None else plain

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """A whole file."""
        if user is not None:
            _need_no_user(user)
        there = self._there(path)
        try:
            return io.BytesIO(await self.sandbox.read_bytes(there))
        except SandboxError as error:
            raise _unread(there, error) from error

    async def _read_bounded(self, path: Path, *, max_bytes: int) -> bytes:
        there = self._there(path)
        try:
            return await self.sandbox.read_bytes(there, limit=max_bytes)
        except SandboxError as error:
            raise _unread(there, error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Put a whole file there, atomically; parents are made."""
        if user is not None:
            _need_no_user(user)
        there = self._there(path, for_write=True)
        content = data.read() if type(data) is io.BytesIO else coerce_write_payload(path=path, data=data).stream.read()
        try:
            await self.sandbox.write(there, content)
        except SandboxError as error:
            raise WorkspaceArchiveWriteError(path=Path(there), cause=error, message=str(error)) from error

    async def _write_new_file(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        await self.write(path, data, user=user)

    # The workspace as a whole

    async def persist_workspace(self) -> io.IOBase:
        """The workspace as an archive, or the id of a snapshot of it."""
        left_out = sorted(path.as_posix() for path in self._persist_workspace_skip_relpaths())
        if self.state.options.keep == "snapshot" and not left_out and self._root == "/workspace":
            snapshot = await self._persisting(self.sandbox.snapshot)
            return io.BytesIO(_KEPT_HERE + snapshot.id.encode())
        return cast(io.IOBase, await self._persisting(lambda: self._archive(left_out)))

    async def _persisting(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return await work()
        except SandboxError as error:
            raise WorkspaceArchiveReadError(
                path=Path(self._root), cause=error, context={"reason": str(error)}
            ) from error

    async def _archive(self, left_out: list[str]) -> IO[bytes]:
        command = ["sh", "-c", _PACK, "sh", self._root, *(f"--exclude=./{_literally(path)}" for path in left_out)]
        archive = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - who asked for it closes it
        try:
            async with asyncio.timeout(_SECONDS_TO_KEEP), await self.sandbox.start(command, env={"LC_ALL": "C"}) as tar:
                said = await self._packed(tar, archive)
                _need_packed((await tar.wait()).exit_code, said)
                _need_archive(archive)
        except BaseException as error:
            archive.close()
            if isinstance(error, TimeoutError):
                raise _not_kept(f"in {_SECONDS_TO_KEEP:g} seconds") from None
            raise
        return archive

    async def _packed(self, tar: Process, archive: IO[bytes]) -> bytes:
        """Its output into the archive, as far as it may be; the beginning of what it said beside."""
        size, said = 0, b""
        async for chunk in tar:
            if chunk.stream == "stderr":
                said += chunk.data[: _SAID - len(said)]
                continue
            size += len(chunk.data)
            if size > self.state.options.max_archive:
                raise _not_kept(f"within {self.state.options.max_archive} bytes")
            archive.write(chunk.data)
        return said

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Fill the workspace from what `persist_workspace` gave. An archive is unpacked inside, by the sandbox's user."""
        stream = coerce_write_payload(path=Path(self._root), data=data).stream
        beginning = stream.read(len(_KEPT_HERE))
        try:
            if beginning == _KEPT_HERE:
                await self.sandbox.restore(stream.read().decode())
                return
            command = ["tar", "-C", self._root, "-xf", "-"]
            result = await self.sandbox.exec(command, stdin=_pieces(beginning, stream), timeout=math.inf)
            _need_success(result.exit_code, result.stderr_bytes)
        except SandboxError as error:
            raise WorkspaceArchiveWriteError(path=Path(self._root), cause=error, message=str(error)) from error


class PaddockSandboxClient(BaseSandboxClient[PaddockSandboxClientOptions | None]):
    """Makes sandboxes for agents, and finds them again."""

    backend_id = "paddock"
    supports_default_options = True

    def __init__(
        self,
        options: PaddockSandboxClientOptions | None = None,
        *,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
    ) -> None:
        self._options = options or PaddockSandboxClientOptions()
        self._instrumentation = instrumentation or Instrumentation()
        self._dependencies = dependencies

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: PaddockSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """A session whose sandbox is made when it starts."""
        options = options or self._options
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        identity = uuid.uuid4()
        state = PaddockSandboxSessionState(
            session_id=identity,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(identity)),
            exposed_ports=options.exposed_ports,
            options=options,
        )
        return self._wrap_session(PaddockSandboxSession(state), instrumentation=self._instrumentation)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Go on with a session: in its sandbox if that still runs, else in another, with the snapshot's workspace."""
        state.assert_path_grants_rebound()
        inner = PaddockSandboxSession(_ours(state))
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End a sandbox for good, also one that is detached."""
        inner = session._inner
        if not isinstance(inner, PaddockSandboxSession):
            raise _not_ours(inner)
        await inner._let_go()
        if inner.state.options.detached and inner.state.sandbox_id is not None:
            with suppress(NotFoundError):
                await Sandbox.remove(inner.state.sandbox_id)
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """A state that was written down."""
        return self._deserialize_session_state_payload(payload, PaddockSandboxSessionState)


async def _ended(terminals: list[_Terminal]) -> None:
    for terminal in terminals:
        await terminal.end()


async def _pieces(beginning: bytes, stream: Any) -> AsyncIterator[bytes]:
    yield beginning
    while piece := stream.read(_PIECE):
        yield piece


def _need_no_user(user: str | User | None) -> None:
    if user is not None:
        raise ConfigError("All of a sandbox is done as one user.", hint="Leave user= out.")


def _literally(path: str) -> str:
    """A path as tar's patterns have it."""
    return re.sub(r"([\\*?\[])", r"\\\1", path)


def _not_kept(bound: str) -> TooLargeError:
    return TooLargeError(
        f"The workspace could not be packed {bound}.",
        hint="Remove what need not be kept, pass a larger max_archive, or use keep='snapshot'.",
    )


def _need_archive(archive: IO[bytes]) -> None:
    """Return at its beginning. What the sandbox calls its tar says what it likes, but names no snapshot of this host's."""
    archive.seek(0)
    if archive.read(len(_KEPT_HERE)) == _KEPT_HERE:
        raise errors.SandboxError("tar has made no archive.", code="COMMAND_FAILED", hint="Look at the sandbox's tar.")
    archive.seek(0)


def _need_packed(exit_code: int, said: bytes) -> None:
    if exit_code == 1 and any(words in said for words in _MEANWHILE):
        return
    _need_success(exit_code, said)


def _need_success(exit_code: int, said: bytes) -> None:
    if exit_code:
        raise errors.SandboxError(
            f"tar ended with status {exit_code}: {said.decode(errors='replace').strip()[:500]}",
            code="COMMAND_FAILED",
            hint="The image needs a tar.",
        )


@lru_cache(1024)
def _plain(root: str, path: str) -> str | None:
    """Where a path below the workspace leads that means what it says: the SDK's rules take longer than the call."""
    return str(Path(root, path)) if _PLAIN.fullmatch(path) and ".." not in path else None


def _unread(there: str, error: SandboxError) -> WorkspaceReadNotFoundError | WorkspaceArchiveReadError:
    if isinstance(error, NotFoundError):
        return WorkspaceReadNotFoundError(path=Path(there), cause=error)
    return WorkspaceArchiveReadError(path=Path(there), cause=error, context={"reason": error.code})


def _ours(state: SandboxSessionState) -> PaddockSandboxSessionState:
    if not isinstance(state, PaddockSandboxSessionState):
        raise _not_ours(state)
    return state


def _not_ours(other: object) -> TypeError:
    return TypeError(f"A {type(other).__name__} is not of a PaddockSandboxClient. Give it to the client it came from.")
