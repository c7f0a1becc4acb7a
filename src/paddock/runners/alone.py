"""A program of this host by itself, as a sandbox is shown it: without what else lies in its directory."""

import os
import secrets
import shutil
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from paddock.errors import UnavailableError
from paddock.state import programs_directory

_DAYS = 30


def alone(program: Path) -> Path:
    """A directory with this file and nothing else: a hard link to it, or a copy where there can be none."""
    try:
        place = programs_directory() / _identity(program)
        if not (place / program.name).is_file():
            _put(program, place)
        os.utime(place)
    except OSError as error:
        raise UnavailableError(
            f"{program.name} cannot be put where a sandbox is shown it by itself: {error.strerror}.",
            hint="Free some space, or set XDG_CACHE_HOME to a directory of yours on the disk where the program is.",
        ) from error
    _forget_old(place)
    return place


def _identity(program: Path) -> str:
    """Another one for each version of a program, also where one was written over the other."""
    info = program.stat()
    known = (program.name, info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
    return sha256(repr(known).encode()).hexdigest()[:32]


def _put(program: Path, place: Path) -> None:
    part = place.with_name(f".{secrets.token_hex(8)}.new")
    part.mkdir()
    try:
        part.chmod(0o755)
        _link_or_copy(program, part / program.name)
        part.rename(place)
    except OSError:
        if not (place / program.name).is_file():  # which somebody else may have been quicker to do
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _link_or_copy(program: Path, to: Path) -> None:
    try:
        to.hardlink_to(program)
    except OSError:  # another disk, or a file of somebody else's
        shutil.copyfile(program, to)
        to.chmod(0o755)


def _forget_old(used: Path) -> None:
    """Those that nobody has looked for in a long time; what runs now may still need one that was replaced."""
    for place in used.parent.iterdir():
        with suppress(OSError):
            if place.stat().st_mtime < time.time() - _DAYS * 86400:
                shutil.rmtree(place)
