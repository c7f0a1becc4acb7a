"""Directories that are there while something starts, with what it is shown; and what those left who were killed then."""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from paddock import state

SHOWN = "shown-"
"""What names begin with of which each is a mount of something that is precious."""
_SUFFIX = ".d"
_DETACH = 2  # MNT_DETACH


def path_for(sandbox: str, *, make: bool = True) -> Path:
    """Where the one for a sandbox is. Its name says whose it is: the runtime directory may serve several states.

    Not even that directory is made without `make`.
    """
    return (state.runtime_directory() if make else state.runtime_path()) / f"{sandbox}{_ending()}"


def remove(path: Path) -> None:
    """Nothing below a mount is touched: it is taken away first, and a directory that will not go stays."""
    import ctypes

    with suppress(OSError):
        for entry in sorted(path.iterdir()):
            if entry.name.startswith(SHOWN):
                ctypes.CDLL(None).umount2(os.fsencode(entry), _DETACH)
                if not _is_mounted(entry):
                    _remove_empty(entry)
            else:
                shutil.rmtree(
                    entry, ignore_errors=True
                )  # the socket's directory, in which nobody but us makes anything
        path.rmdir()


def _is_mounted(path: Path) -> bool:
    """It is known by its own name, of which there is no other."""
    name = os.fsencode(path.parent.name + "/" + path.name)
    with open("/proc/self/mountinfo", "rb") as file:
        return any(line.split(b" ", 5)[4].endswith(b"/" + name) for line in file)


def _remove_empty(path: Path) -> None:
    """With what an engine that does not see our mounts makes below them for its own: empty directories and files."""
    for above, directories, files in os.walk(path, topdown=False):
        for name in (*directories, *files):
            _remove_one(Path(above, name))
    _remove_one(path)


def _remove_one(path: Path) -> None:
    with suppress(OSError):
        info = path.lstat()
        if stat.S_ISDIR(info.st_mode):
            path.rmdir()
        elif info.st_size == 0:
            path.unlink()


def sweep() -> None:
    """Remove those of ours that nobody starts any more: the sandbox may run, elsewhere. Nothing is made for it."""
    ending = _ending()
    with suppress(OSError):
        for path in state.runtime_path().glob(f"*{ending}"):
            if not state.has_owner(path.name.removesuffix(ending)):
                remove(path)


def _ending() -> str:
    return f"-{state.own_name()[:8]}{_SUFFIX}"
