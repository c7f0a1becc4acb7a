"""Where the supervisor's program is, and the filters that go with it."""

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
    return chosen if os.path.isabs(chosen) else _built(f"paddock-init-{machine or os.uname().machine}", os.X_OK)


def filter_path(name: str, machine: str = "") -> str:
    """A seccomp filter as bytes for the kernel: `allow` and `refuse` for every process of a sandbox, `commands` on top."""
    return _built(f"seccomp-{name}-{machine or os.uname().machine}.bpf", os.R_OK)


@cache
def _built(name: str, access: int) -> str:
    path = _BUILT / name
    if not os.access(path, access):
        raise UnavailableError(
            f"A part of Paddock's supervisor ({name}) is missing in this installation.",
            hint="Install Paddock on Linux with a C compiler and libseccomp "
            "(Debian: apt-get install gcc libc6-dev libseccomp2), or use 'memory'.",
        )
    return str(path)
