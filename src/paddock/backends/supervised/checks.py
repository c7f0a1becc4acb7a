"""Whether what is in a sandbox is what was meant, looked at in the sandbox itself."""

import os
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Protocol

from paddock.backends.namespaces.sources import Sources
from paddock.backends.supervised.driver import Root
from paddock.dirs.descriptor import DescriptorDir
from paddock.errors import UnavailableError
from paddock.paths import below, within


def replaced(target: str) -> UnavailableError:
    """The error for a host directory that is another one by now."""
    return UnavailableError(
        f"The host directory of {target!r} was replaced meanwhile.", hint="Try again when nobody moves it."
    )


def check_mounts(
    sources: Sources,
    roots: Mapping[str, Root],
    composed: Container[str] = (),
    blamed: Callable[[str], UnavailableError] = replaced,
) -> None:
    """What is mounted is what was opened; the error for another is `blamed`'s."""
    for target in sources.targets:
        if target not in composed and not _is_there(sources[target], roots[target], ""):
            raise blamed(target)


class Entry(Protocol):
    """Something that is mounted into a directory of another mount."""

    @property
    def target(self) -> str: ...
    @property
    def fd(self) -> int: ...


def check_entries(entries: Iterable[Entry], roots: Mapping[str, Root]) -> None:
    """The same for what was put into a mount by itself."""
    for entry in entries:
        target = max((target for target in roots if within(entry.target, target)), key=len)
        if not _is_there(entry.fd, roots[target], below(entry.target, target), read_only=True):
            raise UnavailableError(f"{entry.target!r} was replaced meanwhile.", hint="Try again when nobody moves it.")


def check_protected(sources: Sources, protected: Iterable[str], roots: Mapping[str, Root]) -> None:
    """What is protected is what was meant, in case somebody moved it meanwhile; and it is read-only."""
    for path in protected:
        target = sources.target_of(path)
        if not _is_there(sources[path], roots[target], below(path, target), read_only=True):
            raise UnavailableError(f"{path!r} could not be protected.", hint="Try again, or use a private workspace.")


def _is_there(source: int, root: Root, path: str, *, read_only: bool = False) -> bool:
    directory = root.dir
    if not isinstance(directory, DescriptorDir):
        return False
    try:
        same = os.path.samestat(os.fstat(source), directory.identity(path))
        return same and (directory.is_read_only(path) or not read_only)
    except OSError:
        return False
