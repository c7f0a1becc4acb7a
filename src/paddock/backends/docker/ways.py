"""What is known about an engine by having tried it: nothing is guessed from its address."""

from dataclasses import dataclass

from paddock.errors import UnavailableError

OTHER_MOUNTS = "the container engine runs in another mount namespace, and does not see what is mounted here"


class NotSeenError(Exception):
    """The engine does not see this host's files."""


class NotOursError(Exception):
    """A container's files cannot be worked on from here, though descriptors travel."""


def sees_otherwise(target: str) -> UnavailableError:
    """The error for a host directory in whose place an engine found something else, though nobody moved it."""
    return UnavailableError(
        f"What the container engine mounted at {target!r} is not the host directory: {OTHER_MOUNTS}.",
        hint="Run Paddock where the engine runs, use review=True, or a private workspace and upload().",
    )


@dataclass(slots=True)
class Ways:
    """How sandboxes of one engine and runtime are reached."""

    files: bool = True
    """It sees this host's files, so they can be mounted."""
    calls: bool = True
    """Its containers can connect to a socket of this host, and descriptors travel."""


_known: dict[tuple[str | None, str | None], Ways] = {}


def known(address: str | None, runtime: str | None) -> Ways:
    """What is known by now; to be changed by whoever finds out more."""
    return _known.setdefault((address, runtime), Ways())
