"""What of this host's system a sandbox sees: an allowlist. All of it is read-only."""

import os
import sys
from collections.abc import Iterator
from functools import cache

from paddock.driver import HOME
from paddock.paths import within

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
def interpreter() -> str | None:
    """Where the Python is that runs this, if that is none of the directories above."""
    prefix = os.path.realpath(sys.base_prefix)
    hidden = ("/usr", "/tmp", HOME, *LINKED)  # noqa: S108 - paths inside
    if prefix.count("/") < 2 or any(within(prefix, path) for path in hidden):
        return None
    return prefix
