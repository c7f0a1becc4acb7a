"""The async classes as blocking ones, name for name. Written by scripts/generate_sync.py: change those."""

# ruff: noqa: B008 - the calls in defaults make frozen values

import builtins
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from paddock.audit.bus import Events as AsyncEvents
from paddock.bridge.grants import Grant, Grantable
from paddock.config import (
    BACKEND,
    CLEAN_AT,
    IDLE_TIMEOUT,
    LIFETIME,
    MAX_OUTPUT,
    MAX_TOTAL,
    ONESHOT_LIFETIME,
    POLICY,
    RETENTION,
    STOP_AFTER,
    SWEEP_EVERY,
    TIMEOUT,
)
from paddock.consent import Policy
from paddock.driver import BackendSpec
from paddock.gateway.allowances import Allowance
from paddock.gateway.connectors import Connector
from paddock.gateway.gateway import PORT
from paddock.gateway.gateway import Attachment as AsyncAttachment
from paddock.gateway.gateway import Gateway as AsyncGateway
from paddock.git.gate import Git as AsyncGit
from paddock.git.gate import RepoName
from paddock.manager.clock import Clock
from paddock.manager.lease import Lease as AsyncLease
from paddock.manager.manager import Manager as AsyncManager
from paddock.manager.policies import GRACE
from paddock.review.changeset import ChangeSet as AsyncChangeSet
from paddock.review.changeset import Choice
from paddock.sandbox.commands import Command, Environment, Stdin
from paddock.sandbox.layout import HostPath, Mode
from paddock.sandbox.pool import Pool as AsyncPool
from paddock.sandbox.pool import Prepare
from paddock.sandbox.process import Process as AsyncProcess
from paddock.sandbox.sandbox import Sandbox as AsyncSandbox
from paddock.sandbox.watch import Watch as AsyncWatch
from paddock.tools.python.result import PythonResult
from paddock.tools.python.session import MOST_CHARS, RUN_SECONDS, KernelName, OnOutput
from paddock.tools.python.session import PythonSession as AsyncPythonSession
from paddock.types import (
    Chunk,
    Event,
    ExecResult,
    FileEvent,
    FileInfo,
    Isolation,
    Limits,
    ManagedInfo,
    ManagerStats,
    Match,
    Mount,
    Network,
    ProcessInfo,
    Removal,
    SandboxInfo,
    Secret,
    WorkspaceInfo,
)
from paddock.types.consent import Approval
from paddock.types.events import EventKind, Initiator
from paddock.types.git import Branch, PullResult, PushResult, RepoStatus, StagedCommit, StagedFile
from paddock.types.ports import Endpoint as AsyncEndpoint
from paddock.types.review import Applied, Change
from paddock.types.snapshots import Snapshot

if TYPE_CHECKING:
    from paddock.sync.portal import Portal


def _portal() -> "Portal":
    from paddock.sync.portal import portal  # loads asyncio, and therefore only now

    return portal()


def _whole(stdin: Stdin | Iterable[bytes] | None) -> Stdin | None:
    return stdin if stdin is None or isinstance(stdin, (str, bytes, AsyncIterable)) else b"".join(stdin)


def _in_thread(prepare: "Callable[[Sandbox], object] | None") -> Prepare | None:
    async def prepared(sandbox: AsyncSandbox) -> None:
        import asyncio

        if prepare is not None:
            await asyncio.to_thread(prepare, Sandbox(sandbox))

    return prepared if callable(prepare) else prepare  # which is refused, unless it is None


class Events(Iterator[Event]):
    """A stream of events; it ends when the sandbox closes. A slow reader loses the oldest and is told how many."""

    def __init__(self, wrapped: AsyncEvents) -> None:
        self._async = wrapped

    def __next__(self) -> Event:
        return _portal().advance(self._async.__anext__, "async for ... in paddock.audit.Events")

    def close(self) -> None:
        """Stop listening."""
        _portal().run(self._async.aclose, "await paddock.audit.Events.aclose(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.audit.Events")
        return self

    def __exit__(self, *_: Any) -> None:
        _portal().run(partial(self._async.__aexit__, *_), "async with paddock.audit.Events")


class Watch(Iterator[FileEvent]):
    """The changes below a directory, from the moment it is entered (`with`) or first asked."""

    def __init__(self, wrapped: AsyncWatch) -> None:
        self._async = wrapped

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.sandbox.Watch")
        return self

    def __exit__(self, *_: Any) -> None:
        _portal().run(partial(self._async.__aexit__, *_), "async with paddock.sandbox.Watch")

    def __next__(self) -> FileEvent:
        return _portal().advance(self._async.__anext__, "async for ... in paddock.sandbox.Watch")

    def close(self) -> None:
        """Stop watching."""
        _portal().run(self._async.aclose, "await paddock.sandbox.Watch.aclose(...)")


class Process:
    """A running command. As a context manager it is killed at the end of the block if it still runs."""

    def __init__(self, wrapped: AsyncProcess) -> None:
        self._async = wrapped

    @property
    def pid(self) -> int:
        """Its number in this sandbox, for `Sandbox.process`."""
        return self._async.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, or None while it runs."""
        return self._async.exit_code

    def __iter__(self) -> Iterator[Chunk]:
        """The output as it comes, until the command ends."""
        return _portal().iterate(self._async.__aiter__, "async for ... in paddock.Process")

    def write(self, data: str | bytes) -> None:
        """Send to its standard input (which has to be open: `stdin=True` or a pty)."""
        _portal().run(partial(self._async.write, data), "await paddock.Process.write(...)")

    def close_stdin(self) -> None:
        """End its standard input."""
        _portal().run(self._async.close_stdin, "await paddock.Process.close_stdin(...)")

    def resize(self, rows: int, columns: int) -> None:
        """Tell a pty its size."""
        _portal().run(partial(self._async.resize, rows, columns), "await paddock.Process.resize(...)")

    def signal(self, number: int) -> None:
        """Send a signal to the command's own process."""
        _portal().run(partial(self._async.signal, number), "await paddock.Process.signal(...)")

    def kill(self) -> None:
        """End its whole tree; returns when nothing of it is left."""
        _portal().run(self._async.kill, "await paddock.Process.kill(...)")

    def wait(self) -> ExecResult:
        """How it ended and the output that was kept."""
        return _portal().run(self._async.wait, "await paddock.Process.wait(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.Process")
        return self

    def __exit__(self, *_: Any) -> None:
        _portal().run(partial(self._async.__aexit__, *_), "async with paddock.Process")


class ChangeSet(Sequence[Change]):
    """What changed, as it was when it was looked at, sorted by path. Nothing has left the sandbox yet."""

    def __init__(self, wrapped: AsyncChangeSet) -> None:
        self._async = wrapped

    @property
    def changes(self) -> tuple[Change, ...]:
        """All of them."""
        return self._async.changes

    @property
    def conflicts(self) -> tuple[Change, ...]:
        """Those where the host's file is not the one that the sandbox began with."""
        return self._async.conflicts

    @property
    def flagged(self) -> tuple[Change, ...]:
        """Those that a person should look at twice."""
        return self._async.flagged

    @property
    def digest(self) -> str:
        """The hash of everything that `apply()` would write."""
        return self._async.digest

    def __len__(self) -> int:
        return len(self._async)

    @overload
    def __getitem__(self, index: int) -> Change: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Change, ...]: ...

    def __getitem__(self, index: int | slice) -> Change | tuple[Change, ...]:
        return self._async[index]

    def __iter__(self) -> Iterator[Change]:
        return iter(self._async)

    def __repr__(self) -> str:
        return repr(self._async)

    def choose(self, paths: Iterable[str | Change] | None = None) -> Choice:
        """What `apply(paths)` would do. A path at which nothing changed is a `NotFoundError`."""
        return _portal().call(partial(self._async.choose, paths))

    def apply(
        self,
        paths: Iterable[str | Change] | None = None,
        *,
        overwrite: bool = False,
        approval: Approval | str | None = None,
    ) -> Applied:
        """Write to the host exactly what was shown: all, or what is at `paths` and below."""
        return _portal().run(
            partial(self._async.apply, paths, overwrite=overwrite, approval=approval),
            "await paddock.ChangeSet.apply(...)",
        )

    def discard(self) -> None:
        """Forget all of it: the sandbox sees what the host has again. The host is not touched."""
        _portal().run(self._async.discard, "await paddock.ChangeSet.discard(...)")

    def keep(self, name: str | None = None) -> str:
        """Keep it on this host, contents and all, for after the sandbox's end; returns its id."""
        return _portal().run(partial(self._async.keep, name), "await paddock.ChangeSet.keep(...)")


class Git:
    """Work that leaves a workspace as commits that somebody has seen, and comes into it from branches."""

    def __init__(self, wrapped: AsyncGit) -> None:
        self._async = wrapped

    def pull(self, repo: RepoName, paths: Iterable[str], branch: str = "main") -> PullResult:
        """Write files of a branch below /workspace, at the paths that they have in the repository."""
        return _portal().run(partial(self._async.pull, repo, paths, branch), "await paddock.Git.pull(...)")

    def stage(self, files: Iterable[str], repo: RepoName, message: str, branch: str = "main") -> StagedCommit:
        """Keep the content that files have now, as a commit that can be pushed later. Nothing outside changes."""
        return _portal().run(partial(self._async.stage, files, repo, message, branch), "await paddock.Git.stage(...)")

    def restage(self, commit_id: str) -> StagedCommit:
        """The same change on top of what the branch is now: another staged commit, which takes the place of this one."""
        return _portal().run(partial(self._async.restage, commit_id), "await paddock.Git.restage(...)")

    def push(self, commit_id: str, *, approval: Approval | str | None = None) -> PushResult:
        """Put a staged commit on its branch, if somebody agrees: exactly the bytes that were staged."""
        return _portal().run(partial(self._async.push, commit_id, approval=approval), "await paddock.Git.push(...)")

    def discard(self, commit_id: str) -> None:
        """Forget a staged commit; an unknown one is a `GitError`."""
        _portal().run(partial(self._async.discard, commit_id), "await paddock.Git.discard(...)")

    def staged(self) -> builtins.list[StagedCommit]:
        """The commits that wait, the oldest first, without diffs."""
        return _portal().run(self._async.staged, "await paddock.Git.staged(...)")

    def show(self, commit_id: str) -> StagedCommit:
        """One of them, with its diffs; an unknown one is a `GitError`."""
        return _portal().run(partial(self._async.show, commit_id), "await paddock.Git.show(...)")

    def diff(
        self,
        commit_id: str | None = None,
        *,
        files: Iterable[str] | None = None,
        repo: RepoName | None = None,
        branch: str = "main",
    ) -> tuple[StagedFile, ...]:
        """What a staged commit changes; or, with `files` and `repo`, what staging them would change. That may be nothing."""
        return _portal().run(
            partial(self._async.diff, commit_id, files=files, repo=repo, branch=branch), "await paddock.Git.diff(...)"
        )

    def branches(self, repo: RepoName) -> builtins.list[Branch]:
        """The branches of a repository, sorted by name."""
        return _portal().run(partial(self._async.branches, repo), "await paddock.Git.branches(...)")

    def status(self, repo: RepoName | None = None, branch: str | None = None) -> builtins.list[RepoStatus]:
        """How the workspace stands to the branches that files were pulled from; with `repo`, to that one's."""
        return _portal().run(partial(self._async.status, repo, branch), "await paddock.Git.status(...)")


class Endpoint:
    """Where a port inside is reached from this host, until `close` or the end of the sandbox."""

    def __init__(self, wrapped: AsyncEndpoint) -> None:
        self._async = wrapped

    @property
    def host(self) -> str:
        return self._async.host

    @property
    def port(self) -> int:
        return self._async.port

    @property
    def inside(self) -> int:
        return self._async.inside

    @property
    def url(self) -> str:
        """What to open in a browser, if it is HTTP that is spoken there."""
        return self._async.url

    def close(self) -> None:
        """Listen no more, and end the connections that are there; idempotent."""
        _portal().run(self._async.close, "await paddock.Endpoint.close(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.Endpoint")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _portal().run(partial(self._async.__aexit__, kind, error, trace), "async with paddock.Endpoint")


class Sandbox:
    """A place for commands and files, the same wherever it runs. Made by `Sandbox.create`."""

    def __init__(self, wrapped: AsyncSandbox) -> None:
        self._async = wrapped

    @classmethod
    def create(
        cls,
        backend: str | BackendSpec = BACKEND,
        *,
        mode: Mode | None = None,
        root: HostPath | None = None,
        workspace: HostPath | None = None,
        cache: HostPath | None = None,
        mounts: Iterable[Mount] = (),
        review: bool = False,
        image: str | None = None,
        limits: Limits = Limits(),
        network: Network = Network(),
        tools: Iterable[Grantable] = (),
        secrets: Iterable[Secret] = (),
        env: Environment | None = None,
        workdir: str = "/workspace",
        timeout: float | None = TIMEOUT,
        approve: Policy = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        detached: bool = False,
        idle_timeout: float | None = None,
        lifetime: float | None = None,
    ) -> "Sandbox":
        """A new sandbox: close it, or use `with`."""
        return Sandbox(
            _portal().run(
                partial(
                    AsyncSandbox.create,
                    backend,
                    mode=mode,
                    root=root,
                    workspace=workspace,
                    cache=cache,
                    mounts=mounts,
                    review=review,
                    image=image,
                    limits=limits,
                    network=network,
                    tools=tools,
                    secrets=secrets,
                    env=env,
                    workdir=workdir,
                    timeout=timeout,
                    approve=approve,
                    name=name,
                    labels=labels,
                    detached=detached,
                    idle_timeout=idle_timeout,
                    lifetime=lifetime,
                ),
                "await paddock.Sandbox.create(...)",
            )
        )

    @classmethod
    def connect(cls, id_or_name: str) -> "Sandbox":
        """A detached sandbox that runs, wherever it was made: close it, or use `with`."""
        return Sandbox(_portal().run(partial(AsyncSandbox.connect, id_or_name), "await paddock.Sandbox.connect(...)"))

    @classmethod
    def find(cls, *, labels: Mapping[str, str] | None = None) -> builtins.list[SandboxInfo]:
        """The detached sandboxes that run and have all of these labels, the oldest first."""
        return _portal().run(partial(AsyncSandbox.find, labels=labels), "await paddock.Sandbox.find(...)")

    @classmethod
    def remove(cls, id_or_name: str) -> None:
        """End a detached sandbox for good, with its commands and all that is private. Whoever is connected loses it."""
        _portal().run(partial(AsyncSandbox.remove, id_or_name), "await paddock.Sandbox.remove(...)")

    @property
    def id(self) -> str:
        """Unique, and the name of its private directory."""
        return self._async.id

    @property
    def name(self) -> str | None:
        """The name it was given."""
        return self._async.name

    @property
    def backend(self) -> str:
        """The name of the backend it runs on."""
        return self._async.backend

    @property
    def labels(self) -> dict[str, str]:
        """The labels it was given."""
        return self._async.labels

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What it reaches and where that is on the host; a source of None is private."""
        return self._async.mounts

    @property
    def isolation(self) -> Isolation:
        """What really holds here, and what holds it."""
        return self._async.isolation

    def note_secret(self, secret: str) -> None:
        """Say in `isolation.secrets` from now on that commands are given this one, such as "the key of Cursor"."""
        _portal().call(partial(self._async.note_secret, secret))

    @property
    def workdir(self) -> str:
        """Where relative paths and commands start."""
        return self._async.workdir

    def set_workdir(self, path: str) -> None:
        """Start somewhere else from now on; it has to be a directory."""
        _portal().run(partial(self._async.set_workdir, path), "await paddock.Sandbox.set_workdir(...)")

    def read(self, path: str) -> str:
        """A whole text file. One that is not UTF-8 is a `NotTextError`."""
        return _portal().run(partial(self._async.read, path), "await paddock.Sandbox.read(...)")

    def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """A whole file, or a range of it. More than 256 MiB in one call is a `TooLargeError`."""
        return _portal().run(
            partial(self._async.read_bytes, path, offset=offset, limit=limit), "await paddock.Sandbox.read_bytes(...)"
        )

    def exists(self, path: str) -> bool:
        """Whether something is there; False for what is out of reach."""
        return _portal().run(partial(self._async.exists, path), "await paddock.Sandbox.exists(...)")

    def stat(self, path: str) -> FileInfo:
        """What is there, through links."""
        return _portal().run(partial(self._async.stat, path), "await paddock.Sandbox.stat(...)")

    def list(self, path: str = ".") -> builtins.list[str]:
        """The names in a directory, sorted. `list("/")` names what is reachable."""
        return _portal().run(partial(self._async.list, path), "await paddock.Sandbox.list(...)")

    def scan(self, path: str = ".") -> builtins.list[FileInfo]:
        """What is in a directory, sorted by name; links are shown as links."""
        return _portal().run(partial(self._async.scan, path), "await paddock.Sandbox.scan(...)")

    def glob(self, pattern: str, path: str | None = None) -> builtins.list[str]:
        """The paths that match, absolute and sorted; `**` matches any number of directories. Links are not followed."""
        return _portal().run(partial(self._async.glob, pattern, path), "await paddock.Sandbox.glob(...)")

    def grep(
        self,
        pattern: str,
        path: str | None = None,
        *,
        glob: str | None = None,
        ignore_case: bool = False,
        limit: int = 100,
    ) -> builtins.list[Match]:
        """The lines of text files that match a regular expression, at most `limit`. `glob` chooses files by name."""
        return _portal().run(
            partial(self._async.grep, pattern, path, glob=glob, ignore_case=ignore_case, limit=limit),
            "await paddock.Sandbox.grep(...)",
        )

    def watch(self, path: str = ".") -> Watch:
        """The changes below a directory: `with` it, or iterate."""
        return Watch(_portal().call(partial(self._async.watch, path)))

    def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None:
        """Put a whole file there, atomically; parents are made. The old file's mode is kept unless one is given."""
        _portal().run(partial(self._async.write, path, content, mode=mode), "await paddock.Sandbox.write(...)")

    def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Put all of these files there, or none of them."""
        _portal().run(partial(self._async.write_files, files), "await paddock.Sandbox.write_files(...)")

    def mkdir(self, path: str) -> None:
        """Make a directory and its parents; one that is there already is fine."""
        _portal().run(partial(self._async.mkdir, path), "await paddock.Sandbox.mkdir(...)")

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file or a link, or with `recursive` a directory with all that is in it."""
        _portal().run(partial(self._async.delete, path, recursive=recursive), "await paddock.Sandbox.delete(...)")

    def move(self, path: str, to: str, *, overwrite: bool = False) -> None:
        """Give a file or directory another path. Something there is an `ExistsError` unless `overwrite`."""
        _portal().run(partial(self._async.move, path, to, overwrite=overwrite), "await paddock.Sandbox.move(...)")

    def copy(self, path: str, to: str, *, overwrite: bool = False) -> None:
        """Copy a file or a whole tree. Something there is an `ExistsError` unless `overwrite`."""
        _portal().run(partial(self._async.copy, path, to, overwrite=overwrite), "await paddock.Sandbox.copy(...)")

    def upload(self, host_path: HostPath, path: str) -> None:
        """Copy a file or tree of this host into the sandbox, over what is there. Links have to stay inside the tree."""
        _portal().run(partial(self._async.upload, host_path, path), "await paddock.Sandbox.upload(...)")

    def download(self, path: str, host_path: HostPath) -> str:
        """Copy a file or tree to this host, over what is there; its absolute path. Links have to stay inside the tree."""
        return _portal().run(partial(self._async.download, path, host_path), "await paddock.Sandbox.download(...)")

    def resolve(self, path: str) -> str:
        """The real path on this host, for outside tools; links are followed and have to stay inside."""
        return _portal().call(partial(self._async.resolve, path))

    def canonical(self, path: str) -> str:
        """The path that this one means once all links are followed, in the sandbox's own tree, if it exists or not."""
        return _portal().run(partial(self._async.canonical, path), "await paddock.Sandbox.canonical(...)")

    def restrict(self, *paths_: str, read_only: bool = True) -> "Sandbox":
        """A view that reaches only these paths, at the same places; it can only narrow. `"/"` is all that is reachable."""
        return Sandbox(_portal().call(partial(self._async.restrict, *paths_, read_only=read_only)))

    def changes(self) -> ChangeSet:
        """With `review=True`: how the workspace and the other writable mounts differ from their host directories."""
        return ChangeSet(_portal().run(self._async.changes, "await paddock.Sandbox.changes(...)"))

    def snapshot(self, name: str | None = None) -> Snapshot:
        """Keep what is in /workspace now, on this host, also for after the sandbox's end. A name is given once."""
        return _portal().run(partial(self._async.snapshot, name), "await paddock.Sandbox.snapshot(...)")

    def snapshots(self, *, everywhere: bool = False) -> builtins.list[Snapshot]:
        """Those of this sandbox, the oldest first; or those of every sandbox on this host."""
        return _portal().run(
            partial(self._async.snapshots, everywhere=everywhere), "await paddock.Sandbox.snapshots(...)"
        )

    def restore(self, snapshot: Snapshot | str) -> None:
        """Make /workspace exactly what it was in a snapshot, given itself, its id or its name. What is there now is lost."""
        _portal().run(partial(self._async.restore, snapshot), "await paddock.Sandbox.restore(...)")

    def diff(self, a: Snapshot | str, b: Snapshot | str | None = None) -> builtins.list[Change]:
        """How /workspace in snapshot `b`, or as it is now, differs from snapshot `a`; sorted by path."""
        return _portal().run(partial(self._async.diff, a, b), "await paddock.Sandbox.diff(...)")

    def remove_snapshot(self, snapshot: Snapshot | str) -> None:
        """Forget a snapshot, and free what only it had."""
        _portal().run(partial(self._async.remove_snapshot, snapshot), "await paddock.Sandbox.remove_snapshot(...)")

    def fork(self) -> "Sandbox":
        """Another sandbox like this one, with a copy of its workspace as it is now: close it, or use `with`."""
        return Sandbox(_portal().run(self._async.fork, "await paddock.Sandbox.fork(...)"))

    @property
    def git(self) -> Git:
        """The git gate: work leaves as commits that somebody has seen, and comes in from branches."""
        return Git(self._async.git)

    def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Environment | None = None,
        stdin: Stdin | Iterable[bytes] | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT,
        check: bool = False,
    ) -> ExecResult:
        """Run a command to its end. A nonzero exit is a result, unless `check`; running out of time is an error."""
        return _portal().run(
            partial(
                self._async.exec,
                command,
                cwd=cwd,
                env=env,
                stdin=_whole(stdin),
                timeout=timeout,
                max_output=max_output,
                check=check,
            ),
            "await paddock.Sandbox.exec(...)",
        )

    def start(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Environment | None = None,
        stdin: bool = False,
        pty: bool = False,
        max_output: int = MAX_OUTPUT,
        leave: bool = False,
    ) -> Process:
        """Start a command and go on; `stdin=True` keeps its standard input open for `Process.write`."""
        return Process(
            _portal().run(
                partial(
                    self._async.start,
                    command,
                    cwd=cwd,
                    env=env,
                    stdin=stdin,
                    pty=pty,
                    max_output=max_output,
                    leave=leave,
                ),
                "await paddock.Sandbox.start(...)",
            )
        )

    def processes(self) -> builtins.list[ProcessInfo]:
        """The commands that run; and of a detached sandbox those that ended unheard, which have an `exit_code`."""
        return _portal().run(self._async.processes, "await paddock.Sandbox.processes(...)")

    def process(self, pid: int) -> Process:
        """A command of `processes` again, by its pid. One that ended unheard is told of once."""
        return Process(_portal().run(partial(self._async.process, pid), "await paddock.Sandbox.process(...)"))

    @property
    def network(self) -> Network:
        """The policy that holds now."""
        return self._async.network

    def set_network(self, network: Network, *, secrets: Iterable[Secret] | None = None) -> None:
        """Let it reach what this policy allows, from now on. What goes on and is not allowed any more is ended."""
        _portal().run(
            partial(self._async.set_network, network, secrets=secrets), "await paddock.Sandbox.set_network(...)"
        )

    @property
    def tools(self) -> tuple[Grant, ...]:
        """What is granted now, sorted by name."""
        return self._async.tools

    def grant(self, *tools: Grantable) -> tuple[Grant, ...]:
        """Let what runs inside use these: Python functions, `Tool` or `McpServer`. All of them, or none on error."""
        return _portal().run(partial(self._async.grant, *tools), "await paddock.Sandbox.grant(...)")

    def revoke(self, name: str) -> None:
        """Take back a tool, or all tools of an MCP server, by its name. Calls that run are ended."""
        _portal().run(partial(self._async.revoke, name), "await paddock.Sandbox.revoke(...)")

    def expose(self, port: int, host_port: int = 0) -> Endpoint:
        """Reach a port inside from this host: `Endpoint.url` is for a browser. It ends with `close`, or with the sandbox."""
        return Endpoint(
            _portal().run(partial(self._async.expose, port, host_port), "await paddock.Sandbox.expose(...)")
        )

    def wait_for_port(self, port: int, *, timeout: float = 30.0) -> None:
        """Return when something inside accepts connections at this port; `ExecTimeoutError` if nothing does in time."""
        _portal().run(
            partial(self._async.wait_for_port, port, timeout=timeout), "await paddock.Sandbox.wait_for_port(...)"
        )

    def ask(self, action: str, subject: str, digest: str, summary: str) -> None:
        """Return if `approve=` agrees to this act on the content with this hash; else `NotAuthorizedError`."""
        _portal().run(partial(self._async.ask, action, subject, digest, summary), "await paddock.Sandbox.ask(...)")

    def events(self) -> Events:
        """What happens from now on, until the sandbox closes."""
        return Events(_portal().call(self._async.events))

    def report(
        self,
        kind: EventKind,
        operation: str,
        subject: str | None,
        outcome: str,
        duration: float,
        *,
        size: int | None = None,
        count: int | None = None,
        initiator: Initiator = "host",
    ) -> None:
        """Add what a service of the host did for this sandbox to its events; see `Event` for what these are."""
        _portal().call(
            partial(
                self._async.report,
                kind,
                operation,
                subject,
                outcome,
                duration,
                size=size,
                count=count,
                initiator=initiator,
            )
        )

    def close(self) -> None:
        """End every command and remove what is private; a detached sandbox is left to itself, with what `start` began."""
        _portal().run(self._async.close, "await paddock.Sandbox.close(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.Sandbox")
        return self

    def __exit__(self, *_: Any) -> None:
        _portal().run(partial(self._async.__aexit__, *_), "async with paddock.Sandbox")

    def __repr__(self) -> str:
        return repr(self._async)


class Pool:
    """Sandboxes that are ready before they are needed. Each is handed out once, and closed by whoever took it."""

    def __init__(
        self,
        size: int = 4,
        backend: str | BackendSpec = BACKEND,
        *,
        prepare: Callable[[Sandbox], object] | None = None,
        **arguments: Any,
    ) -> None:
        self._async = AsyncPool(size, backend, prepare=_in_thread(prepare), **arguments)

    @property
    def ready(self) -> int:
        """How many could be handed out at once."""
        return self._async.ready

    def acquire(self) -> Sandbox:
        """A sandbox that nobody has used before: close it, or use `with`."""
        return Sandbox(_portal().run(self._async.acquire, "await paddock.Pool.acquire(...)"))

    def close(self) -> None:
        """End all sandboxes of the pool, also those being made and those that were handed out. Closing again is fine."""
        _portal().run(self._async.close, "await paddock.Pool.close(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.Pool")
        return self

    def __exit__(self, *_: Any) -> None:
        _portal().run(partial(self._async.__aexit__, *_), "async with paddock.Pool")

    def __repr__(self) -> str:
        return repr(self._async)


class Attachment:
    """A sandbox that can ask for models, until `close` or its end."""

    def __init__(self, wrapped: AsyncAttachment) -> None:
        self._async = wrapped

    @property
    def url(self) -> str:
        """Where the gateway is, inside."""
        return self._async.url

    @property
    def token(self) -> str:
        """What the sandbox shows as its key. It is good there, and nowhere else."""
        return self._async.token

    @property
    def connector(self) -> Connector:
        """What it is connected to."""
        return self._async.connector

    @property
    def last_heard(self) -> float:
        """When a model last said something to it, by `time.monotonic`; minus infinity before the first word."""
        return self._async.last_heard

    def close(self) -> None:
        """Answer it no more; requests that run are cut off. Idempotent."""
        _portal().run(self._async.close, "await paddock.Attachment.close(...)")


class Gateway:
    """Models for sandboxes. Keys, addresses and bounds stay here."""

    def __init__(
        self,
        connectors: Connector | Iterable[Connector] | None = None,
        *,
        per_sandbox: Allowance | None = None,
        per_user: Allowance | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        self._async = AsyncGateway(connectors, per_sandbox=per_sandbox, per_user=per_user, ledger=ledger)

    @property
    def connectors(self) -> Mapping[str, Connector]:
        """What sandboxes can be connected to."""
        return self._async.connectors

    def attach(
        self, sandbox: Sandbox, connector: str | None = None, *, allowance: Allowance | None = None, port: int = PORT
    ) -> Attachment:
        """Let a sandbox ask for models, by a connector or the only one there is."""
        return Attachment(
            _portal().run(
                partial(self._async.attach, sandbox._async, connector, allowance=allowance, port=port),
                "await paddock.Gateway.attach(...)",
            )
        )

    def close(self) -> None:
        """Answer nobody any more; idempotent."""
        _portal().run(self._async.close, "await paddock.Gateway.close(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.Gateway")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _portal().run(partial(self._async.__aexit__, kind, error, trace), "async with paddock.Gateway")


class Lease:
    """A sandbox for as long as one request needs it. Others may have leases on the same one; none of them ends another's."""

    def __init__(self, wrapped: AsyncLease) -> None:
        self._async = wrapped

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox. The object is this lease's own: its working directory is, and closing it is no harm to others."""
        return Sandbox(self._async.sandbox)

    @property
    def info(self) -> ManagedInfo:
        """Whose it is, as it was when the lease began."""
        return self._async.info

    def heartbeat(self) -> None:
        """Say that it is still needed. Calls on the sandbox say so too; a `ClosedError` says that it is gone."""
        _portal().call(self._async.heartbeat)

    def release(self) -> None:
        """It is needed no longer. What becomes of the sandbox, its policy says; releasing again is fine."""
        _portal().run(self._async.release, "await paddock.Lease.release(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.Lease")
        return self

    def __exit__(self, *_: Any) -> None:
        _portal().run(partial(self._async.__aexit__, *_), "async with paddock.Lease")

    def __repr__(self) -> str:
        return repr(self._async)


class Manager:
    """Sandboxes for many users: one for each chat, or for each workspace that chats share, made when first asked for."""

    def __init__(
        self,
        state: HostPath | None = None,
        *,
        backend: str | BackendSpec = BACKEND,
        policy: str = POLICY,
        max_total: int = MAX_TOTAL,
        max_per_user: int | None = None,
        idle_timeout: float | None = IDLE_TIMEOUT,
        stop_after: float | None = STOP_AFTER,
        lifetime: float | None = LIFETIME,
        oneshot_lifetime: float | None = ONESHOT_LIFETIME,
        grace: float = GRACE,
        retention: float | None = RETENTION,
        clean_at: str | None = CLEAN_AT,
        sweep_every: float | None = SWEEP_EVERY,
        quota: int | str | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self._async = AsyncManager(
            state,
            backend=backend,
            policy=policy,
            max_total=max_total,
            max_per_user=max_per_user,
            idle_timeout=idle_timeout,
            stop_after=stop_after,
            lifetime=lifetime,
            oneshot_lifetime=oneshot_lifetime,
            grace=grace,
            retention=retention,
            clean_at=clean_at,
            sweep_every=sweep_every,
            quota=quota,
            clock=clock,
            **options,
        )

    def open(self) -> None:
        """Take over what runs already, and begin to look after it. Opening again is fine; `with` does it."""
        _portal().run(self._async.open, "await paddock.Manager.open(...)")

    def close(self) -> None:
        """Release every lease and let go. Sandboxes run on, but for those of `oneshot`: the next manager finds them."""
        _portal().run(self._async.close, "await paddock.Manager.close(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.Manager")
        return self

    def __exit__(self, *_: Any) -> None:
        _portal().run(partial(self._async.__aexit__, *_), "async with paddock.Manager")

    def __repr__(self) -> str:
        return repr(self._async)

    def get_or_create(
        self,
        user: str,
        chat: str,
        *,
        policy: str | None = None,
        assistant: str | None = None,
        workspace: str | None = None,
        idle_timeout: float | None = None,
        lifetime: float | None = None,
        quota: float | str | None = None,
        **options: Any,
    ) -> Lease:
        """A lease on the sandbox of a chat, which is made if there is none."""
        return Lease(
            _portal().run(
                partial(
                    self._async.get_or_create,
                    user,
                    chat,
                    policy=policy,
                    assistant=assistant,
                    workspace=workspace,
                    idle_timeout=idle_timeout,
                    lifetime=lifetime,
                    quota=quota,
                    **options,
                ),
                "await paddock.Manager.get_or_create(...)",
            )
        )

    def stop(self, user: str, chat: str, *, assistant: str | None = None, workspace: str | None = None) -> None:
        """End a sandbox and all that runs in it; its workspace stays, and it starts again when it is asked for."""
        _portal().run(
            partial(self._async.stop, user, chat, assistant=assistant, workspace=workspace),
            "await paddock.Manager.stop(...)",
        )

    def remove(self, user: str, chat: str, *, assistant: str | None = None, workspace: str | None = None) -> None:
        """End a sandbox and forget it. Its workspace stays; nothing being there is fine."""
        _portal().run(
            partial(self._async.remove, user, chat, assistant=assistant, workspace=workspace),
            "await paddock.Manager.remove(...)",
        )

    def list(self, user: str | None = None) -> builtins.list[ManagedInfo]:
        """The sandboxes of a user, or of all, the oldest first; also those that are stopped."""
        return _portal().run(partial(self._async.list, user), "await paddock.Manager.list(...)")

    def stats(self) -> ManagerStats:
        """How many there are, by state, policy and user, and how many there may be; and what the workspaces hold."""
        return _portal().run(self._async.stats, "await paddock.Manager.stats(...)")

    def events(self) -> Events:
        """What the manager does from now on, until it closes."""
        return Events(_portal().call(self._async.events))

    def workspaces(self, user: str | None = None) -> builtins.list[WorkspaceInfo]:
        """The workspaces of a user, or of all. They stay when their sandbox ends, until nobody used them for `retention`."""
        return _portal().run(partial(self._async.workspaces, user), "await paddock.Manager.workspaces(...)")

    def delete_workspace(self, id: str, *, force: bool = False) -> None:
        """Remove a workspace with all that is in it. While something uses it that is a `ConflictError`, unless `force`."""
        _portal().run(
            partial(self._async.delete_workspace, id, force=force), "await paddock.Manager.delete_workspace(...)"
        )

    def sweep(self, *, dry_run: bool = False) -> builtins.list[Removal]:
        """Stop and remove the sandboxes that are due, as happens every `sweep_every` seconds; what that was."""
        return _portal().run(partial(self._async.sweep, dry_run=dry_run), "await paddock.Manager.sweep(...)")

    def clean(self, *, dry_run: bool = False) -> builtins.list[Removal]:
        """Sweep, and remove workspaces that nobody used for `retention`; what that was, or with `dry_run` would be."""
        return _portal().run(partial(self._async.clean, dry_run=dry_run), "await paddock.Manager.clean(...)")


class PythonSession:
    """A Python in a sandbox that keeps its state: variables, imports, what is open. It starts when it is first used."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        python: str = "python3",
        kernel: KernelName = "auto",
        env: Environment | None = None,
        timeout: float = RUN_SECONDS,
        max_output: int = MOST_CHARS,
    ) -> None:
        self._async = AsyncPythonSession(
            sandbox._async, python=python, kernel=kernel, env=env, timeout=timeout, max_output=max_output
        )

    @property
    def kernel(self) -> str | None:
        """Which one it is, `jupyter` or `builtin`; None before the first run."""
        return self._async.kernel

    @property
    def alive(self) -> bool:
        """Whether its Python still runs. If not, the next run has a new one, which knows nothing of what was run before."""
        return self._async.alive

    def run(self, code: str, *, timeout: float | None = None, on_output: OnOutput | None = None) -> PythonResult:
        """Run code and wait for its end. What it raises is a result; running out of time is an `ExecTimeoutError`."""
        return _portal().run(
            partial(self._async.run, code, timeout=timeout, on_output=on_output), "await paddock.PythonSession.run(...)"
        )

    def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` in what runs, as Ctrl-C does. Nothing happens if nothing does."""
        _portal().run(self._async.interrupt, "await paddock.PythonSession.interrupt(...)")

    def reset(self) -> None:
        """Forget everything: the interpreter is ended with all that it started, and the next run has a new one."""
        _portal().run(self._async.reset, "await paddock.PythonSession.reset(...)")

    def close(self) -> None:
        """End the interpreter and all that it started. Running code again is a `ClosedError`; closing again is not."""
        _portal().run(self._async.close, "await paddock.PythonSession.close(...)")

    def __enter__(self) -> Self:
        _portal().run(self._async.__aenter__, "async with paddock.PythonSession")
        return self

    def __exit__(self, *_: Any) -> None:
        _portal().run(partial(self._async.__aexit__, *_), "async with paddock.PythonSession")
