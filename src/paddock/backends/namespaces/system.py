"""What of this host's system a sandbox sees: an allowlist. All of it is read-only."""

import os
import sys
from collections.abc import Iterator
from functools import cache, lru_cache

from paddock.config import once, setting
from paddock.driver import HOME
from paddock.paths import within
from paddock.state import own_directories

LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links to directories in /usr, on today's systems; elsewhere they are directories of their own."""


def links() -> Iterator[tuple[str, str]]:
    """Links of the root directory: where, and where to."""
    for path in LINKED:
        if os.path.islink(path):
            yield path, os.readlink(path)


def directories() -> Iterator[str]:
    """Directories that are shown as they are."""
    yield "/usr"
    for path in LINKED:
        if os.path.isdir(path) and not os.path.islink(path):
            yield path


@cache
def kept() -> tuple[str, ...]:
    """The places in the root directory that programs of this host need to run, and to build another root from."""
    own_etc = ("/etc",) if os.path.ismount("/etc") else ()  # with what the linker of programs looks at
    return (*directories(), *own_etc, "/proc", "/dev")


@once
def interpreter() -> str | None:
    """Where the Python is that runs this, if that is none of the directories above and holds nothing that is private."""
    prefix = _prefix()
    if prefix is None:
        return None
    own = [one.path for one in own_directories()]
    log = str(setting("audit").value)
    if log != "off":
        own.append(log)
    return None if _holds_private(prefix, os.path.expanduser("~"), tuple(own)) else prefix


@lru_cache(maxsize=8)
def _holds_private(prefix: str, home: str, own: tuple[str, ...]) -> bool:
    if within(os.path.realpath(home), prefix):
        return True
    return any(within(real, prefix) or within(prefix, real) for real in map(os.path.realpath, own))


@cache
def _prefix() -> str | None:
    prefix = os.path.realpath(sys.base_prefix)
    hidden = ("/usr", "/tmp", HOME, *LINKED)  # noqa: S108 - paths inside
    if prefix.count("/") < 2 or any(within(prefix, path) for path in hidden):
        return None
    return prefix
