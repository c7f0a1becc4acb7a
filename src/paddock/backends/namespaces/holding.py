"""Which limits of a sandbox hold, and by what."""

import os
from collections.abc import Iterable, Mapping
from functools import cache

from paddock.errors import ConfigError, UnavailableError
from paddock.types import Guarantee, Limits, Mount

_LEAST_MEMORY = 8 << 20
_LEAST_PIDS = 16
"""For a shell with a pipe, a command in the background and what is Paddock's own in a sandbox, with some room."""
_LEAST_FILES = 16
"""Shells put streams that they redirect at 10 and above; and some room."""
_LEAST_CPU = 0.001
"""What the kernel takes at least."""
_OWN_COUNT = (5, 14)
"""Since this kernel, processes are counted for each user namespace by itself."""
_NO_CGROUP = (
    "Run as root, or in a cgroup that is delegated to you with its controllers (systemd-run --user --scope -p Delegate=yes), "
    "or pass Limits(..., best_effort=True)."
)


def options(limits: Limits, held: Mapping[str, str]) -> list[str]:
    """What the supervisor is told to hold by rlimits, for each command."""
    words: list[str] = []
    if limits.pids is not None:
        words += ["--own-pids" if _counts_by_itself() else "--pids", str(limits.pids)]
    if limits.open_files is not None:
        words += ["--open-files", str(limits.open_files)]
    if limits.file_size is not None:
        words += ["--file-size", str(limits.file_size)]
    if limits.memory is not None and "memory" not in held:
        words += ["--address-space", str(limits.memory)]
    return words


def check(limits: Limits, mounts: Iterable[Mount], held: Mapping[str, str]) -> None:
    """A limit that was asked for and cannot be held is an error, unless the best that can be had will do."""
    if not limits.asked():
        return
    _check_memory(limits)
    _check_least("pids", limits.pids, _LEAST_PIDS, "too few to run anything: some are the sandbox's own")
    _check_least("open_files", limits.open_files, _LEAST_FILES, "too few to run anything")
    _check_least("cpu", limits.cpu, _LEAST_CPU, "less of a processor than the kernel gives out")
    if limits.best_effort:
        return
    for name, guarantee in guarantees(limits, mounts, held).items():
        if not guarantee.enforced and name in limits.asked():
            raise UnavailableError(
                f"The limit on {name} cannot be held here: {guarantee.by}.",
                hint="Give it a private workspace, or pass Limits(..., best_effort=True)."
                if name == "disk"
                else _NO_CGROUP,
            )


def _check_least(name: str, value: float | None, least: float, why: str) -> None:
    if value is not None and value < least:
        raise ConfigError(f"Limits.{name}={value} is {why}.", hint=f"Give at least {least}.")


def _check_memory(limits: Limits) -> None:
    """Memory that nothing could run in, and file systems in memory that would not fit into it."""
    if limits.memory is None:
        return
    if int(limits.memory) < _LEAST_MEMORY:
        raise ConfigError(
            f"Memory of {limits.memory} bytes is too little to run anything in.",
            hint=f"Give at least {_LEAST_MEMORY >> 20}m.",
        )
    for name in ("tmp", "disk"):
        size = getattr(limits, name)
        if name in limits.asked() and size is not None and size > limits.memory:
            raise ConfigError(
                f"Limits.{name}={size} is more than memory={limits.memory}, and what is in there counts as memory.",
                hint=f"Give less {name}, or more memory.",
            )


def tmp_size(limits: Limits) -> int | str | None:
    """The size of each file system in memory.

    There are three, and what is in them counts as memory that no ending of a process frees. So they have room beside each
    other and beside the processes, unless another size was asked for.
    """
    if limits.memory is None or limits.tmp is None or "tmp" in limits.asked():
        return limits.tmp
    return min(int(limits.tmp), int(limits.memory) // 4)


def guarantees(limits: Limits, mounts: Iterable[Mount], held: Mapping[str, str]) -> dict[str, Guarantee]:
    """What becomes of each limit."""
    found = {name: Guarantee(True, by) for name, by in held.items()}
    found.setdefault("pids", _pids(limits))
    found.setdefault("memory", _memory(limits))
    found.setdefault(
        "cpu", Guarantee(False, "no limit was asked for" if limits.cpu is None else "no cgroup can be used")
    )
    found["disk"] = _disk(limits, mounts)
    found["tmp"] = _rlimit(limits.tmp, f"the size of each of /tmp, the home and /dev/shm: {tmp_size(limits)} bytes")
    found["open_files"] = _rlimit(limits.open_files, "RLIMIT_NOFILE, for each process")
    found["file_size"] = _rlimit(limits.file_size, "RLIMIT_FSIZE, for each file")
    return found


def _rlimit(value: object, by: str) -> Guarantee:
    return Guarantee(False, "no limit was asked for") if value is None else Guarantee(True, by)


def _pids(limits: Limits) -> Guarantee:
    by = "RLIMIT_NPROC, for the sandbox" if _counts_by_itself() else "RLIMIT_NPROC, for all processes of the user"
    return _rlimit(limits.pids, by)


def _memory(limits: Limits) -> Guarantee:
    if limits.memory is None:
        return Guarantee(False, "no limit was asked for")
    return Guarantee(False, "no cgroup can be used; RLIMIT_AS holds each process by itself, not their sum")


def _disk(limits: Limits, mounts: Iterable[Mount]) -> Guarantee:
    if limits.disk is None:
        return Guarantee(False, "no limit was asked for")
    if any(mount.source is not None and not mount.read_only for mount in mounts):
        return Guarantee(False, "directories of this host have no size of their own")
    return Guarantee(True, "the size of each private mount, which is a file system in memory")


@cache
def _counts_by_itself() -> bool:
    numbers = os.uname().release.split("-")[0].split(".")
    try:
        return (int(numbers[0]), int(numbers[1])) >= _OWN_COUNT
    except (ValueError, IndexError):
        return False
