"""What `paddock doctor` tries: each check does the thing it is about, and says what came of it."""

from functools import partial

from paddock.cli.checks import backends, docker, extras, host, limits, namespaces
from paddock.cli.checks.check import Check, Tried, tried
from paddock.registry import names

__all__ = ["Check", "all_checks"]

_HOST: tuple[tuple[str, Tried], ...] = (
    ("python", host.python),
    ("kernel", host.kernel),
    ("state directory", host.state),
    ("runtime directory", host.runtime),
    ("cache directory", host.cache),
    ("/tmp", host.tmp),  # noqa: S108 - the place itself
    ("audit log", host.audit),
    ("openat2", host.openat2),
    ("terminals", host.terminals),
    ("supervisor", host.supervisor),
)
_NAMESPACES: tuple[tuple[str, Tried], ...] = (
    ("bubblewrap", namespaces.bubblewrap),
    ("user namespaces", namespaces.user_namespaces),
    ("other namespaces", namespaces.other_namespaces),
    ("file systems in memory", namespaces.memory),
    ("seccomp", namespaces.seccomp),
    ("root's files", namespaces.root_files),
)
_LIMITS: tuple[tuple[str, Tried], ...] = (("cgroups", limits.cgroups), ("count of processes", limits.processes))


def all_checks() -> list[Check]:
    """All of them, in the order in which one needs the other."""
    found = [tried(name, check) for name, check in _HOST]
    found += extras.installed()
    found += [backends.only_if_needed(tried(name, check)) for name, check in _NAMESPACES]
    found += [tried(name, check) for name, check in _LIMITS]
    found += limits.held()
    found += [tried(f"backend {name}", partial(backends.whole, name)) for name in names(built=True) if name != "docker"]
    found.append(backends.only_if_needed(tried("review", backends.review)))
    found += [tried("container engine", docker.engine), tried("backend docker", docker.sandbox)]
    return [*found, tried("default backend", backends.default)]
