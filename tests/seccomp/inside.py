"""Running things in namespaces, with no filter, with those for everything, and with the one for commands too."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from paddock.wire.binary import filter_path
from paddock.wire.frames import Reply
from supervisor.host import Host, exit_code

NONE, BASE, BOTH = "none", "base", "both"
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
_RESTLESS = ("dev", "proc", "run", "tmp", "var")
CAPABILITIES = ("--cap-add", "ALL")
"""So that it is the filter that refuses, and not the kernel for want of rights."""


class Inside:
    """A supervisor in namespaces of its own, and a directory that it shares with the tests."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.host = host
        self._directory = directory

    def run(self, script: str, *words: str) -> tuple[int, str]:
        """A shell script in a new directory: its exit code, and all that it printed."""
        output = self._directory / "output"
        wrapped = f'exec >{output} 2>&1; cd "$(mktemp -d)" || exit; {script}'
        id = self.host.spawn(["/bin/sh", "-c", wrapped, "sh", *words], ENVIRONMENT)
        code = exit_code(self.host.wait(Reply.ENDED, id, 60))
        return code, output.read_text()


@contextmanager
def inside(filters: str, directory: Path, *options: str) -> Iterator[Inside]:
    """The supervisor, with these filters."""
    if shutil.which("bwrap") is None:
        pytest.skip("there is no bubblewrap here")
    before = ["bwrap", "--unshare-all", "--uid", "0", "--gid", "0", *_system(), "--proc", "/proc"]
    before += ["--dev", "/dev", "--tmpfs", "/tmp", "--bind", str(directory), str(directory)]
    before += ["--ro-bind", sys.prefix, sys.prefix, *options]  # which may be in /tmp too
    with ExitStack() as stack:
        fds = [_open(stack, name) for name in ("allow", "refuse") if filters != NONE]
        for fd in fds:
            before += ["--add-seccomp-fd", str(fd)]
        words = []
        if filters == BOTH:
            fds.append(_open(stack, "commands"))
            words = ["--filter", str(fds[-1])]
        host = stack.enter_context(Host(*words, directory=directory, before=before, pass_fds=fds))
        yield Inside(host, directory)


def _system() -> Iterator[str]:
    """This host, without the places where other tests mount and unmount things meanwhile."""
    for path in sorted(set(Path("/").iterdir()) - {Path("/", name) for name in _RESTLESS}):
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


def _open(stack: ExitStack, name: str) -> int:
    fd = os.open(filter_path(name), os.O_RDONLY)
    stack.callback(os.close, fd)
    return fd
