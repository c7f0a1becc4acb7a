"""What `run`, `shell` and `agent` are asked for: their options, and the sandbox that these describe."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from paddock.bridge import McpServer, Tool
from paddock.config import BACKEND
from paddock.driver import BackendSpec
from paddock.errors import ConfigError
from paddock.sandbox import Creation, Sandbox
from paddock.sandbox.layout import lay_out
from paddock.types import Limits, Mount, Network, Secret, parse_size
from paddock.types.times import parse_time

Backend = Annotated[
    str | None,
    typer.Option("--backend", "-b", metavar="NAME", help="Where to run. Without it: PADDOCK_BACKEND, your file, auto."),
]
Workspace = Annotated[
    str | None, typer.Option(metavar="DIR", help="The host directory seen at /workspace; private otherwise.")
]
Cache = Annotated[str | None, typer.Option(metavar="DIR", help="The host directory seen at /cache.")]
Root = Annotated[
    str | None, typer.Option(metavar="DIR", help="Keep both below this directory: DIR/workspace and DIR/cache.")
]
Mounts = Annotated[
    list[str] | None,
    typer.Option("--mount", metavar="SRC:TARGET[:ro|rw]", help="Show one more host directory; ro unless you say rw."),
]
Image = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The image of its container; it is pulled if it is missing. Needs `docker`."),
]
Runtime = Annotated[
    str | None, typer.Option(metavar="NAME", help="The runtime of its container: runsc is gVisor. Needs `docker`.")
]
Memory = Annotated[str | None, typer.Option(metavar="SIZE", help="At most so much memory in all, such as 2g.")]
Cpu = Annotated[float | None, typer.Option(metavar="NUMBER", help="At most so many processors, such as 1.5.")]
Timeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="End the command after this: seconds, 90s, 10m, 2h, or none.")
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="NAME[=VALUE]", help="Set a variable, or pass on one of yours by its name."),
]
Workdir = Annotated[str, typer.Option("--workdir", "-w", metavar="PATH", help="Where the command starts, inside.")]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label, for `paddock ps` to choose by.")
]
State = Annotated[
    str | None, typer.Option("--state", metavar="DIR", help="The state= of the manager, if it was given one.")
]
Expose = Annotated[
    list[int] | None,
    typer.Option("--expose", metavar="PORT", help="Reach this port inside from this host while it runs; says where."),
]
Review = Annotated[
    bool,
    typer.Option(
        "--review", help="Work on --workspace, or the current directory, without writing to it; ask in the end."
    ),
]
Connector = Annotated[
    str | None,
    typer.Option("--connector", metavar="NAME", help="Let it ask for models, by this connector of your configuration."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing of Paddock's own but errors.")]


@dataclass(frozen=True, slots=True)
class Order:
    """The command line as it was given, and what it comes to."""

    words: list[str]
    backend: str | None
    workspace: str | None
    cache: str | None
    root: str | None
    mounts: list[str] | None
    env: list[str] | None
    workdir: str
    name: str | None = None
    labels: Mapping[str, str] | None = None
    idle_timeout: float | None = None
    lifetime: float | None = None
    image: str | None = None
    runtime: str | None = None
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    review: bool = False
    tool: list[str] | None = None
    mcp: list[str] | None = None
    network: Network = Network()  # noqa: RUF009 - frozen
    secrets: tuple[Secret, ...] = ()

    @property
    def command(self) -> str | list[str]:
        """One word is a text for the shell; several are a program with its arguments."""
        return self.words[0] if len(self.words) == 1 else self.words

    def _chosen(self) -> str | BackendSpec:
        if self.runtime is None:
            return BACKEND if self.backend is None else self.backend
        if self.backend not in (None, "docker"):
            raise ConfigError(
                f"--runtime and --backend {self.backend} contradict each other.", hint="Give one of them."
            )
        from paddock.backends.docker import Docker

        return Docker(runtime=self.runtime)

    @property
    def directory(self) -> str | None:
        """The host directory at /workspace; None if that is private."""
        if self.root is not None:
            return os.path.join(self.root, "workspace")
        return "." if self.review and self.workspace is None else self.workspace

    def sandbox(self, *, detached: bool = False, more: Iterable[Mount] = (), **more_env: str) -> Creation:
        """The sandbox that was asked for, still to be made. A directory that is missing is a typing mistake."""
        for option, path in (("--workspace", self.workspace), ("--cache", self.cache)):
            if path is not None and not os.path.isdir(path):
                raise ConfigError(f"{option}={path!r} is not a directory.", hint="Make it first, or correct the path.")
        mounts = [*map(_mount, self.mounts or ()), *more]
        return Sandbox.create(
            self._chosen(),
            image=self.image,
            limits=self.limits,
            root=self.root,
            workspace=self.workspace if self.root is not None else self.directory,
            cache=self.cache,
            mounts=mounts,
            review=self.review,
            tools=self._tools(mounts),
            env=more_env | environment(self.env or ()),
            workdir=self.workdir,
            name=self.name,
            labels=self.labels,
            network=self.network,
            secrets=self.secrets,
            detached=detached,
            idle_timeout=self.idle_timeout,
            lifetime=self.lifetime,
        )

    def _tools(self, mounts: list[Mount]) -> "list[Tool | McpServer]":
        """What is granted, unless what runs inside could write it."""
        if not self.tool and not self.mcp:
            return []
        from paddock.cli.granting import granted

        written: list[str] = []
        if not self.review:
            layout = lay_out(None, self.root, self.workspace, self.cache, mounts, make=False)
            written = [str(mount.source) for mount in layout.mounts if mount.source and not mount.read_only]
        return granted(self.tool, self.mcp, written)


def limits(memory: str | None, cpu: float | None) -> Limits:
    """The limits that the options name."""
    if cpu is not None and not 0 < cpu < 1 << 31:
        raise ConfigError(f"--cpu={cpu:g} is not a positive number.", hint="Such as 1.5.")
    return Limits(memory=None if memory is None else parse_size(memory, "--memory"), cpu=cpu)


def seconds(text: str | None, option: str) -> float | None:
    """The time that an option names; None if it is not given, or 'none'."""
    return None if text is None else parse_time(text, option)


def labels(given: list[str] | None) -> dict[str, str]:
    """The labels that `--label` names, each NAME=VALUE."""
    found = {}
    for text in given or ():
        name, is_set, value = text.partition("=")
        if not name or not is_set:
            raise ConfigError(f"--label={text!r} is not a label.", hint="Such as team=blue.")
        found[name] = value
    return found


def size(text: str) -> int:
    """The size that `--max-output` names."""
    return parse_size(text, "--max-output")


def _mount(text: str) -> Mount:
    rest, _, mode = text.rpartition(":")
    if mode not in ("ro", "rw"):
        rest, mode = text, "ro"
    source, _, target = rest.rpartition(":")
    if not source or not target:
        raise ConfigError(f"--mount={text!r} is not a mount.", hint="Such as ./data:/data, or ./out:/out:rw.")
    return Mount(source, target, "rw" if mode == "rw" else "ro")


def environment(given: "list[str] | tuple[str, ...]") -> dict[str, str]:
    """What `--env` says: names alone are taken from here, and skipped when they are not set, as `Sandbox.create` does it."""
    found = {}
    for text in given:
        name, is_set, value = text.partition("=")
        if is_set:
            found[name] = value
        elif name in os.environ:
            found[name] = os.environ[name]
    return found
