"""The git directories of what is mounted to be written to, which commands may not change: `.git`, and where it points to."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator

from paddock.errors import ConfigError
from paddock.paths import within
from paddock.types import Mount

_MOST = 4096


def protected(mounts: Iterable[Mount]) -> tuple[str, ...]:
    """Their paths inside."""
    found: list[str] = []
    for mount in mounts:
        if mount.source is not None and not mount.read_only:
            source = os.fspath(mount.source)
            found += [
                f"{mount.target}/{os.path.relpath(path, source)}" for path in _git_directories(source, mount.target)
            ]
    return tuple(found)


def _git_directories(source: str, target: str) -> list[str]:
    git = os.path.join(source, ".git")
    if not os.path.lexists(git):
        return []
    known = [git]
    pointer = os.readlink(git) if os.path.islink(git) else _pointer(git, target)
    if pointer:
        git = _follow(os.path.join(source, pointer), source, known, target)
    common = _text(os.path.join(git, "commondir"), target)
    if common:
        _follow(os.path.join(git, common), source, known, target)
    return known


def _pointer(path: str, target: str) -> str:
    """What a worktree or submodule has for a `.git`: a file that says where the repository is."""
    text = _text(path, target)
    return text.removeprefix("gitdir: ") if text.startswith("gitdir: ") else ""


def _text(path: str, target: str) -> str:
    """What a small file says, as git reads it; nothing if it is none. Whatever it is, opening it does not wait."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _unsafe(target) from None
        return ""
    try:
        text = os.read(fd, _MOST) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)
    return os.fsdecode(text.partition(b"\0")[0]).rstrip("\r\n")


def _follow(path: str, source: str, known: list[str], target: str) -> str:
    """Where a pointer leads; one more of the known ones, if commands can reach it and cannot put another in its place."""
    real = os.path.realpath(path)
    steps = [step for step in _steps(path) if _is_below(step, source) and not _is_in(step, known)]
    if not steps and (_is_in(real, known) or not within(real, source)):
        return real
    if steps != [real] or os.path.dirname(real) != source:
        raise _unsafe(target)
    known.append(real)
    return real


def _steps(path: str) -> Iterator[str]:
    """Every place that a path names on its way."""
    here = "/"
    for part in path.split("/"):
        here = os.path.normpath(os.path.join(here, part))
        yield here


def _is_below(path: str, top: str) -> bool:
    return path != top and within(path, top)


def _is_in(path: str, known: Iterable[str]) -> bool:
    return any(within(path, one) for one in known)


def _unsafe(target: str) -> ConfigError:
    return ConfigError(
        f"The .git of {target!r} points to a place below it that commands could replace.",
        hint="Move the git directory out of it or directly below it, without links; or use a private workspace.",
    )
