"""Who a sandbox's processes are on this host: never root."""

import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.owned import OwnedDir, User
from paddock.dirs.protocol import Dir
from paddock.errors import ConfigError, UnavailableError
from paddock.types import Mount

INSIDE = 1000
"""The user and the group inside, whoever they are outside."""
_FIRST, _COUNT = 0x70000000, 1 << 24
"""Ids that nobody gives to users or containers; each sandbox has its own, so that nothing of another one's is its own."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and a group of this host."""

    uid: int
    gid: int
    ours: bool
    """Whether it is this process's own: then there is nothing to change."""

    def owns(self, info: os.stat_result) -> bool:
        """Whether these are the owner and the group of a file."""
        return (info.st_uid, info.st_gid) == (self.uid, self.gid)


def choose(mounts: Iterable[Mount]) -> Identity:
    """Who they are: this process's user; for root the owner of what they work on, else somebody that nobody is."""
    if os.geteuid() != 0:
        return Identity(os.geteuid(), os.getegid(), ours=True)
    for mount in mounts:
        if mount.source is not None and not mount.read_only:
            info = _stat(mount)
            if info.st_uid != 0:
                return Identity(info.st_uid, info.st_gid or info.st_uid, ours=False)
            break
    number = _FIRST + secrets.randbelow(_COUNT)
    return Identity(number, number, ours=False)


def dirs(identity: Identity) -> Callable[[int], Dir]:
    """How the host works on the sandbox's files: never with more rights than the sandbox has."""
    if identity.ours:
        return DescriptorDir
    user = User(identity.uid, identity.gid)
    if not user.can_be():
        raise UnavailableError(
            "Root cannot make file calls as another user here.",
            hint="It needs CAP_SETUID and CAP_SETGID; or do not start as root.",
        )
    return lambda fd: OwnedDir(fd, user)


def _stat(mount: Mount) -> os.stat_result:
    try:
        return os.stat(os.fspath(mount.source or ""))
    except OSError as error:
        raise ConfigError(
            f"The host directory of {mount.target!r} cannot be looked at: {error.strerror}.", hint="Correct the path."
        ) from error
