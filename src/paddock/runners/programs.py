"""Where an agent's program is on this host, and how a sandbox gets to see it."""

import json
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paddock.documents import read_text
from paddock.errors import ConfigError, UnavailableError
from paddock.paths import within
from paddock.runners.alone import alone
from paddock.types.mounts import Mount
from paddock.types.record import Record

PLACE = "/opt/agents"
"""Where programs of this host are shown."""
_ARCHITECTURES = {"x86_64": ("x64", "x86_64"), "aarch64": ("arm64", "aarch64"), "arm64": ("arm64", "aarch64")}
_ELF = b"\x7fELF"


@dataclass(frozen=True, slots=True)
class Package:
    """A program in a `node_modules`. `{arch}` is x64 or arm64, `{machine}` is x86_64 or aarch64."""

    name: str
    entry: str
    interpreter: str | None = None
    """What runs it, if it is no program by itself."""


@dataclass(frozen=True, slots=True)
class Program(Record):
    """An agent's program: how it is called inside, and what the sandbox has to be shown for that."""

    agent: str
    argv: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    """For `Sandbox.create(mounts=…)`."""
    found: str | None = None
    """Where it is on this host; None if it is in the sandbox's image."""
    version: str | None = None

    def __post_init__(self) -> None:
        if not self.argv:
            raise ConfigError(
                f"The program of {self.agent} has no command.", hint="Such as Program('acp', ('gemini', '--acp'))."
            )

    def mounts_beside(self, directory: str | os.PathLike[str]) -> tuple[Mount, ...]:
        """The mounts without those that lie in this directory of the host: a sandbox that is shown it has them there."""
        whole = os.path.realpath(directory)
        return tuple(mount for mount in self.mounts if not within(os.path.realpath(mount.source or ""), whole))


def architecture() -> tuple[str, str]:
    """Of this host, as packages of npm are called and as the kernel calls it."""
    return _ARCHITECTURES.get(platform.machine(), ("x64", "x86_64"))


def find(agent: str, name: str, packages: tuple[Package, ...], folder: str | None = None) -> Program | None:
    """The program on this host: on the PATH, or in a `node_modules` here or above. Nothing is run.

    A `folder`, such as `mine/versions/*`, is one in which nothing is but the program and its own files.
    """
    path = shutil.which(name)
    program = None if path is None else _on_path(agent, Path(path), packages, folder)
    if program is not None:
        return program
    for modules in _node_modules(Path.cwd()):
        program = _in_modules(agent, modules, packages)
        if program is not None:
            return program
    return None


def _on_path(agent: str, path: Path, packages: tuple[Package, ...], folder: str | None) -> Program | None:
    """What the name stands for: a script of npm's leads to the program itself."""
    real = path.resolve()
    if packages:
        for modules in _around(real):
            program = _in_modules(agent, modules, packages)
            if program is not None:
                return program
    return _plain(agent, path, real, folder) if _is_program(real) else None


def _plain(agent: str, path: Path, real: Path, folder: str | None = None) -> Program:
    """A program that stands by itself, and is shown by itself: in its directory may be anything, as in a home."""
    version = real.name if real.name[:1].isdigit() else None
    if real.is_relative_to("/usr") or real.is_relative_to("/bin"):  # which every sandbox of this host sees
        return Program(agent, (str(real),), (), str(path), version)
    place = f"{PLACE}/{agent}"
    source = real.parent if folder is not None and real.parent.match(folder) else alone(real)
    return Program(agent, (f"{place}/{real.name}",), (Mount(source, place),), str(path), version)


def _in_modules(agent: str, modules: Path, packages: tuple[Package, ...]) -> Program | None:
    arch, machine = architecture()
    for package in packages:
        folder = modules / package.name.format(arch=arch)
        entry = package.entry.format(arch=arch, machine=machine)
        if (folder / entry).is_file() and _is_installed(folder.resolve(), modules.resolve()):
            program = _packaged(agent, folder, entry, package.interpreter)
            if program is not None:
                return program
    return None


def _is_installed(folder: Path, modules: Path) -> bool:
    """Whether a package is where packages are. A link to anywhere else may be a repository's, to be shown what it likes."""
    return modules in folder.parents or any(above.name == "node_modules" for above in folder.parents)


def _packaged(agent: str, folder: Path, entry: str, interpreter: str | None) -> Program | None:
    folder = folder.resolve()
    place = f"{PLACE}/{agent}"
    argv: tuple[str, ...] = (f"{place}/{entry}",)
    mounts: tuple[Mount, ...] = (Mount(folder, place),)
    if interpreter is not None:
        runs = shutil.which(interpreter)
        if runs is None:
            return None
        runner = _plain(interpreter, Path(runs), Path(runs).resolve())
        argv, mounts = (*runner.argv, *argv), (*runner.mounts, *mounts)
    return Program(agent, argv, mounts, str(folder / entry), _version(folder))


def _version(folder: Path) -> str | None:
    """What the package says; a repository may have brought it, with anything in its place."""
    try:
        found = json.loads(read_text(str(folder / "package.json"))).get("version")
    except (ConfigError, ValueError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _node_modules(start: Path) -> Iterator[Path]:
    for above in (start, *start.parents):
        if (above / "node_modules").is_dir():
            yield above / "node_modules"


def _around(real: Path) -> Iterator[Path]:
    """The `node_modules` that a script belongs to, and those of its own package."""
    for above in real.parents:
        if above.name == "node_modules":
            yield above
        elif (above / "node_modules").is_dir() and (above / "package.json").is_file():
            yield above / "node_modules"


def _is_program(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and file.read(4) in (_ELF, *_SCRIPTS)
    except OSError:
        return False


_SCRIPTS = (b"#!/b", b"#!/u", b"#! /")


def missing(title: str, install: str) -> UnavailableError:
    """It is not here."""
    return UnavailableError(
        f"{title} was not found on this host.", hint=f"Install it: {install}. Or use an image that has it."
    )
