"""What a run of the tests has left on this host: nothing, or the run has failed."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from paddock import cgroups
from paddock.cgroups.hierarchies import own
from paddock.cgroups.places import clear, find

_SECONDS = float(os.environ.get("PADDOCK_LEFTOVERS_SECONDS", "10"))
_OURS = ("paddock-", "scratch-", "pr-")


def found() -> set[str]:
    """Everything of ours that can be seen: supervisors that we started, cgroups, mounts, and files for a moment."""
    return {*supervisors(), *_cgroups(), *_mounts(), *_files()}


def since(before: set[str], look: Callable[[], set[str]] = found) -> list[str]:
    """What is there now and was not before. It may be on its way out, or somebody else's for a moment: so look again."""
    left = look() - before
    deadline = time.monotonic() + _SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left &= look()
    return sorted(left)


def supervisors() -> set[str]:
    """Our own children: what outlives its host is found by the tests that kill one."""
    ours = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = " ".join(path.read_text() for path in ours).split()
    return {f"process {pid}: {_command(pid)}" for pid in pids if "paddock-init" in _command(pid)}


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _cgroups() -> list[str]:
    """In every hierarchy: beside our own ones of version 1, and wherever they would be made in version 2."""
    places = [find(frozenset(wanted)) for wanted in ((), ("pids",), ("memory", "cpu", "pids"))]
    parents = {*own().old.values(), *(place.directory for place in places if place is not None)}
    for parent in parents:
        clear(parent)  # as the next sandbox would: tests kill others at any moment
    return [str(path) for parent in parents for path in Path(parent).glob(f"{cgroups.NAME}*")]


def _mounts() -> list[str]:
    return [f"mount {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if "paddock" in line]


def _files() -> list[str]:
    runtime = Path(f"/tmp/paddock-{os.geteuid()}")  # which stays, as a place for the next
    places = [Path(tempfile.gettempdir()), Path("/dev/shm"), runtime]
    named = [path for place in places if place.is_dir() for path in place.iterdir()]
    return [str(path) for path in named if path != runtime and (path.parent == runtime or path.name.startswith(_OURS))]
