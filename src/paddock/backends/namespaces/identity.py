"""Who a sandbox's processes are on this host: never root."""

import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.owned import OwnedDir, User
from paddock.dirs.protocol import Dir
from paddock.errors import UnavailableError
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


def choose(written: Iterable[int]) -> Identity:
    """Who they are: this process's user; for root the owner of what they work on, else somebody that nobody is.

    `written` are descriptors of the host directories that they can write to; the first of them decides.
    """
    if os.geteuid() != 0:
        return Identity(os.geteuid(), os.getegid(), ours=True)
    first_written = next(iter(written), None)
    if first_written is not None:
        info = os.fstat(first_written)
        if info.st_uid != 0:
            return Identity(info.st_uid, info.st_gid or info.st_uid, ours=False)
    first, count = _spare(*map(_mapped, ("uid", "gid")))
    number = first + secrets.randbelow(count)
    return Identity(number, number, ours=False)


def _spare(*maps: list[range]) -> tuple[int, int]:
    """Ids to choose from: those above, or in a user namespace that has not got them the upper half of what it has."""
    if all(any(_FIRST in ids and _FIRST + _COUNT - 1 in ids for ids in ranges) for ranges in maps):
        return _FIRST, _COUNT
    largest = [max(ranges, key=len, default=range(0)) for ranges in maps]
    low, end = max(ids.start for ids in largest), min(ids.stop for ids in largest)
    first = low + (end - low) // 2
    if not 0 < first < end:
        raise UnavailableError(
            "Root is the only user that there is in this user namespace, and a sandbox is never root.",
            hint="Start as an ordinary user, or map more users into the namespace.",
        )
    return first, end - first


@cache
def _mapped(kind: str) -> list[range]:
    """The ids that there are in this user namespace."""
    with open(f"/proc/self/{kind}_map", encoding="ascii") as file:
        lines = [[int(word) for word in line.split()] for line in file]
    return [range(first, first + count) for first, _, count in lines]


def dirs(identity: Identity, mounts: Iterable[Mount]) -> Callable[[str, int], Dir]:
    """How the host works on the sandbox's files, by mount and handle: never with more rights than the sandbox has."""
    if identity.ours:
        return lambda _, fd: DescriptorDir(fd)
    user = User(identity.uid, identity.gid)
    if not user.can_be():
        raise UnavailableError(
            "Root cannot make file calls as another user here.",
            hint="It needs CAP_SETUID and CAP_SETGID; or do not start as root.",
        )
    private = {mount.target for mount in mounts if mount.source is None}
    return lambda target, fd: OwnedDir(fd, user, private=target in private)
