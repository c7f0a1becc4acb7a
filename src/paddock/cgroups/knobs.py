"""How each version of cgroups holds a limit: which files, what is written, and where it counts."""

from collections.abc import Callable
from dataclasses import dataclass

from paddock.types import Limits

NAMES = ("memory", "cpu", "pids")
_PERIOD, _LONG_PERIOD = 100_000, 1_000_000
_MOST_PIDS, _MOST_CPUS = 4 << 20, 8192  # that Linux can have; it refuses larger numbers


@dataclass(frozen=True, slots=True)
class Knob:
    """One limit in one version."""

    settings: tuple[tuple[str, str], ...]
    """Files, and what is written to them in this order; without any of them the limit is not held."""
    extras: tuple[tuple[str, str], ...] = ()
    """The same for files that some kernels do not have."""
    counter: tuple[str, str] | None = None
    """The file, and the word in it, that says how often the limit was met."""


def unified(name: str, limits: Limits) -> Knob:
    """In version 2."""
    return _UNIFIED[name](limits)


def old(name: str, limits: Limits) -> Knob:
    """In version 1."""
    return _OLD[name](limits)


def _memory(limits: Limits) -> Knob:
    """`memory.oom.group` stays 0: the kernel ends the largest process, and the supervisor is about the smallest."""
    return Knob(
        settings=(("memory.max", f"{limits.memory}"),),
        extras=(("memory.swap.max", "0"),),
        counter=("memory.events", "oom_kill"),
    )


def _old_memory(limits: Limits) -> Knob:
    return Knob(
        settings=(("memory.limit_in_bytes", f"{limits.memory}"),),
        extras=(("memory.memsw.limit_in_bytes", f"{limits.memory}"), ("memory.swappiness", "0")),
        counter=("memory.oom_control", "oom_kill"),
    )


def _cpu(limits: Limits) -> Knob:
    quota, period = _quota(limits)
    return Knob(settings=(("cpu.max", f"{quota} {period}"),))


def _old_cpu(limits: Limits) -> Knob:
    quota, period = _quota(limits)
    return Knob(settings=(("cpu.cfs_period_us", f"{period}"), ("cpu.cfs_quota_us", f"{quota}")))


def _quota(limits: Limits) -> tuple[int, int]:
    """Microseconds of processors in a period of them; the kernel wants a quota of 1000 at least."""
    cpu = min(limits.cpu or 0, _MOST_CPUS)
    period = _PERIOD if cpu >= 0.01 else _LONG_PERIOD
    return round(cpu * period), period


def _pids(limits: Limits) -> Knob:
    return Knob(settings=(("pids.max", f"{min(limits.pids or 0, _MOST_PIDS)}"),), counter=("pids.events", "max"))


_UNIFIED: dict[str, Callable[[Limits], Knob]] = {"memory": _memory, "cpu": _cpu, "pids": _pids}
_OLD: dict[str, Callable[[Limits], Knob]] = {"memory": _old_memory, "cpu": _old_cpu, "pids": _pids}
