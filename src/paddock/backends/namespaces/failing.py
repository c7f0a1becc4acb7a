"""Why a sandbox did not start, from what was said on the way, and what to do about it."""

import errno
import os
import re
from collections.abc import Mapping

from paddock.backends.namespaces import forbidden
from paddock.errors import UnavailableError, visible

_LAUNCHER = re.compile(r"paddock-launch: ([a-z -]+): (\d+)")
_ADVICE = re.compile(r", likely because .*|\. +On e\.g\. debian .*")
_FORBIDDEN = (
    "No permissions to creat",  # "creating", in most versions
    "Creating new namespace failed",
    "setting up uid map",
    "loopback: Failed",  # AppArmor gives a namespace, and no rights in it
    "max_user_namespaces",
)


def failure(words: str, paths: Mapping[str, str]) -> UnavailableError:
    """The error for what the launcher and bubblewrap said; `paths` are the mounts' on this host, which it does not show."""
    said = [line for line in words.splitlines() if not line.startswith("paddock-launch: pid:")]
    match = _LAUNCHER.search("\n".join(said))
    if match is not None:
        return _launcher_failure(match[1], int(match[2]))
    text = " ".join(said).strip()
    for target, path in paths.items():
        text = text.replace(path, target)
    text = visible(text).rstrip(".") or "it says nothing"
    if os.strerror(errno.EAGAIN) in text:
        return _too_many(text)
    if any(sign in text for sign in _FORBIDDEN):
        return _forbidden(_ADVICE.sub("", text))
    if "mount proc" in text:
        return UnavailableError(
            f"A fresh /proc cannot be had here ({text}).",
            hint="Parts of this one are covered, as containers do: docker run --security-opt systempaths=unconfined. "
            f"{forbidden.LAST_RESORT}",
        )
    return UnavailableError(f"The sandbox did not start: {text}.", hint="See paddock doctor.")


def refused_layer(words: str) -> int | None:
    """The errno, if what was said is that a layer cannot be mounted; all else could be had."""
    match = _LAUNCHER.search(words.replace("paddock-launch: pid:", ""))
    return int(match[2]) if match is not None and match[1] == "layer" else None


def _too_many(words: str) -> UnavailableError:
    return UnavailableError(
        f"There are too many processes or threads to start a sandbox ({words}).",
        hint="End some, or allow more: `ulimit -u`, or the limit on pids of the cgroup or container that this runs in.",
    )


def _forbidden(words: str) -> UnavailableError:
    cause = forbidden.cause()
    return UnavailableError(f"User namespaces are forbidden here: {cause.what} ({words}).", hint=cause.hint)


def _launcher_failure(what: str, code: int) -> UnavailableError:
    words = os.strerror(code)
    if code == errno.EAGAIN:
        return _too_many(f"{what}: {words}")
    if what == "id-mapped mount":
        return UnavailableError(
            f"Root's files can only be given to a sandbox by an id-mapped mount, which this file system or kernel does not "
            f"have ({words}).",
            hint="Give the directory to another user (chown), use one on ext4, xfs, btrfs or tmpfs, or do not start as root.",
        )
    if what == "replaced":
        return UnavailableError(
            "A host directory under review was replaced meanwhile.", hint="Try again when nobody moves it."
        )
    if what in ("user namespace", "id map"):
        return _forbidden(words)
    if what == "cgroup" and code in (errno.EACCES, errno.EPERM, errno.ENOSYS):
        return UnavailableError(f"The sandbox's cgroup cannot be entered: {words}.", hint="See paddock doctor.")
    if what in ("mount", "mount namespace") and code == errno.EPERM:
        return UnavailableError(
            "Root may not mount anything here, which it needs to show a sandbox its directories.",
            hint="Give it CAP_SYS_ADMIN (docker run --privileged), or start as an ordinary user.",
        )
    return UnavailableError(f"The sandbox did not start ({what}: {words}).", hint="See paddock doctor.")
