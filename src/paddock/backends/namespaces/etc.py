"""The /etc of sandboxes: a directory of Paddock's own, with copies of the few things of this host's that programs need.

It is made once and made anew when one of its sources has changed. One directory is one mount; a mount or a file for each of
these things would take longer than all else that is done for a sandbox.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from paddock.driver import HOME
from paddock.errors import UnavailableError
from paddock.paths import within
from paddock.state import cache_directory, private

COPIED = (
    "ld.so.cache",
    "ld.so.conf",
    "debian_version",
    "timezone",
    "services",
    "protocols",
    "mime.types",
    "shells",
    "ssl/openssl.cnf",
    "pki/tls/openssl.cnf",
    "alternatives",
    "ssl/certs",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "fonts",
)
"""What programs look for and what says nothing about this host's users: libraries, certificates, times, names of services."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

LINKED = ("localtime", "os-release")
"""Links into /usr, or copies of what they lead to."""

MADE = {
    "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\n"
    f"agent:x:1000:1000:agent:{HOME}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nagent:x:1000:\ntty:x:5:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n",
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "resolv.conf": "",
}
"""What is not this host's: the sandbox has users and a name of its own."""


@dataclass(frozen=True, slots=True)
class Etc:
    """One that is there, and a descriptor of it: as long as anybody has that open, it is not removed."""

    path: str
    fd: int


def prepare(host: str = "/etc") -> Etc:
    """The one for what this host's files say now, made if it is not there yet. The descriptor is the caller's."""
    parent = private(cache_directory() / "etc")
    path = parent / _name(host, _state(host))
    while True:
        try:
            fd = _open_own(path)
        except FileNotFoundError:
            _remove_unused(parent)
            _make(path, host)
            continue
        fcntl.flock(fd, fcntl.LOCK_SH)
        if os.fstat(fd).st_nlink:
            return Etc(str(path), fd)
        os.close(fd)  # it was removed just before


def _open_own(path: Path) -> int:
    """One that is ours and that nobody else could change; never what a link leads to."""
    for directory in (path.parent, path):
        if stat.S_ISLNK(os.lstat(directory).st_mode):
            raise _not_ours()
    fd = os.open(path, _DIRECTORY)
    info = os.fstat(fd)
    if info.st_uid != os.geteuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(fd)
        raise _not_ours()
    return fd


def _not_ours() -> UnavailableError:
    return UnavailableError(
        "Paddock's copy of /etc is not a directory of its own.",
        hint="Remove the directory paddock/etc below $XDG_CACHE_HOME or ~/.cache.",
    )


def _remove_unused(parent: Path) -> None:
    """Those of earlier states of this host that no sandbox has."""
    for path in parent.iterdir():
        with suppress(OSError):
            fd = os.open(path, _DIRECTORY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(fd)


def _state(host: str) -> tuple[object, ...]:
    """Another one whenever something to be copied changes. Only the sources are looked at, not all that is in them."""
    seen: list[object] = []
    for name in (*COPIED, *LINKED):
        try:
            info = os.stat(f"{host}/{name}")
        except OSError:
            continue
        seen.append((name, info.st_ino, info.st_mode, info.st_mtime_ns, info.st_size))
    return tuple(seen)


@lru_cache(maxsize=8)
def _name(host: str, state: tuple[object, ...]) -> str:
    return sha256(repr((host, state, sorted(MADE.items()))).encode()).hexdigest()[:16]


def _make(path: Path, host: str) -> None:
    """Build it beside its place. Whoever is first puts it there; it is never changed afterwards."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(3).hex()}")
    try:
        beside.mkdir(mode=0o755)
        for name, text in MADE.items():
            (beside / name).write_text(text, encoding="utf-8")
        for name in COPIED:
            if all(_for_everybody(os.stat, place) for place in _places(host, name)):
                _copy(Path(host, name), beside / name)
        for name in LINKED:
            _link(os.path.join(host, name), beside / name)
        _open_up(beside)
        with suppress(OSError):  # somebody else was first
            beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    with suppress(OSError, shutil.Error):  # not there, or not for everybody to read: then sandboxes do without
        if not _for_everybody(os.stat, source):
            return
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=_not_for_everybody)
        elif source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _places(host: str, name: str) -> list[Path]:
    """The directories on the way to it."""
    return [Path(host, above) for above in Path(name).parents if above != Path()]


def _not_for_everybody(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if not _for_everybody(os.lstat, os.path.join(directory, name))]


def _for_everybody(look: Callable[[str | Path], os.stat_result], path: str | Path) -> bool:
    """Whether every user of this host can read it: a copy must not show more than the original does."""
    try:
        mode = look(path).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        return mode & (stat.S_IROTH | stat.S_IXOTH) == stat.S_IROTH | stat.S_IXOTH
    return stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and bool(mode & stat.S_IROTH))


def _link(source: str, target: Path) -> None:
    real = os.path.realpath(source)
    if within(real, "/usr"):
        target.symlink_to(real)
    else:
        _copy(Path(real), target)


def _open_up(top: Path) -> None:
    """Whoever the sandbox's user is, and whatever the umask was: all of it can be read."""
    for directory, _, files in os.walk(top):
        os.chmod(directory, 0o755)  # noqa: S103 - copies of what everybody can read
        for path in (os.path.join(directory, name) for name in files):
            if not os.path.islink(path):
                os.chmod(path, 0o644)
