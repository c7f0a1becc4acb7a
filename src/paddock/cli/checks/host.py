"""What every backend stands on: the interpreter, the kernel, directories, terminals, the supervisor."""

import os
import platform
import subprocess
import sys
import tempfile

from paddock.audit import default_log
from paddock.cli.checks.check import Check
from paddock.config import setting
from paddock.dirs.syscalls import has_openat2
from paddock.errors import UnavailableError
from paddock.state import cache_directory, runtime_directory, state_directory
from paddock.wire.binary import supervisor_path

_KERNEL = (5, 11)
_PYTHON = (3, 11)


def python(name: str) -> Check:
    """The interpreter."""
    found = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info < _PYTHON:
        return Check(name, "fail", found, "Use Python 3.11 or newer.")
    return Check(name, "ok", found)


def kernel(name: str) -> Check:
    """Its kind and version."""
    system = os.uname()
    found = f"{system.sysname} {system.release} on {system.machine}"
    if sys.platform != "linux":
        return Check(name, "warn", found, "local and namespaces need Linux; memory works here.")
    numbers = tuple(int(part) for part in system.release.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers < _KERNEL:
        return Check(name, "fail", found, "Use Linux 5.11 or newer.")
    return Check(name, "ok", found)


def state(name: str) -> Check:
    """Where private files of sandboxes are."""
    return Check(name, "ok", f"{state_directory()}, by {setting('state').source}")


def runtime(name: str) -> Check:
    """Where sockets are."""
    return Check(name, "ok", f"{runtime_directory()}, by {setting('runtime').source}")


def cache(name: str) -> Check:
    """Where the /etc of sandboxes is, which can be made again."""
    return Check(name, "ok", str(cache_directory()))


def tmp(name: str) -> Check:
    """Where root shows a sandbox its directories, and where sockets go whose path would be too long elsewhere."""
    try:
        with tempfile.TemporaryDirectory(dir=name):
            return Check(name, "ok", "directories can be made there")
    except OSError as error:
        return Check(name, "fail", f"nothing can be made there: {error.strerror}", f"As root: chmod 1777 {name}.")


def audit(name: str) -> Check:
    """The log, opened."""
    log = default_log()
    if log is None:
        return Check(name, "warn", f"off, by {setting('audit').source}", "Set PADDOCK_AUDIT to a path, or unset it.")
    return Check(name, "ok", f"{log.path}, by {setting('audit').source}")


def openat2(name: str) -> Check:
    """The call that holds paths inside."""
    if has_openat2():
        return Check(name, "ok", "paths are held inside by one call")
    return Check(
        name, "warn", "not allowed here: paths are walked name by name", "Allow openat2 in the seccomp filter."
    )


def terminals(name: str) -> Check:
    """One, made."""
    try:
        ends = os.openpty()
    except OSError as error:
        return Check(name, "warn", f"none can be made: {error.strerror}", "Mount devpts at /dev/pts.")
    for end in ends:
        os.close(end)
    return Check(name, "ok", "they can be made")


def supervisor(name: str) -> Check:
    """The program, run."""
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
