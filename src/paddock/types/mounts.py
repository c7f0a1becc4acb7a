"""A directory that a sandbox sees at a fixed path."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from paddock.errors import ConfigError, InvalidPathError
from paddock.paths import normalise
from paddock.types.limits import parse_size
from paddock.types.record import Record

RESERVED = ("/", "/proc", "/sys", "/dev", "/run/paddock")


@dataclass(frozen=True, slots=True)
class Mount(Record):
    """`source` on the host, seen at `target` in the sandbox; a `source` of None is private and ends with the sandbox."""

    source: str | os.PathLike[str] | None
    target: str
    mode: Literal["ro", "rw"] = "ro"
    suffixes: tuple[str, ...] | None = None
    """When given, only files with these endings are read or written by file calls."""
    max_file_bytes: int | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", None if self.source is None else host_path(self.source))
        if (self.source, self.target, self.mode) != IMAGE_ROOT:
            object.__setattr__(self, "target", _target(self.target))
        if self.mode not in ("ro", "rw"):
            raise ConfigError(f"A mount's mode is 'ro' or 'rw', and this is {self.mode!r}.")
        if self.suffixes is not None:
            object.__setattr__(self, "suffixes", _suffixes(self.suffixes))
        if self.max_file_bytes is not None:
            object.__setattr__(self, "max_file_bytes", parse_size(self.max_file_bytes, "max_file_bytes"))

    @property
    def read_only(self) -> bool:
        """Whether nothing can be changed through it."""
        return self.mode == "ro"


IMAGE_ROOT: tuple[None, str, Literal["ro"]] = (None, "/", "ro")
"""Source, target and mode of the one thing that is ever at '/': the root of an image, which only backends show."""


def host_path(given: str | os.PathLike[str]) -> str:
    """A path of the host that a caller gave, as text."""
    text = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text or not _encodable(text):
        raise ConfigError(f"{given!r} is not a path on the host.", hint="Give a path as text, and not an empty one.")
    if text == "~" or text.startswith("~/"):
        raise ConfigError(f"The host path {text!r} begins with '~'.", hint="Write it out, or use Path.expanduser().")
    return text


def _encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _target(target: str) -> str:
    if not isinstance(target, str) or not target.startswith("/"):
        raise ConfigError(
            f"A mount's target is an absolute sandbox path, and this is {target!r}.", hint='Such as "/data".'
        )
    try:
        normal = normalise(target)
    except InvalidPathError as error:
        raise ConfigError(error.message, hint=error.hint) from None
    if ".." in target.split("/"):
        raise ConfigError(f"The target {target!r} holds '..'.", hint="Write the path without it.")
    if normal == "/" or any(normal == r or normal.startswith(r + "/") for r in RESERVED[1:]):
        raise ConfigError(
            f"Nothing can be mounted at {normal!r}.",
            hint=f"Keep away from {', '.join(RESERVED)}; /data is fine.",
        )
    return normal


def _suffixes(suffixes: tuple[str, ...]) -> tuple[str, ...]:
    endings = tuple(suffixes) if isinstance(suffixes, Iterable) and not isinstance(suffixes, str) else ()
    if not endings or not all(isinstance(s, str) and s.startswith(".") for s in endings):
        raise ConfigError(f"suffixes={suffixes!r} is not a list of endings.", hint='Such as (".md", ".txt").')
    return tuple(s.lower() for s in endings)
