"""Runs inside, by itself: makes system calls as they come, and prints how each one ended.

Its argument is a list of numbers with arguments: numbers as they are, texts as pointers, and lists of numbers as pointers to
those, 64 bits each. 8 is an open terminal there, and 9 an open file.
"""

import ctypes
import errno
import json
import os
import signal
import sys

libc = ctypes.CDLL(None, use_errno=True)


def pointed(argument: object) -> object:
    """An argument as C takes it."""
    if isinstance(argument, str):
        return ctypes.c_char_p(argument.encode())
    if isinstance(argument, list):
        return (ctypes.c_uint64 * len(argument))(*argument)
    return ctypes.c_ulong(argument)  # type: ignore[arg-type]


def outcome(number: int, arguments: list[object]) -> str:
    """The name of the error, or nothing."""
    me = os.getpid()
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(pointed, arguments))
    error = ctypes.get_errno()
    if os.getpid() != me:
        os._exit(0)
    return errno.errorcode.get(error, str(error)) if result == -1 else ""


def main() -> None:
    """Prepare what the calls are about, then make them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.dup2(os.openpty()[1], 8)
    os.dup2(os.open("f", os.O_RDWR | os.O_CREAT, 0o644), 9)
    os.mkdir("d")
    print(json.dumps([outcome(number, arguments) for number, arguments in json.loads(sys.argv[1])]))


main()
