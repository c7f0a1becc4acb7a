"""A program that tries out what a sandbox needs of the kernel, and prints the errno of each step, 0 if it went well.

It runs by itself, because what it does cannot be undone: `probe.py namespaces UID GID`, where root becomes that user first as
the launcher does, and `probe.py filters FILE…`. It imports nothing of Paddock.
"""

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable

_libc = ctypes.CDLL(None, use_errno=True)
_KINDS = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "network": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
_PRIVATE = 1 << 14 | 1 << 18  # MS_REC, MS_PRIVATE
_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTERS = 38, 22, 2
_SMALL = 1 << 20
ALLOWED = 8
"""Processes, when that is tried; twice as many are asked for."""


def _checked(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _try(steps: dict[str, int], name: str, step: Callable[[], object]) -> None:
    try:
        step()
    except OSError as error:
        steps[name] = error.errno or -1
    else:
        steps[name] = 0


def _become(uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        _checked(_libc.prctl(4, 1, 0, 0, 0))  # or /proc/self would be root's


def _map(uid: int, gid: int) -> None:
    for name, text in (("uid_map", f"1000 {uid} 1"), ("setgroups", "deny"), ("gid_map", f"1000 {gid} 1")):
        _write(f"/proc/self/{name}", text)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _memory() -> None:
    """A small file system in memory, which is full when it is."""
    _checked(_libc.mount(b"none", b"/", None, _PRIVATE, None))
    _checked(_libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, f"size={_SMALL}".encode()))
    try:
        with open("/tmp/full", "wb") as file:  # noqa: S108
            file.write(bytes(2 * _SMALL))
    except OSError:
        return
    raise OSError(-1, "it has no size")


def _processes() -> int:
    """How many more processes there can be when so many are allowed."""
    resource.setrlimit(resource.RLIMIT_NPROC, (ALLOWED, ALLOWED))
    reading, writing = os.pipe()
    count = 0
    try:
        for _ in range(2 * ALLOWED):
            if os.fork() == 0:
                os.close(writing)
                os.read(reading, 1)  # until we end
                os._exit(0)
            count += 1
    except OSError:
        pass
    os.close(writing)
    for _ in range(count):
        os.wait()
    return count


def _namespaces(uid: int, gid: int) -> dict[str, int]:
    steps: dict[str, int] = {}
    _become(uid, gid)
    own = (os.getuid(), os.getgid())
    _try(steps, "user", lambda: _checked(_libc.unshare(_KINDS["user"])))
    if steps["user"]:
        return steps
    _try(steps, "map", lambda: _map(*own))
    steps["processes"] = _processes()
    _try(steps, "nested", lambda: _write("/proc/sys/user/max_user_namespaces", "1"))
    for name, flag in list(_KINDS.items())[1:]:
        _try(steps, name, lambda flag=flag: _checked(_libc.unshare(flag)))  # type: ignore[misc]
    _try(steps, "memory", _memory)
    return steps


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _filters(paths: list[str]) -> None:
    """Load them one on the other; as after the last of them little may be done, the end is the answer."""
    programs = []
    for path in paths:
        with open(path, "rb") as file:
            steps = file.read()
        programs.append(_Program(len(steps) // 8, steps))
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    for program in programs:
        _checked(_libc.prctl(_SET_FILTER, _FILTERS, ctypes.byref(program), 0, 0))


def main() -> None:
    """The one that is asked for."""
    what, *words = sys.argv[1:]
    if what == "namespaces":
        sys.stdout.write(json.dumps(_namespaces(int(words[0]), int(words[1]))))
        return
    try:
        _filters(words)
    except OSError as error:
        os._exit(error.errno or 1)
    os._exit(0)


if __name__ == "__main__":
    main()
