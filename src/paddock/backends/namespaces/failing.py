"""Why a sandbox did not start, from what was said on the way, and what to do about it."""

import errno
import os
import re
from collections.abc import Mapping
from contextlib import suppress

from paddock.errors import UnavailableError, visible

_LAUNCHER = re.compile(r"paddock-launch: ([a-z -]+): (\d+)")


def failure(words: str, paths: Mapping[str, str]) -> UnavailableError:
    """The error for what the launcher and bubblewrap said; `paths` are the mounts' on this host, which it does not show."""
    said = [line for line in words.splitlines() if not line.startswith("paddock-launch: pid:")]
    match = _LAUNCHER.search("\n".join(said))
    if match is not None:
        return _launcher_failure(match[1], int(match[2]))
    text = " ".join(said).strip()
    for target, path in paths.items():
        text = text.replace(path, target)
    text = visible(text) or "it says nothing"
    if any(sign in text for sign in _FORBIDDEN):
        return UnavailableError(f"User namespaces are forbidden here ({text}).", hint=forbidden_hint())
    return UnavailableError(f"The sandbox did not start: {text}.", hint="See paddock doctor.")


_FORBIDDEN = (
    "No permissions to create new namespace",
    "Creating new namespace failed",
    "setting up uid map",
    "No permissions to create a new namespace",
)


def forbidden_hint() -> str:
    """What to do where user namespaces are forbidden, by what forbids them."""
    for path, value, words in _SWITCHES:
        with suppress(OSError), open(path, encoding="ascii") as file:
            if file.read().strip() == value:
                return words
    return (
        "A container or a policy of this host forbids them: allow user namespaces there, "
        'or use backend="docker", or backend="local" for no isolation.'
    )


_SWITCHES = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor forbids them to programs without a profile: install the distribution's bubblewrap with its profile "
        "(Ubuntu: apt-get install bubblewrap apparmor-profiles; then aa-enforce bwrap-userns-restrict), or, for the whole "
        "host, sysctl kernel.apparmor_restrict_unprivileged_userns=0.",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "The kernel forbids them to ordinary users: sysctl kernel.unprivileged_userns_clone=1.",
    ),
    ("/proc/sys/user/max_user_namespaces", "0", "The kernel has none to give: sysctl user.max_user_namespaces=10000."),
)


def _launcher_failure(what: str, code: int) -> UnavailableError:
    words = os.strerror(code)
    if what == "id-mapped mount":
        return UnavailableError(
            f"Root's files can only be given to a sandbox by an id-mapped mount, which this file system or kernel does not "
            f"have ({words}).",
            hint="Give the directory to another user (chown), use one on ext4, xfs, btrfs or tmpfs, or do not start as root.",
        )
    if what == "cgroup" and code in (errno.EACCES, errno.EPERM, errno.ENOSYS):
        return UnavailableError(f"The sandbox's cgroup cannot be entered: {words}.", hint="See paddock doctor.")
    return UnavailableError(f"The sandbox did not start ({what}: {words}).", hint="See paddock doctor.")
