"""What the engine is told: a container that holds nothing but the sandbox, and may do nothing that a sandbox may not."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paddock.backends.docker.images import Image
from paddock.backends.docker.place import SOCKET
from paddock.backends.namespaces import holding
from paddock.backends.namespaces.order import SOCKETS_SIZE, in_memory
from paddock.driver import HOME, SOCKETS, Plan
from paddock.errors import ConfigError
from paddock.paths import within
from paddock.types import Mount
from paddock.wire.binary import filter_path, supervisor_path

OURS = SOCKETS
PROGRAM = f"{OURS}/init"
BRIDGE = f"{OURS}/paddock-bridge"
CALLS = f"{OURS}/calls"
FILTERS = ("allow", "refuse", "commands")
SERVED = "@paddock"
LABEL = "dev.paddock."
ROOT = "/"
_KERNELS = ("/proc", "/sys", "/dev", OURS)
_GVISORS_OWN, _GVISORS_EACH = 256, 8
"""Threads: some 80 were seen in one that does nothing, and three to four more for each process inside."""
_NANO = 1_000_000_000
_PROCESSES = 32768
_SUPERVISORS_FILES = 16384
"""It holds the pipes of all commands, which have less. More than an engine itself may have, it could not give."""


@dataclass(frozen=True, slots=True)
class Order:
    """Everything that decides about one container."""

    plan: Plan
    image: Image
    user: str
    secret: str
    labels: Mapping[str, str]
    runtime: str | None
    read_only: bool
    binds: Mapping[str, str]
    """Targets inside, and the paths of the engine's host that are mounted there."""
    elsewhere: bool = False
    """Whether the engine does not see this host's files: the supervisor is in a volume then, what is private in memory."""
    calls: str | None = None
    """The directory of the socket that the supervisor calls; None where it cannot."""
    podman: bool = False
    options: tuple[str, ...] = ()
    """More for the supervisor."""
    read_only_binds: frozenset[str] = field(default_factory=frozenset)
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Targets inside, and the names of volumes that the engine mounts there."""


def container(order: Order) -> dict[str, Any]:
    """The container, in the words of the engine's interface."""
    return {
        "Image": order.image.name,
        "Entrypoint": [PROGRAM],
        "Cmd": _options(order),
        "Env": [f"PADDOCK_SECRET={order.secret}"],
        "User": order.user,
        "WorkingDir": "/",
        "Labels": dict(order.labels),
        "Hostname": "sandbox",
        "NetworkDisabled": True,
        "StopSignal": "SIGKILL",  # the first process of a sandbox takes no orders by signal
        **({} if order.podman else {"Healthcheck": {"Test": ["NONE"]}}),
        "HostConfig": {
            **_confinement(order),
            **_limits(order),
            "AutoRemove": True,
            "LogConfig": {"Type": "none"},
            "Mounts": _mounts(order),
            "Tmpfs": _in_memory(order),
        },
    }


def program_files(machine: str) -> dict[str, str]:
    """What the supervisor needs, by its path inside, and where that is on this host."""
    program = supervisor_path(machine)
    return {PROGRAM: program, BRIDGE: program} | {_filter(name): filter_path(name, machine) for name in FILTERS}


def _filter(name: str) -> str:
    return f"{OURS}/{name}.bpf"


def _options(order: Order) -> list[str]:
    once = order.plan.record is None
    words = [] if order.calls is None else ["--call", f"{CALLS}/{SOCKET}"]
    words += ["--serve-once" if once else "--serve", SERVED]
    for path in (PROGRAM, *(mount.target for mount in own_mounts(order.plan))):
        words += ["--at", path]
    *confining, commands = FILTERS
    for name in confining:
        words += ["--confine", _filter(name)]
    words += ["--filter", _filter(commands)]
    limits = order.plan.limits
    for option, value in (("--open-files", limits.open_files), ("--file-size", limits.file_size)):
        if value is not None:
            words += [option, str(value)]
    return [*words, *order.options]


def _confinement(order: Order) -> dict[str, Any]:
    return {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": order.read_only,
        "NetworkMode": "none",
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "UsernsMode": "host",  # so that the user inside is the one whose files are mounted; never root on the host
        "Privileged": False,
        "RestartPolicy": {"Name": "no"},
        **({} if order.runtime is None else {"Runtime": order.runtime}),
    }


def _limits(order: Order) -> dict[str, Any]:
    limits = order.plan.limits
    rlimits = {"core": 0, "nofile": max(_SUPERVISORS_FILES, limits.open_files or 0)}
    if order.podman:
        rlimits["nproc"] = _PROCESSES  # which it sets anyway, and higher than it may have to give
    chosen: dict[str, Any] = {"Ulimits": [{"Name": key, "Soft": n, "Hard": n} for key, n in rlimits.items()]}
    size = holding.tmp_size(limits)
    if size is not None:
        chosen["ShmSize"] = int(size)
    if limits.pids is not None:
        chosen["PidsLimit"] = _threads(limits.pids) if is_gvisor(order.runtime) else limits.pids
    if limits.memory is not None:
        chosen["Memory"] = chosen["MemorySwap"] = int(limits.memory)
    if limits.cpu is not None:
        most = float("inf") if order.elsewhere else os.cpu_count() or 1  # more than there are is refused, and no limit
        chosen["NanoCpus"] = int(min(limits.cpu, most) * _NANO)
    return chosen


def is_gvisor(runtime: str | None) -> bool:
    """Whether a runtime of the engine is gVisor."""
    return runtime is not None and "runsc" in runtime


def _threads(processes: int) -> int:
    """What gVisor takes of the host for so many inside. When it gets no more, the whole sandbox ends."""
    return _GVISORS_OWN + _GVISORS_EACH * processes


def _mounts(order: Order) -> list[dict[str, Any]]:
    found = [_bind(source, target, target in order.read_only_binds) for target, source in order.binds.items()]
    for target, name in order.volumes.items():
        found.append({"Type": "volume", "Source": name, "Target": target, "VolumeOptions": {"NoCopy": True}})
    if order.elsewhere:
        found.append({"Type": "volume", "Target": OURS})
    if order.calls is not None:
        found.append(_bind(order.calls, CALLS, read_only=True))
    return found


def _bind(source: str, target: str, read_only: bool) -> dict[str, Any]:
    """What is mounted below a read-only directory would stay writable, so it is left out."""
    options: dict[str, Any] = {"Propagation": "rprivate"}
    if read_only:
        options["NonRecursive"] = True
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only, "BindOptions": options}


def _in_memory(order: Order) -> dict[str, str]:
    limits = order.plan.limits
    found = {} if order.elsewhere else {OURS: _tmpfs(order, SOCKETS_SIZE, "0755")}
    for mount in own_mounts(order.plan):
        if in_memory(mount, order.plan) or order.elsewhere:
            common = mount.target in ("/tmp", HOME)  # noqa: S108 - paths inside
            size = holding.tmp_size(limits) if common else limits.disk or holding.tmp_size(limits)
            found[mount.target] = _tmpfs(order, size, "1777" if mount.target == "/tmp" else "0755")  # noqa: S108
    for path in order.image.volumes:
        if path not in {mount.target for mount in own_mounts(order.plan)}:
            found[path] = _tmpfs(order, holding.tmp_size(limits), "0755")
    return found


def check_volumes(image: Image, plan: Plan) -> None:
    """A volume that an image wants below a mount would be made in there, by root; one over the system hides that."""
    for path in image.volumes:
        for mount in own_mounts(plan):
            if path != mount.target and within(path, mount.target):
                raise ConfigError(
                    f"The image {image.name!r} has a volume at {path!r}, below the mount at {mount.target!r}.",
                    hint="Use another image, or mount elsewhere.",
                )
        if path == ROOT or any(within(taken, path) or within(path, taken) for taken in _KERNELS):
            raise ConfigError(f"The image {image.name!r} has a volume at {path!r}.", hint="Use another image.")


def _tmpfs(order: Order, size: int | str | None, mode: str) -> str:
    """It belongs to the sandbox's user. Podman has no words for that: it lets everybody in, and there is nobody else."""
    uid, _, gid = order.user.partition(":")
    bounded = "" if size is None else f"size={size},"
    owned = f"mode={mode[0]}777" if order.podman else f"uid={uid},gid={gid},mode={mode}"
    return f"rw,exec,nosuid,nodev,{bounded}{owned}"


def own_mounts(plan: Plan) -> list[Mount]:
    """The mounts, without the image's own root."""
    return [mount for mount in plan.mounts if mount.target != ROOT]
