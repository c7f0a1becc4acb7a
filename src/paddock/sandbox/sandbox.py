"""`Sandbox`: the object users hold."""

import builtins
import math
import os
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from paddock import paths, records
from paddock.audit import Events
from paddock.bridge.grants import Grant, Grantable
from paddock.config import BACKEND, MAX_OUTPUT, TIMEOUT
from paddock.consent import Policy
from paddock.driver import BackendSpec, Handler, RelayingDriver, Running, Spawn
from paddock.errors import (
    ClosedError,
    CommandFailedError,
    ConfigError,
    NotDirectoryError,
    NotTextError,
    visible,
)
from paddock.finishing import to_the_end
from paddock.sandbox import search, transfer, walk
from paddock.sandbox.budget import Budget
from paddock.sandbox.commands import (
    Command,
    CommandView,
    Environment,
    Stdin,
    finish,
    last_words,
    program,
    words,
)
from paddock.sandbox.core import Core
from paddock.sandbox.create import Launched, Request, check_labels, connect, launch, living, remove, unsupported
from paddock.sandbox.files import Files, amount
from paddock.sandbox.layout import HostPath, Mode
from paddock.sandbox.mounts import Scope, table
from paddock.sandbox.operation import Gate, Operation
from paddock.sandbox.process import Process
from paddock.sandbox.watch import Watch
from paddock.types import (
    ExecResult,
    FileInfo,
    Isolation,
    Limits,
    Match,
    Mount,
    Network,
    ProcessInfo,
    SandboxInfo,
    Secret,
)
from paddock.types.events import EventKind, Initiator
from paddock.types.mounts import host_path as as_host_path
from paddock.types.ports import Endpoint
from paddock.types.review import Change
from paddock.types.snapshots import Snapshot

if TYPE_CHECKING:  # what few sandboxes need is loaded when one does
    from paddock.git import Git
    from paddock.review import ChangeSet
    from paddock.sandbox.copies import Copies
    from paddock.sandbox.serving import Service, Variables

T = TypeVar("T")

MAX_PATH = paths.MAX_PATH
INLINE_BYTES = 256 << 10
INLINE_FILES = 32
INLINE_DIRECTORY = 16 << 10  # as large as a directory of a few hundred entries


class Creation:
    """A sandbox about to be there: await it, or enter it with `async with` to have it closed at the end of the block."""

    def __init__(self, make: Callable[[], Awaitable["Sandbox"]], call: str = "create") -> None:
        self._make = make
        self._name = call
        self._sandbox: Sandbox | None = None

    def __await__(self) -> Generator[Any, None, "Sandbox"]:
        return self._make().__await__()

    async def __aenter__(self) -> "Sandbox":
        self._sandbox = await self._make()
        return self._sandbox

    def __enter__(self) -> NoReturn:
        raise TypeError(
            f"Sandbox.{self._name}() is entered with `async with`; for plain `with` there is paddock.sync.Sandbox."
        )

    def __exit__(self, *_: Any) -> None: ...

    async def __aexit__(self, *_: Any) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()

    def __getattr__(self, name: str) -> NoReturn:
        call = f"Sandbox.{self._name}()"
        raise AttributeError(f"{call} was not awaited: use `sb = await {call}` before `.{name}`.")


class Sandbox:
    """A place for commands and files, the same wherever it runs. Made by `Sandbox.create`."""

    def __init__(self, core: Core, files: Files, workdir: str, gate: Gate, *, view: bool = False) -> None:
        self._core = core
        self._files = files
        self._workdir = workdir
        self._gate = gate
        self._view = view

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
        limits: Limits = Limits(),  # noqa: B008 - frozen
        network: Network = Network(),  # noqa: B008 - frozen
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
    ) -> Creation:
        """A new sandbox: `await` it, or use `async with`.

        `backend` is a name or a spec such as `Memory()`; `auto` is the strongest isolation that needs no set-up here and
        never becomes `local`. With neither `root`, `workspace` nor `cache` everything is private and removed at close.
        A `detached` one runs on after that, until `remove`, its `idle_timeout` or its `lifetime`.
        """
        request = Request(
            backend=backend,
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
        )
        return Creation(lambda: cls._open(request))

    @classmethod
    def connect(cls, id_or_name: str) -> Creation:
        """A detached sandbox that runs, wherever it was made: `await` it, or use `async with`.

        Its files are there and its commands run on: `processes` and `process` find them. Closing lets go of it.
        """
        return Creation(lambda: cls._connect(id_or_name), "connect")

    @classmethod
    async def find(cls, *, labels: Mapping[str, str] | None = None) -> builtins.list[SandboxInfo]:
        """The detached sandboxes that run and have all of these labels, the oldest first."""
        wanted = check_labels(labels).items()
        return [record.info for record in await living() if wanted <= record.info.labels.items()]

    @classmethod
    async def remove(cls, id_or_name: str) -> None:
        """End a detached sandbox for good, with its commands and all that is private. Whoever is connected loses it."""
        import asyncio

        record = await asyncio.to_thread(records.find, id_or_name)
        await remove(record)

    @classmethod
    async def _connect(cls, id_or_name: str) -> "Sandbox":
        import asyncio

        record = await asyncio.to_thread(records.find, id_or_name)
        sandbox = cls._over(await connect(record))
        try:
            with sandbox._operation("connect", None, "sandbox"):
                await sandbox._begin_egress()
        except BaseException:
            await to_the_end(sandbox.close())
            raise
        return sandbox

    @classmethod
    async def _open(cls, request: Request, *, fill: Snapshot | None = None) -> "Sandbox":
        launched = await launch(request)
        sandbox = cls._over(launched)
        try:
            with sandbox._operation("create", None, "sandbox"):
                if fill is not None:
                    await sandbox._copying(lambda kept: kept.restore(fill))
                if all(mount.target != launched.workdir for mount in launched.plan.mounts):
                    await sandbox._call(lambda: _directory(sandbox._files, launched.workdir))
                await sandbox._begin_egress()
            if launched.tools:
                await sandbox.grant(*launched.tools)
        except BaseException:
            await to_the_end(sandbox._undo())
            raise
        return sandbox

    async def _undo(self) -> None:
        """Nothing is left of one that nobody gets."""
        launched = self._core.launched
        try:
            await self.close()
            if launched.detached:
                await self.remove(launched.id)
        finally:
            launched.layout.undo()

    @classmethod
    def _over(cls, launched: Launched) -> "Sandbox":
        """The object for a sandbox that runs."""
        gate = Gate(launched.bus, detached=launched.driver if launched.detached else None)
        dirs = {mount.target: launched.driver.dir(mount.target) for mount in launched.plan.mounts}
        files = Files(table(launched.plan.mounts, dirs, launched.layout.protected))
        core = Core(launched, any(d.remote for d in dirs.values()))
        core.begin(gate)
        return cls(core, files, launched.workdir, gate)

    # Who and what it is

    @property
    def id(self) -> str:
        """Unique, and the name of its private directory."""
        return self._core.launched.id

    @property
    def name(self) -> str | None:
        """The name it was given."""
        return self._core.launched.plan.name

    @property
    def backend(self) -> str:
        """The name of the backend it runs on."""
        return self._core.launched.spec.name

    @property
    def labels(self) -> dict[str, str]:
        """The labels it was given."""
        return dict(self._core.launched.plan.labels)

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What it reaches and where that is on the host; a source of None is private."""
        return self._files.table.mounts

    @property
    def isolation(self) -> Isolation:
        """What really holds here, and what holds it."""
        return self._core.isolation

    def note_secret(self, secret: str) -> None:
        """Say in `isolation.secrets` from now on that commands are given this one, such as "the key of Cursor"."""
        if secret not in self._core.exposed:
            self._core.exposed.append(secret)

    @property
    def workdir(self) -> str:
        """Where relative paths and commands start."""
        return self._workdir

    async def set_workdir(self, path: str) -> None:
        """Start somewhere else from now on; it has to be a directory."""
        with self._operation("set_workdir", path) as operation:
            full = operation.subject = self._full(path)
            await self._call(lambda: _directory(self._files, full))
            self._workdir = full

    # Reading

    async def read(self, path: str) -> str:
        """A whole text file. One that is not UTF-8 is a `NotTextError`."""
        data = await self.read_bytes(path)
        try:
            return data.decode()
        except UnicodeDecodeError:
            full = self._full(path)
            raise NotTextError(f"'{visible(full)}' is not UTF-8 text.", path=full) from None

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """A whole file, or a range of it. More than 256 MiB in one call is a `TooLargeError`."""
        with self._operation("read", path) as operation:
            _check_range(offset, limit)
            full = operation.subject = self._full(path)
            if self._core.remote:
                data = await self._core.in_thread(Budget(), lambda: self._read(full, offset, limit))
            else:
                with self._files.open(full, offset) as reader:
                    size = amount(reader, full, offset, limit)
                    if size <= INLINE_BYTES:
                        data = reader.read(size)
                    else:
                        data = await self._core.in_thread(Budget(), lambda: reader.read(size))
            operation.size = len(data)
            return data

    async def exists(self, path: str) -> bool:
        """Whether something is there; False for what is out of reach."""
        with self._operation("exists", path) as operation:
            full = operation.subject = self._full(path)
            return await self._call(lambda: self._files.exists(full))

    async def stat(self, path: str) -> FileInfo:
        """What is there, through links."""
        with self._operation("stat", path) as operation:
            full = operation.subject = self._full(path)
            return await self._call(lambda: self._files.stat(full))

    async def list(self, path: str = ".") -> builtins.list[str]:
        """The names in a directory, sorted. `list("/")` names what is reachable."""
        with self._operation("list", path) as operation:
            full = operation.subject = self._full(path)
            names = await self._call(lambda: self._files.list(full), inline=self._is_small(full))
            operation.count = len(names)
            return names

    async def scan(self, path: str = ".") -> builtins.list[FileInfo]:
        """What is in a directory, sorted by name; links are shown as links."""
        with self._operation("scan", path) as operation:
            full = operation.subject = self._full(path)
            found = await self._call(lambda: self._files.scan(full), inline=self._is_small(full))
            operation.count = len(found)
            return found

    async def glob(self, pattern: str, path: str | None = None) -> builtins.list[str]:
        """The paths that match, absolute and sorted; `**` matches any number of directories. Links are not followed."""
        with self._operation("glob", path) as operation:
            budget, base = Budget(), self._full(path or ".")
            operation.subject = base
            found = await self._core.in_thread(budget, lambda: walk.glob(self._files, pattern, base, budget))
            operation.count = len(found)
            return found

    async def grep(
        self,
        pattern: str,
        path: str | None = None,
        *,
        glob: str | None = None,
        ignore_case: bool = False,
        limit: int = 100,
    ) -> builtins.list[Match]:
        """The lines of text files that match a regular expression, at most `limit`. `glob` chooses files by name."""
        with self._operation("grep", path) as operation:
            budget, base = Budget(), self._full(path or ".")
            operation.subject = base
            found = await self._core.search(
                budget,
                lambda: search.grep(
                    self._files, pattern, base, only=glob, ignore_case=ignore_case, limit=limit, budget=budget
                ),
            )
            operation.count = len(found)
            return found

    def watch(self, path: str = ".") -> Watch:
        """The changes below a directory: `async with` it, or iterate."""
        with self._operation("watch", path) as operation:
            full = operation.subject = self._full(path)
            watch = Watch(self._files, full, self._core.in_thread, self._core.forget_watch)
            self._core.watches[watch] = self._gate
            return watch

    # Writing

    async def write(self, path: str, content: str | bytes, *, mode: int | None = None) -> None:
        """Put a whole file there, atomically; parents are made. The old file's mode is kept unless one is given."""
        with self._operation("write", path) as operation:
            data = _bytes(content)
            operation.size = len(data)
            full = operation.subject = self._full(path)
            if len(data) <= INLINE_BYTES and not self._core.remote:
                self._files.write(full, data, mode)
            else:
                await self._core.in_thread(Budget(), lambda: self._files.write(full, data, mode))

    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Put all of these files there, or none of them."""
        with self._operation("write_files", None) as operation:
            if not isinstance(files, Mapping):
                raise ConfigError(
                    "write_files takes a mapping of paths to contents.", hint='Such as {"f.txt": "text"}.'
                )
            contents = {self._full(path): _bytes(content) for path, content in files.items()}
            if len(contents) != len(files):
                raise ConfigError("A file is named twice.", hint="Name each file once.")
            operation.size, operation.count = sum(map(len, contents.values())), len(contents)
            operation.subject = os.path.commonpath(contents) if contents else None
            small = len(contents) <= INLINE_FILES and operation.size <= INLINE_BYTES
            if contents:
                budget = Budget(seconds=None)
                if small and not self._core.remote:
                    self._files.write_files(contents, budget)
                else:
                    await self._core.in_thread(budget, lambda: self._files.write_files(contents, budget))

    async def mkdir(self, path: str) -> None:
        """Make a directory and its parents; one that is there already is fine."""
        with self._operation("mkdir", path) as operation:
            full = operation.subject = self._full(path)
            await self._call(lambda: self._files.mkdir(full))

    async def delete(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file or a link, or with `recursive` a directory with all that is in it."""
        with self._operation("delete", path) as operation:
            full = operation.subject = self._full(path)
            await self._call(lambda: self._files.delete(full, recursive=recursive), inline=not recursive)

    async def move(self, path: str, to: str, *, overwrite: bool = False) -> None:
        """Give a file or directory another path. Something there is an `ExistsError` unless `overwrite`."""
        with self._operation("move", path) as operation:
            source, target = self._full(path), self._full(to)
            operation.subject, operation.target = source, target
            if not await self._call(lambda: self._files.rename(source, target, overwrite=overwrite)):
                budget = Budget(seconds=None)
                await self._core.in_thread(
                    budget,
                    lambda: transfer.move(self._files, source, target, overwrite=overwrite, budget=budget),
                )

    async def copy(self, path: str, to: str, *, overwrite: bool = False) -> None:
        """Copy a file or a whole tree. Something there is an `ExistsError` unless `overwrite`."""
        with self._operation("copy", path) as operation:
            source, target = self._full(path), self._full(to)
            operation.subject, operation.target = source, target
            budget = Budget(seconds=None)
            operation.size = await self._core.in_thread(
                budget, lambda: transfer.copy(self._files, source, target, overwrite=overwrite, budget=budget)
            )

    async def upload(self, host_path: HostPath, path: str) -> None:
        """Copy a file or tree of this host into the sandbox, over what is there. Links have to stay inside the tree."""
        with self._operation("upload", path) as operation:
            full, source = self._full(path), as_host_path(host_path)
            operation.subject = full
            budget = Budget(seconds=None)
            operation.size = await self._core.in_thread(
                budget, lambda: transfer.upload(self._files, source, full, budget)
            )

    async def download(self, path: str, host_path: HostPath) -> str:
        """Copy a file or tree to this host, over what is there; its absolute path. Links have to stay inside the tree."""
        with self._operation("download", path) as operation:
            full, target = self._full(path), as_host_path(host_path)
            operation.subject = full
            budget = Budget(seconds=None)
            written, operation.size = await self._core.in_thread(
                budget, lambda: transfer.download(self._files, full, target, budget)
            )
            return written

    def resolve(self, path: str) -> str:
        """The real path on this host, for outside tools; links are followed and have to stay inside."""
        with self._operation("resolve", path) as operation:
            full = operation.subject = self._full(path)
            place = self._files.table.locate(full)
            base = self._core.launched.driver.host_path(place.mount.target)
            if base is None:
                raise unsupported(self.backend, "resolve", f"has no path on this host for '{visible(full)}'")
            place = self._files.target(full)
            base = self._core.launched.driver.host_path(place.mount.target) or base
            return os.path.join(base, os.fsdecode(paths.encode(place.relative))) if place.relative else base

    async def canonical(self, path: str) -> str:
        """The path that this one means once all links are followed, in the sandbox's own tree, if it exists or not.

        What runs inside may change links at any time: it is good for rules that keep from mistakes.
        """
        with self._operation("canonical", path) as operation:
            full = operation.subject = self._full(path)
            return await self._call(lambda: self._files.target(full).path)

    # Views

    def restrict(self, *paths_: str, read_only: bool = True) -> "Sandbox":
        """A view that reaches only these paths, at the same places; it can only narrow. `"/"` is all that is reachable."""
        with self._operation("restrict", ", ".join(map(str, paths_)) or None, "sandbox"):
            if not paths_:
                raise ConfigError("A view of nothing is no use.", hint='Name at least one path; "/" means all of them.')
            scopes = [Scope(self._full(path), read_only) for path in paths_]
            files = Files(self._files.table.narrow(scopes))
            return Sandbox(self._core, files, self._workdir, self._gate.child(), view=True)

    # What changed, and copies of it

    async def changes(self) -> "ChangeSet":
        """With `review=True`: how the workspace and the other writable mounts differ from their host directories.

        Nothing has left the sandbox yet: `apply` of what this returns writes to the host, `discard` forgets, `keep` keeps.
        """
        with self._operation("changes", None, "review") as operation:
            from paddock.sandbox import reviewing

            self._need_whole("review")
            found = await reviewing.changes(self._core, self._gate)
            operation.count = len(found)
            return found

    async def snapshot(self, name: str | None = None) -> Snapshot:
        """Keep what is in /workspace now, on this host, also for after the sandbox's end. A name is given once.

        What has not changed since the last one is not read again and takes no space. Commands may go on meanwhile.
        """
        with self._operation("snapshot", name) as operation:
            taken = await self._copying(lambda kept: kept.take(name))
            operation.subject, operation.count, operation.size = taken.id, taken.entries, taken.size
            return taken

    async def snapshots(self, *, everywhere: bool = False) -> builtins.list[Snapshot]:
        """Those of this sandbox, the oldest first; or those of every sandbox on this host."""
        with self._operation("snapshots", None):
            return await self._copying(lambda kept: kept.all(everywhere=everywhere))

    async def restore(self, snapshot: Snapshot | str) -> None:
        """Make /workspace exactly what it was in a snapshot, given itself, its id or its name. What is there now is lost."""
        with self._operation("restore", _named(snapshot)):
            await self._copying(lambda kept: kept.restore(snapshot))

    async def diff(self, a: Snapshot | str, b: Snapshot | str | None = None) -> builtins.list[Change]:
        """How /workspace in snapshot `b`, or as it is now, differs from snapshot `a`; sorted by path."""
        with self._operation("diff", _named(a)) as operation:
            found = await self._copying(lambda kept: kept.diff(a, b))
            operation.count = len(found)
            return found

    async def remove_snapshot(self, snapshot: Snapshot | str) -> None:
        """Forget a snapshot, and free what only it had."""
        with self._operation("remove_snapshot", _named(snapshot)):
            await self._copying(lambda kept: kept.forget(snapshot))

    def fork(self) -> Creation:
        """Another sandbox like this one, with a copy of its workspace as it is now: `await` it, or use `async with`.

        From then on neither sees what the other does. Its other private directories are empty, it runs no commands yet, and
        it is not detached.
        """
        return Creation(self._fork, "fork")

    async def _fork(self) -> "Sandbox":
        with self._operation("fork", None, "sandbox") as operation:
            from paddock.sandbox import forking

            self._gate.need_files()
            taken = await self._copying(lambda kept: kept.take(None))
            try:
                other = await self._open(
                    forking.like(self._core.launched, self._workdir, self._core.network), fill=taken
                )
            finally:
                await to_the_end(self._copying(lambda kept: kept.forget(taken)))
            operation.target = other.id
            return other

    async def _copying(self, work: "Callable[[Copies], T]") -> T:
        from paddock.sandbox.copies import Copies

        self._need_whole("snapshots")
        budget = Budget(seconds=None)
        return await self._core.in_thread(budget, lambda: work(Copies(self._core.launched, budget)))

    @property
    def git(self) -> "Git":
        """The git gate: work leaves as commits that somebody has seen, and comes in from branches."""
        from paddock.sandbox import gating

        self._need_whole("git")
        return gating.git_of(self._core, self, self._gate)

    # Commands

    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Environment | None = None,
        stdin: Stdin | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT,
        check: bool = False,
    ) -> ExecResult:
        """Run a command to its end. A nonzero exit is a result, unless `check`; running out of time is an error.

        A text is run by the shell, a list as it is. `timeout=None` is the sandbox's own, `math.inf` none at all.
        """
        with self._operation("exec", None, "command") as operation:
            limit = self._core.launched.timeout if timeout is None else timeout
            if limit is not None and (type(limit) not in (int, float) or not limit > 0):
                raise ConfigError(f"timeout={timeout!r} is not a time.", hint="Give seconds above 0, or math.inf.")
            if stdin is not None and not isinstance(stdin, (str, bytes, AsyncIterable)):
                raise ConfigError("stdin= is text, bytes, or an async iterable of bytes.", hint="Join a list first.")
            try:
                running = await self._spawn(command, cwd, env, stdin is not None, max_output)
            finally:
                operation.subject = program(command)  # when it is on its way, if it is
            result = await finish(self._core.process(running), stdin, math.inf if limit is None else limit)
            operation.size = len(result.stdout_bytes) + len(result.stderr_bytes)
            if check and result.exit_code:
                raise CommandFailedError(
                    f"The command ended with status {result.exit_code}.",
                    result=result,
                    hint=last_words(result),
                )
            return result

    async def start(
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
        """Start a command and go on; `stdin=True` keeps its standard input open for `Process.write`.

        With `leave`, in a detached sandbox, it is left to itself: what comes back tells its pid and not how it ends, which is
        kept with the last of its output for whoever calls `process`. One that cannot be run has an `exit_code` at once.
        """
        with self._operation("start", program(command), "command"):
            if not isinstance(stdin, bool):
                raise ConfigError("stdin= of start() is True or False.", hint="Give True, and write() the text.")
            if leave and not self._core.launched.detached:
                raise ConfigError("leave= is for a detached sandbox.", hint="Create it with detached=True.")
            running = await self._spawn(
                command, cwd, env, stdin or pty, max_output, pty=pty, background=True, left=leave
            )
            return self._core.process(running)

    async def processes(self) -> builtins.list[ProcessInfo]:
        """The commands that run; and of a detached sandbox those that ended unheard, which have an `exit_code`."""
        with self._operation("processes", None, "command"):
            self._need_commands()
            self._need_no_view()
            return await self._core.launched.driver.processes()

    async def process(self, pid: int) -> Process:
        """A command of `processes` again, by its pid. One that ended unheard is told of once."""
        with self._operation("process", str(pid), "command"):
            self._need_commands()
            self._need_no_view()
            return self._core.process(await self._core.launched.driver.attach(pid))

    # The network

    @property
    def network(self) -> Network:
        """The policy that holds now."""
        return self._core.network

    async def set_network(self, network: Network, *, secrets: Iterable[Secret] | None = None) -> None:
        """Let it reach what this policy allows, from now on. What goes on and is not allowed any more is ended.

        `secrets` are others instead of those that it has. Commands that were started when there was no network at all do
        not know how to get out. No model can call this.
        """
        with self._operation("set_network", None, "connection"):
            from paddock.sandbox import egressing

            self._need_whole("network")
            await egressing.change(self._core, network, secrets, self._put)

    async def _begin_egress(self) -> None:
        launched = self._core.launched
        if launched.network.policy != "none" or launched.secrets.described:
            from paddock.sandbox import egressing

            await egressing.begin(self._core, launched.network, launched.secrets, self._put)

    async def _put(self, path: str, content: bytes) -> None:
        """A file of Paddock's own, for commands to read."""
        await self._call(lambda: self._files.write(path, content, 0o644))

    # Tools and ports

    @property
    def tools(self) -> tuple[Grant, ...]:
        """What is granted now, sorted by name."""
        return () if self._core.bridge is None else self._core.bridge.grants

    async def grant(self, *tools: Grantable) -> tuple[Grant, ...]:
        """Let what runs inside use these: Python functions, `Tool` or `McpServer`. All of them, or none on error.

        They are at the MCP server that `paddock-bridge "$PADDOCK_BRIDGE"` speaks to, for commands started from now on.
        """
        with self._operation("grant", None, "tool") as operation:
            from paddock.sandbox import bridging

            self._need_whole("tools")
            granted = await bridging.grant(self._core, tools)
            operation.told = bool(granted)
            return granted

    async def revoke(self, name: str) -> None:
        """Take back a tool, or all tools of an MCP server, by its name. Calls that run are ended."""
        with self._operation("revoke", name, "tool") as operation:
            from paddock.sandbox import bridging

            self._need_whole("tools")
            concerned = any(name in (grant.name, grant.server) for grant in self.tools)
            await bridging.revoke(self._core, name)
            operation.told = concerned

    async def expose(self, port: int, host_port: int = 0) -> Endpoint:
        """Reach a port inside from this host: `Endpoint.url` is for a browser. It ends with `close`, or with the sandbox.

        `host_port` is the port of this host's loopback, and any that is free unless given.
        """
        with self._operation("expose", str(port), "connection") as operation:
            from paddock import ports

            endpoint = await ports.expose(self._relaying(), port, host_port)
            operation.target = str(endpoint.port)
            return endpoint

    async def wait_for_port(self, port: int, *, timeout: float = 30.0) -> None:
        """Return when something inside accepts connections at this port; `ExecTimeoutError` if nothing does in time."""
        with self._operation("wait_for_port", str(port), "connection"):
            from paddock import ports

            await ports.wait_for_port(self._relaying(), port, timeout)

    async def serve(
        self, name: str, handler: Handler, *, port: int = 0, variables: "Variables | None" = None
    ) -> "Service":
        """Have this host's `handler` serve a port of the sandbox's loopback: `port`, or another if that is taken.

        `variables` is given the port and says what commands find in their environment from now on.
        """
        with self._operation("serve", name, "connection"):
            from paddock.sandbox.serving import serve

            return await serve(self._core, self._relaying(), name, handler, port, variables or _nothing_told)

    def _relaying(self) -> RelayingDriver:
        from paddock.sandbox import bridging

        self._need_whole("relays")
        return bridging.relaying(self._core, "relays", "has no relays")

    # Life

    async def ask(self, action: str, subject: str, digest: str, summary: str) -> None:
        """Return if `approve=` agrees to this act on the content with this hash; else `NotAuthorizedError`.

        For services that let somebody do something in this sandbox, such as tools; see `ApprovalRequest` for the words.
        """
        if self._gate.closed:
            raise ClosedError(self._gate.why)
        await self._core.consent.ask(action, subject, digest, summary)

    def events(self) -> Events:
        """What happens from now on, until the sandbox closes."""
        if self._gate.closed:
            raise ClosedError(self._gate.why)
        return self._gate.bus.listen()

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
        self._gate.bus.emit(kind, operation, subject, outcome, duration, size, count, initiator=initiator)

    async def close(self) -> None:
        """End every command and remove what is private; a detached sandbox is left to itself, with what `start` began.

        Any use afterwards is a `ClosedError`; closing again is not.
        """
        if not self._view:
            await self._core.close(self._gate)
            return
        self._gate.close()
        self._gate.bus.close()
        await self._core.end_watches()

    async def __aenter__(self) -> "Sandbox":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} on {self.backend}{' (view)' if self._view else ''}>"

    # How a call is made

    def _operation(self, name: str, subject: str | None, kind: EventKind = "file") -> Operation:
        return Operation(self._gate, kind, name, subject[:MAX_PATH] if isinstance(subject, str) else None)

    def _full(self, path: str) -> str:
        return paths.normalise(path, self._workdir)

    def _is_small(self, path: str) -> bool:
        return self._core.remote or self._files.stat(path).size <= INLINE_DIRECTORY

    def _read(self, path: str, offset: int, limit: int | None) -> bytes:
        with self._files.open(path, offset) as reader:
            return reader.read(amount(reader, path, offset, limit))

    async def _call(self, function: Callable[[], T], *, inline: bool = True) -> T:
        """A short file call: here on the loop, or in a thread where it may take long."""
        if inline and not self._core.remote:
            return function()
        return await self._core.in_thread(Budget(), function)

    def _need_commands(self) -> None:
        if not self._core.launched.spec.capabilities.commands:
            raise unsupported(self.backend, "commands", "runs no commands")

    def _need_whole(self, capability: str) -> None:
        """What is about all of a sandbox is not for a view, which may reach less."""
        if self._view:
            raise unsupported(
                self.backend, capability, f"has no {capability} for a view", "Ask the sandbox it was made from."
            )

    def _need_no_view(self) -> None:
        if self._view:
            raise unsupported(
                self.backend, "view_commands", "shows no commands to a view", "Ask the sandbox it was made from."
            )

    async def _spawn(
        self,
        command: Command,
        cwd: str | None,
        env: Environment | None,
        stdin: bool,
        max_output: int,
        *,
        pty: bool = False,
        background: bool = False,
        left: bool = False,
    ) -> Running:
        can, launched = self._core.launched.spec.capabilities, self._core.launched
        argv, shell = words(command)
        self._need_commands()
        max_output = launched.max_output if max_output is MAX_OUTPUT else max_output
        if type(max_output) is not int or max_output < 0:
            raise ConfigError(f"max_output={max_output!r} is not a number of bytes.", hint="Give 0 or more.")
        if pty and not can.pty:
            raise unsupported(self.backend, "pty", "has no terminals")
        if self._view and not can.view_commands:
            raise unsupported(
                self.backend,
                "view_commands",
                "cannot run commands on a view",
                "Run them on the sandbox itself.",
            )
        directory = self._full(cwd) if cwd else self._workdir
        if self._core.remote:
            place = await self._call(lambda: self._files.directory(directory))
        else:
            place = self._files.directory(directory)
        files = CommandView(self._files, directory)
        whole = self._core.environment if env is None and not pty else self._core.environment_with(env, pty=pty)
        return await launched.driver.spawn(
            Spawn(
                argv,
                shell,
                directory,
                place.mount.target,
                place.relative,
                whole,
                stdin,
                pty,
                background,
                max_output,
                files,
                left,
            )
        )


def _named(snapshot: Snapshot | str) -> str | None:
    return snapshot.id if isinstance(snapshot, Snapshot) else snapshot if isinstance(snapshot, str) else None


def _check_range(offset: int, limit: int | None) -> None:
    for number in (offset, 0 if limit is None else limit):
        if type(number) is not int or not 0 <= number < 1 << 62:
            raise ConfigError("offset= and limit= are numbers of bytes.", hint="Give 0 or more.")


def _directory(files: Files, path: str) -> None:
    if not files.stat(path).is_dir:
        raise NotDirectoryError(f"'{visible(path)}' is not a directory.", path=path)


def _bytes(content: str | bytes) -> bytes:
    if type(content) is bytes:
        return content
    if isinstance(content, str):
        try:
            return content.encode()
        except UnicodeEncodeError:
            raise ConfigError("The text cannot be written as UTF-8.", hint="Pass bytes instead.") from None
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise ConfigError(f"Content is str or bytes, and this is a {type(content).__name__}.", hint="Encode it first.")


def _nothing_told(port: int) -> dict[str, str]:
    return {}
