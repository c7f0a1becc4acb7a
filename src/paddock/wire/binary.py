"""Where the supervisor's program is."""

import os
from functools import cache
from pathlib import Path

from paddock.errors import UnavailableError

_BUILT = Path(__file__).parent.parent / "bin"


def supervisor_path(machine: str = "") -> str:
    """The program for this kind of machine (or another, such as `aarch64`); it came with the package.

    For work on Paddock itself, `PADDOCK_SUPERVISOR` names another one by its absolute path: one built with sanitizers, say.
    """
    chosen = os.environ.get("PADDOCK_SUPERVISOR", "")
    return chosen if os.path.isabs(chosen) else _packaged(machine)


@cache
def _packaged(machine: str) -> str:
    name = f"paddock-init-{machine or os.uname().machine}"
    path = _BUILT / name
    if not os.access(path, os.X_OK):
        raise UnavailableError(
            f"The supervisor ({name}) is not part of this installation.",
            hint="Install Paddock on Linux with a C compiler (Debian: apt-get install gcc libc6-dev), or use 'memory'.",
        )
    return str(path)


def filter_path(kind: str) -> str:
    """A filter of system calls for this kind of machine: `base` for every process, `commands` on top of it for commands."""
    path = _BUILT / f"seccomp-{kind}-{os.uname().machine}.bpf"
    if not path.is_file():
        raise UnavailableError(
            f"The filter of system calls ({path.name}) is not part of this installation.",
            hint="Install Paddock on Linux with libseccomp (Debian: apt-get install libseccomp2).",
        )
    return str(path)
