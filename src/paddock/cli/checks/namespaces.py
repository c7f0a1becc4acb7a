"""The parts of the backend `namespaces`, one by one."""

import errno
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from paddock.backends.namespaces import bwrap, forbidden
from paddock.backends.namespaces.failing import failure
from paddock.backends.namespaces.identity import choose
from paddock.backends.namespaces.start import FILTERS
from paddock.cli.checks.check import Check
from paddock.errors import UnavailableError
from paddock.state import state_directory
from paddock.wire.binary import filter_path, supervisor_path

_PROBE = str(Path(__file__).with_name("probe.py"))
_KINDS = ("mount", "pid", "network", "ipc", "uts", "cgroup")
_TAKES = "that takes a user namespace"
_SECONDS = 30


def bubblewrap(name: str) -> Check:
    """Which one, and why that one."""
    one = bwrap.find()
    why = f", because {'; '.join(one.passed_over)}" if one.passed_over else ""
    return Check(name, "ok", f"{one.origin} {'.'.join(map(str, one.version))} at {one.path}{why}")


def user_namespaces(name: str) -> Check:
    """One, made and given a user, by the user that would make it for a sandbox."""
    if not _linux():
        return Check(name, "warn", "Linux only", "memory works here.")
    steps = probe()
    code = steps["user"] or steps["map"] or steps["nested"] or steps["mount"]
    if code:
        cause = forbidden.cause()
        return Check(name, "fail", f"forbidden ({_words(code)}): {cause.what}", cause.fix)
    return Check(name, "ok", "they can be made, and then be turned off inside")


def other_namespaces(name: str) -> Check:
    """All the other kinds, made in that one."""
    if not _linux():
        return Check(name, "warn", "Linux only", "memory works here.")
    steps = probe()
    if steps["user"]:
        return Check(name, "fail", _TAKES, forbidden.cause().fix)
    missing = [f"{kind} ({_words(steps[kind])})" for kind in _KINDS if steps[kind]]
    if missing:
        return Check(
            name, "fail", f"cannot be made: {', '.join(missing)}", "Use a kernel with them, or allow them here."
        )
    return Check(name, "ok", f"they can be made: {', '.join(_KINDS)}")


def memory(name: str) -> Check:
    """A small tmpfs, mounted and filled up."""
    if not _linux():
        return Check(name, "warn", "Linux only", "memory works here.")
    steps = probe()
    if steps["user"]:
        return Check(name, "fail", _TAKES, forbidden.cause().fix)
    code = steps["memory"]
    if code:
        return Check(name, "fail", f"a bounded tmpfs cannot be had: {_words(code)}", "Allow mounts in user namespaces.")
    return Check(name, "ok", "a tmpfs holds no more than its size")


def seccomp(name: str) -> Check:
    """All filters, loaded one on the other."""
    if not _linux():
        return Check(name, "warn", "Linux only", "memory works here.")
    done = _run("filters", *map(filter_path, (*FILTERS, "commands")))
    if done.returncode:
        return Check(
            name,
            "fail",
            f"the filters cannot be loaded: {_words(done.returncode)}",
            "Use a kernel with CONFIG_SECCOMP_FILTER, or allow the call seccomp here.",
        )
    return Check(name, "ok", "the filters can be loaded")


def root_files(name: str) -> Check:
    """Root's own directories, shown to another user: those of the state, and where we are."""
    if os.geteuid() != 0:
        return Check(name, "ok", "not root: sandboxes run as you")
    for what, path in (("the state directory", str(state_directory())), ("the current directory", ".")):
        error = show(path)
        if error is not None:
            return Check(name, "warn", f"{what} cannot be shown: {error.message}", error.hint)
    return Check(name, "ok", "id-mapped mounts work for the state directory and for the current one")


def show(path: str) -> UnavailableError | None:
    """Let the launcher show a directory of root's, as it does for a sandbox. What went wrong, if something did."""
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        info, other = os.fstat(fd), choose(())
        words = ["--user", other.uid, other.gid, "--show", fd, info.st_uid, info.st_gid, "--", "/bin/true"]
        done = subprocess.run(
            [supervisor_path(), "launch", *map(str, words)],
            pass_fds=[fd],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    finally:
        os.close(fd)
    return failure(done.stderr, {}) if done.returncode else None


@cache
def probe() -> dict[str, int]:
    """What came of each step: an errno, or 0. For root it is done as the user that a sandbox would have."""
    user = choose(())
    done = _run("namespaces", str(user.uid), str(user.gid))
    if done.returncode:
        raise UnavailableError("Namespaces could not be tried out.", hint=done.stderr.strip().splitlines()[-1][:200])
    steps: dict[str, int] = json.loads(done.stdout)
    return steps


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-I", _PROBE, *words], capture_output=True, text=True, timeout=_SECONDS, check=False
    )


def _linux() -> bool:
    return sys.platform == "linux"


def _words(code: int) -> str:
    return os.strerror(code) if code in errno.errorcode else "it does not work"
