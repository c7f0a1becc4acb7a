"""What holds the limits of a sandbox here."""

import os
import sys
from contextlib import suppress
from dataclasses import replace

from paddock import cgroups as control_groups
from paddock.backends.namespaces import holding
from paddock.cgroups import hierarchies, knobs, places
from paddock.cli.checks import namespaces
from paddock.cli.checks.check import Check
from paddock.cli.checks.probe import ALLOWED
from paddock.errors import SandboxError
from paddock.types import Guarantee, Limits

_ASKED = Limits(memory="256m", cpu=1, pids=64, disk="16m", open_files=256, file_size="1m")
_DELEGATED = (
    "Not needed without limits on memory and cpu. For those run as root, or in a cgroup that is delegated to you: "
    "systemd-run --user --scope -p Delegate=yes."
)


def cgroups(name: str) -> Check:
    """Which version there is, and which controllers can be used, by making one."""
    at = hierarchies.own()
    if at.unified is None and not at.old:
        return Check(name, "warn", "none are mounted", f"Mount cgroup2 at /sys/fs/cgroup. {_DELEGATED}")
    found = [_unified()] + [f"version 1 has {', '.join(sorted(at.old.keys() & set(knobs.NAMES)))}"] * bool(at.old)
    if control_groups.parent() is None:
        return Check(
            name,
            "warn",
            "; ".join(found),
            "Not needed: a process keeps a command's tree together instead. For a cgroup, start the "
            "program where systemd runs by `systemd-run --user --scope -p Delegate=yes`.",
        )
    return Check(name, "ok", "; ".join(found))


def _unified() -> str:
    place = places.find(frozenset(knobs.NAMES))
    if place is None:
        return "none of version 2 can be made that can be killed as a whole"
    controllers = ", ".join(sorted(place.controllers)) or "no controllers"
    return f"version 2, in {control_groups.parent()}: {controllers}"


def processes(name: str) -> Check:
    """What RLIMIT_NPROC counts: the sandbox's processes, or all of the user's."""
    if sys.platform != "linux":
        return Check(name, "warn", "Linux only", "memory works here.")
    count = namespaces.probe().get("processes")
    if count is None:
        return Check(name, "warn", "not known without a user namespace", "See there.")
    if count == ALLOWED - 1:  # and the one that asked
        return Check(name, "ok", "RLIMIT_NPROC counts the processes of a sandbox by themselves")
    if count >= ALLOWED:
        return Check(name, "warn", "RLIMIT_NPROC does not hold", "Have cgroups with the controller pids.")
    return Check(
        name,
        "warn",
        "RLIMIT_NPROC counts all processes of your user",
        "Have Linux 5.14 or newer, or cgroups with the controller pids.",
    )


def held() -> list[Check]:
    """Each limit, and what would hold it for a sandbox with private directories."""
    if sys.platform != "linux":
        return []
    group = control_groups.make(f"{control_groups.NAME}doctor-{os.getpid()}", _ASKED)
    try:
        found = holding.guarantees(_ASKED, (), group.held)
        found["tmp"] = holding.guarantees(Limits(), (), {})["tmp"]  # which names a size: the one that most will have
    finally:
        with suppress(OSError, SandboxError):
            group.remove()
    found["pids"] = _with_the_usual(found["pids"])
    return [
        Check(f"limit {name}", "ok" if found[name].enforced else "warn", found[name].by, _fix(found[name].enforced))
        for name in ("memory", "cpu", "pids", "disk", "tmp", "open_files", "file_size")
    ]


def _with_the_usual(asked: Guarantee) -> Guarantee:
    """There is a limit on processes also where nobody asks for one, and it may be held by something else."""
    group = control_groups.make(f"{control_groups.NAME}doctor-{os.getpid()}-usual", Limits())
    try:
        usual = holding.guarantees(Limits(), (), group.held)["pids"]
    finally:
        with suppress(OSError, SandboxError):
            group.remove()
    return asked if usual.by == asked.by else replace(asked, by=f"{asked.by}; if it is not asked for, {usual.by}")


def _fix(enforced: bool) -> str:
    return "" if enforced else f"Asking for it is an error, unless with best_effort=True. {_DELEGATED}"
