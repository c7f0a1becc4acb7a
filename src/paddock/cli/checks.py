"""What `paddock doctor` tries: each check does the thing it is about, and says what came of it."""

import errno
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from paddock import cgroups
from paddock.audit import default_log
from paddock.config import setting
from paddock.dirs.syscalls import has_openat2
from paddock.errors import SandboxError, UnavailableError
from paddock.registry import find, load, names
from paddock.sandbox import Sandbox
from paddock.state import runtime_directory, state_directory
from paddock.types.record import Record
from paddock.wire.binary import supervisor_path

_KERNEL = (5, 11)
_PYTHON = (3, 11)

_UNSHARE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x10000000, 0x00020000):  # CLONE_NEWUSER, then CLONE_NEWNS: AppArmor lets the first pass and empties it
    if libc.unshare(flag):
        sys.exit(ctypes.get_errno())
"""
_CAUSES = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
)


@dataclass(frozen=True, slots=True)
class Check(Record):
    """One thing that was tried."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    fix: str = ""


def checks() -> list[Check]:
    """All of them, in the order in which one needs the other."""
    tried = [_tried(name, check) for name, check in _CHECKS]
    return [*tried, *(_tried(f"backend {name}", partial(_backend, name)) for name in names(built=True))]


def _tried(name: str, check: Callable[[str], Check]) -> Check:
    try:
        return check(name)
    except SandboxError as error:
        return Check(name, "fail", error.message, error.hint)
    except OSError as error:
        return Check(name, "fail", error.strerror or type(error).__name__, "See the message of the system.")


def _python(name: str) -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info < _PYTHON:
        return Check(name, "fail", found, "Use Python 3.11 or newer.")
    return Check(name, "ok", found)


def _kernel(name: str) -> Check:
    system = os.uname()
    found = f"{system.sysname} {system.release} on {system.machine}"
    if sys.platform != "linux":
        return Check(name, "warn", found, "local and namespaces need Linux; memory works here.")
    numbers = tuple(int(part) for part in system.release.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers < _KERNEL:
        return Check(name, "fail", found, "Use Linux 5.11 or newer.")
    return Check(name, "ok", found)


def _state(name: str) -> Check:
    return Check(name, "ok", f"{state_directory()}, by {setting('state').source}")


def _runtime(name: str) -> Check:
    return Check(name, "ok", f"{runtime_directory()}, by {setting('runtime').source}")


def _audit(name: str) -> Check:
    log = default_log()
    if log is None:
        return Check(name, "warn", f"off, by {setting('audit').source}", "Set PADDOCK_AUDIT to a path, or unset it.")
    return Check(name, "ok", f"{log.path}, by {setting('audit').source}")


def _openat2(name: str) -> Check:
    if has_openat2():
        return Check(name, "ok", "paths are held inside by one call")
    return Check(
        name, "warn", "not allowed here: paths are walked name by name", "Allow openat2 in the seccomp filter."
    )


def _terminals(name: str) -> Check:
    try:
        ends = os.openpty()
    except OSError as error:
        return Check(name, "warn", f"none can be made: {error.strerror}", "Mount devpts at /dev/pts.")
    for end in ends:
        os.close(end)
    return Check(name, "ok", "they can be made")


def _supervisor(name: str) -> Check:
    try:
        path = supervisor_path()
    except UnavailableError as error:
        return Check(name, "fail" if sys.platform == "linux" else "warn", error.message, error.hint)
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10)
    except subprocess.TimeoutExpired:
        return Check(name, "fail", "it does not answer", "Install Paddock again.")
    words = done.stdout.split()
    if done.returncode or words[:1] != ["paddock-init"]:
        return Check(name, "fail", f"it ended with status {done.returncode}", "Install Paddock again.")
    return Check(name, "ok", " ".join(words))


def _cgroup(name: str) -> Check:
    """A command's whole tree ends at once where there is a cgroup for it."""
    parent = cgroups.parent()
    if parent is None:
        return Check(
            name,
            "warn",
            "none can be made here that can be killed as a whole",
            "Not needed: a process keeps a command's tree together instead. For one, have Linux 5.14 or newer with "
            "cgroup v2, and start the program by `systemd-run --user --scope -p Delegate=yes`.",
        )
    return Check(name, "ok", f"they can be made in {parent}")


def _lines(path: str) -> list[str]:
    with suppress(OSError):
        return Path(path).read_text(errors="surrogateescape").splitlines()
    return []


def _namespaces(name: str) -> Check:
    if sys.platform != "linux":
        return Check(name, "warn", "Linux only", "A backend that is still to come needs them.")
    done = subprocess.run([sys.executable, "-I", "-c", _UNSHARE], capture_output=True, timeout=30)
    if done.returncode == 0:
        return Check(name, "ok", "they can be made")
    reason = os.strerror(done.returncode) if done.returncode in errno.errorcode else "they cannot be made"
    fixes = [fix for knob, bad, fix in _CAUSES if _lines(f"/proc/sys/{knob}") == [bad]]
    fix = f"As root: {'; '.join(fixes)}." if fixes else "A seccomp filter or a container may be in the way."
    return Check(name, "warn", reason, f"{fix} Only the backend namespaces, still to come, needs them.")


def _auto(name: str) -> Check:
    chosen = setting("backend")
    try:
        return Check(name, "ok", f"{find(chosen.value).name}, by {chosen.source}")
    except SandboxError as error:
        return Check(name, "warn", error.message, error.hint)


def _backend(name: str, title: str) -> Check:
    """A sandbox, made and used."""
    import asyncio

    try:
        return Check(title, "ok", asyncio.run(_use(name)))
    except UnavailableError as error:
        return Check(title, "warn", error.message, error.hint)


async def _use(name: str) -> str:
    async with Sandbox.create(name) as sb:
        await sb.write("doctor.txt", "well")
        if await sb.read("doctor.txt") != "well":
            raise SandboxError("What was read is not what was written.", hint="Look for a disk that fails.")
        can = load(name)().capabilities
        if can.commands and can.shell:
            await sb.exec(["true"], timeout=30, check=True)
        done = "files and commands work" if can.commands and can.shell else "files work"
        held = [part for part in ("files", "processes", "network", "syscalls") if getattr(sb.isolation, part)]
        return f"{done}; isolates {', '.join(held) or 'nothing'}"


_CHECKS: tuple[tuple[str, Callable[[str], Check]], ...] = (
    ("python", _python),
    ("kernel", _kernel),
    ("state directory", _state),
    ("runtime directory", _runtime),
    ("audit log", _audit),
    ("openat2", _openat2),
    ("terminals", _terminals),
    ("supervisor", _supervisor),
    ("cgroup v2", _cgroup),
    ("user namespaces", _namespaces),
    ("default backend", _auto),
)
