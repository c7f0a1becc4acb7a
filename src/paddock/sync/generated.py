"""The async classes as blocking ones, name for name. Written by scripts/generate_sync.py: change those."""

# ruff: noqa: B008 - the calls in defaults make frozen values

import builtins
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from paddock.audit.bus import Events as AsyncEvents
from paddock.config import BACKEND, MAX_OUTPUT, TIMEOUT
from paddock.driver import BackendSpec
from paddock.sandbox.commands import Command, Environment, Stdin
from paddock.sandbox.layout import HostPath, Mode
from paddock.sandbox.pool import Pool as AsyncPool
from paddock.sandbox.pool import Prepare
from paddock.sandbox.process import Process as AsyncProcess
from paddock.sandbox.sandbox import Sandbox as AsyncSandbox
from paddock.sandbox.watch import Watch as AsyncWatch
from paddock.types import (
    Chunk,
    Event,
    ExecResult,
    FileEvent,
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

    return None if prepare is None else prepared


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
        tools: Iterable[Any] = (),
        secrets: Iterable[Secret] = (),
        env: Environment | None = None,
        workdir: str = "/workspace",
        timeout: float | None = TIMEOUT,
        approve: Callable[..., Any] | None = None,
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

    def restrict(self, *paths_: str, read_only: bool = True) -> "Sandbox":
        """A view that reaches only these paths, at the same places; it can only narrow. `"/"` is all that is reachable."""
        return Sandbox(_portal().call(partial(self._async.restrict, *paths_, read_only=read_only)))

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
    ) -> Process:
        """Start a command and go on; `stdin=True` keeps its standard input open for `Process.write`."""
        return Process(
            _portal().run(
                partial(self._async.start, command, cwd=cwd, env=env, stdin=stdin, pty=pty, max_output=max_output),
                "await paddock.Sandbox.start(...)",
            )
        )

    def processes(self) -> builtins.list[ProcessInfo]:
        """The commands that run."""
        return _portal().run(self._async.processes, "await paddock.Sandbox.processes(...)")

    def process(self, pid: int) -> Process:
        """A running command again, by its pid."""
        return Process(_portal().run(partial(self._async.process, pid), "await paddock.Sandbox.process(...)"))

    def events(self) -> Events:
        """What happens from now on, until the sandbox closes."""
        return Events(_portal().call(self._async.events))

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
