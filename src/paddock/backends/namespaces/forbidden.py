"""What forbids user namespaces on this host, and what to do about it."""

import os
from contextlib import suppress
from dataclasses import dataclass

SWITCHES = "/proc/sys"
"""Where the kernel's settings are."""
LAST_RESORT = 'Or name backend="local", which isolates nothing.'


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that forbids them."""

    what: str
    fix: str

    @property
    def hint(self) -> str:
        """The fix, and what is left where it cannot be had."""
        return f"{self.fix} {LAST_RESORT}"


_SETTINGS = (
    (
        "user/max_user_namespaces",
        "0",
        Cause("the kernel's setting user.max_user_namespaces is 0", "As root: sysctl user.max_user_namespaces=10000."),
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        Cause(
            "the kernel's setting kernel.unprivileged_userns_clone is 0",
            "As root: sysctl kernel.unprivileged_userns_clone=1.",
        ),
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        Cause(
            "AppArmor forbids them to programs without a profile",
            "Use the distribution's bubblewrap with its profile (Ubuntu: apt-get install bubblewrap apparmor-profiles, and "
            "link bwrap-userns-restrict from /usr/share/apparmor/extra-profiles to /etc/apparmor.d), or, for the whole "
            "host, as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0.",
        ),
    ),
)
_CHROOT = Cause("this process is in a chroot", "Start it outside, or in a container.")
_CONTAINER = Cause(
    "a container forbids them",
    "Allow them there: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined.",
)
_FILTER = Cause("a seccomp filter forbids them", "Allow unshare, clone and mount in the filter of this process.")
_UNKNOWN = Cause("a policy of this host forbids them", "Allow user namespaces there.")


def cause() -> Cause:
    """The most likely one, from what can be seen."""
    for name, bad, found in _SETTINGS:
        with suppress(OSError), open(os.path.join(SWITCHES, name), encoding="ascii") as file:
            if file.read().strip() == bad:
                return found
    if _in_chroot():
        return _CHROOT
    if in_container():
        return _CONTAINER
    return _FILTER if _filtered() else _UNKNOWN


def in_container() -> bool:
    """Whether this is one that says so."""
    return any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))) or "container" in os.environ


def _in_chroot() -> bool:
    with suppress(OSError):  # only root may look
        first, ours = os.stat("/proc/1/root"), os.stat("/")
        return (first.st_dev, first.st_ino) != (ours.st_dev, ours.st_ino)
    return False


def _filtered() -> bool:
    with suppress(OSError), open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        return any(line.split() == ["Seccomp:", "2"] for line in file)
    return False
