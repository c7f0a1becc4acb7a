"""What a command might try in order to get out of its sandbox, for `paddock demo`: each of these has to be refused."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from paddock.paths import within

SECRET = "PADDOCK_DEMO_SECRET"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Attempt:
    """Something that must fail; what it says then is shown."""

    what: str
    command: str


def attempts() -> Iterator[Attempt]:
    """All of them, as texts for a shell."""
    yield Attempt("read the host's passwords", "cat /etc/shadow")
    yield Attempt("look into your home", f"ls -d {shlex.quote(_something_at_home())}")
    yield Attempt("read your environment", f"printenv {SECRET} || {{ echo '{SECRET} is not set' >&2; exit 1; }}")
    yield Attempt("end your program", _KILL.format(pid=os.getpid()))
    yield Attempt("change the system", "cp /bin/sh /usr/bin/evil")
    yield Attempt("change a kernel setting", "echo /workspace/evil > /proc/sys/kernel/core_pattern")
    yield Attempt("mount something", "mount -t tmpfs none /workspace")
    yield Attempt("become root inside", "unshare --user --map-root-user id")
    yield Attempt("make a device", "mknod disk b 8 0")
    yield Attempt("make a set-uid program", _SET_UID)
    yield Attempt("reach the network", "bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'")


_KILL = "test ! -d /proc/{pid} || {{ echo '{pid} is a process of its own here' >&2; exit 1; }}; kill -9 {pid}"
"""In a container the program's number is a small one, which somebody in the sandbox has too."""
_SET_UID = "cp /bin/sh mine; chmod u+s mine; test -u mine || { stat -c 'it is only %A' mine >&2; exit 1; }"


def _something_at_home() -> str:
    """Something that is there on the host, but for where the interpreter may be."""
    home = os.path.expanduser("~")
    with suppress(OSError):
        for name in sorted(os.listdir(home)):
            if not within(os.path.realpath(sys.base_prefix), os.path.join(home, name)):
                return os.path.join(home, name)
    return home
