"""What bubblewrap is told: the whole of a sandbox's root, in the order in which it is built."""

import os
import stat
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from paddock.backends.namespaces import etc, holding, rootfs, system
from paddock.backends.namespaces.identity import INSIDE, Identity
from paddock.driver import HOME, Plan
from paddock.errors import ConfigError, UnavailableError
from paddock.paths import below, within
from paddock.types import Mount

SUPERVISOR = "/run/paddock/init"
PLACE = "/tmp"  # noqa: S108 - where the launcher shows what only root can reach
_TAKEN = ("/usr", "/etc", "/proc", "/dev", "/sys", "/run", "/var", *system.LINKED)
_MOST_ENTRIES = 64
_IN_MEMORY = ("/tmp", HOME)  # noqa: S108 - paths inside

_NAMESPACES = (
    "--unshare-user",
    "--disable-userns",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--clearenv",
    "--as-pid-1",
    "--hostname",
    "sandbox",
    "--uid",
    str(INSIDE),
    "--gid",
    str(INSIDE),
)


class Order:
    """The words for bubblewrap, and the descriptors that go with them until `close`."""

    def __init__(self, identity: Identity) -> None:
        self.words: list[str] = []
        self.shown: list[tuple[int, int, int]] = []
        """What the launcher shows: a descriptor, and whose it is on disk."""
        self.composed: list[str] = []
        """Directories that were put together, and are to be read-only when everything is in them."""
        self.held: list[int] = []
        """Descriptors that have to be open as long as the sandbox runs."""
        self._identity = identity

    def add(self, *words: str) -> None:
        """Some more words."""
        self.words += words

    def source(self, path: str, *, owned: bool = False) -> str:
        """Where bubblewrap finds what is at `path` of this host.

        For root that is another place: bubblewrap is not root any more, and may not be able to get there. With `owned`,
        what belongs to the owner of `path` there belongs to the sandbox's user inside.
        """
        if self._identity.ours:
            return path
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise UnavailableError(f"{path!r} cannot be shown: {error.strerror}.", hint="Check its path.") from error
        info = os.fstat(fd)
        owner = (info.st_uid, info.st_gid) if owned else (self._identity.uid, self._identity.gid)
        self.shown.append((fd, *owner))
        return f"{PLACE}/{len(self.shown) - 1}"

    def close(self) -> None:
        """Close the descriptors."""
        for fd in (*self.held, *(fd for fd, _, _ in self.shown)):
            os.close(fd)
        self.held, self.shown = [], []


def build(
    order: Order,
    plan: Plan,
    private: Mapping[str, str],
    supervisor: str,
    host_paths: Iterable[str] = (),
    other_root: str | None = None,
) -> None:
    """Everything about the root of one sandbox. `private` says where on this host the private mounts are that are on disk."""
    shown = frozenset(() if other_root is None else rootfs.mounts(other_root))
    mounts = [mount for mount in plan.mounts if mount not in shown]
    check_targets(tuple(mount.target for mount in mounts), tuple(host_paths))
    order.add(*_NAMESPACES)
    if other_root is None:
        _host_system(order)
    else:
        _other_system(order, other_root)
    for path in host_paths:
        _parents(order, path)
        order.add("--ro-bind", order.source(path, owned=True), path)
    _parents(order, SUPERVISOR)
    order.add("--ro-bind", order.source(supervisor), SUPERVISOR)
    order.add("--symlink", "init", "/run/paddock/paddock-bridge")
    _kernel_file_systems(order, plan)
    for mount in sorted(mounts, key=lambda mount: mount.target):
        _mount(order, plan, mount, private)
    for path in plan.protected:
        _protect(order, plan.mounts, path)
    for path in (*order.composed, "/"):
        order.add("--remount-ro", path)
    order.add("--chdir", "/")


def _host_system(order: Order) -> None:
    order.add(*_system_words())
    prepared = etc.prepare()
    order.held.append(prepared.fd)
    order.add("--ro-bind", order.source(prepared.path), "/etc")
    prefix = system.interpreter()
    if prefix is not None:
        _parents(order, prefix)
        order.add("--ro-bind", order.source(prefix), prefix)
    order.add("--perms", "0755", "--dir", "/var", "--symlink", "../tmp", "/var/tmp")  # noqa: S108 - inside


@cache
def _system_words() -> tuple[str, ...]:
    words: list[str] = []
    for path in system.directories():
        words += ["--ro-bind", path, path]
    for path, target in system.links():
        words += ["--symlink", target, path]
    return tuple(words)


def _parents(order: Order, path: str) -> None:
    """What bubblewrap makes above a mount by itself is for its owner only."""
    parts = path.split("/")[1:-1]
    for count in range(1, len(parts) + 1):
        order.add("--perms", "0755", "--dir", "/" + "/".join(parts[:count]))


def _other_system(order: Order, top: str) -> None:
    """Each entry of another root, so that mounts have a place beside them and nothing in it is ever written."""
    for name, path in rootfs.entries(top):
        if os.path.islink(path):
            order.add("--symlink", os.readlink(path), f"/{name}")
        elif os.path.isdir(path) or os.path.isfile(path):
            order.add("--ro-bind", order.source(path), f"/{name}")


def _kernel_file_systems(order: Order, plan: Plan) -> None:
    # The host's settings of the kernel could only be changed by root, which nobody is in here; they are covered all the same.
    order.add("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
    order.add("--dev", "/dev")
    _memory(order, "/dev/shm", "1777", holding.tmp_size(plan.limits))  # noqa: S108 - a path inside
    order.add("--remount-ro", "/dev")


def _memory(order: Order, target: str, mode: str, size: int | str | None) -> None:
    bounded = () if size is None else ("--size", str(size))
    order.add("--perms", mode, *bounded, "--tmpfs", target)


def _mount(order: Order, plan: Plan, mount: Mount, private: Mapping[str, str]) -> None:
    source = private.get(mount.target) if mount.source is None else os.fspath(mount.source)
    if source is None:
        size = holding.tmp_size(plan.limits) if mount.target in _IN_MEMORY else plan.limits.disk
        _parents(order, mount.target)
        _memory(order, mount.target, "1777" if mount.target == "/tmp" else "0755", size)  # noqa: S108 - a path inside
        return
    _parents(order, mount.target)
    inner = [other.target for other in plan.mounts if other is not mount and within(other.target, mount.target)]
    if any(not _is_directory(os.path.join(source, below(target, mount.target))) for target in inner):
        _compose(order, source, mount.target, inner)
        return
    option = "--ro-bind" if mount.read_only else "--bind"
    order.add(option, order.source(source, owned=mount.source is not None), mount.target)


def _compose(order: Order, source: str, target: str, inner: list[str]) -> None:
    """A read-only directory with other mounts in it for which it has no place: its entries, beside those places."""
    names = os.listdir(source)
    if len(names) > _MOST_ENTRIES:
        raise ConfigError(
            f"{target!r} has no directory for the mount at {inner[0]!r}, and too many entries to put one beside them.",
            hint="Make that directory, or mount it outside.",
        )
    order.add("--perms", "0755", "--tmpfs", target)
    for name in sorted(names):
        here, there = os.path.join(source, name), f"{target}/{name}"
        deeper = [path for path in inner if within(path, there)]
        if os.path.islink(here):
            order.add("--symlink", os.readlink(here), there)
        elif there in deeper or not (os.path.isdir(here) or os.path.isfile(here)):
            continue
        elif deeper and os.path.isdir(here):
            _compose(order, here, there, deeper)
        else:
            order.add("--ro-bind", order.source(here, owned=True), there)
    order.composed.append(target)


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def in_memory(mount: Mount, plan: Plan) -> bool:
    """Whether a mount is a file system in memory: it has its size from the kernel, and leaves nothing to remove."""
    return mount.source is None and (mount.target in _IN_MEMORY or plan.limits.disk is not None)


@lru_cache(maxsize=64)
def check_targets(targets: tuple[str, ...], host_paths: tuple[str, ...]) -> None:
    """No mount hides a part of the system, and no path of the host a mount. Most sandboxes have the same."""
    for target in targets:
        for taken in _TAKEN:
            if within(target, taken) or within(taken, target):
                raise ConfigError(
                    f"The target {target!r} lies in the system's own {taken}.", hint="Mount it elsewhere, say /data."
                )
    for path in host_paths:
        for other in (*_TAKEN, *targets):
            if within(other, path) or (other != "/usr" and within(path, other)):
                raise ConfigError(f"host_paths: {path!r} would hide {other!r}.", hint="Name a directory beside it.")


def _protect(order: Order, mounts: Iterable[Mount], path: str) -> None:
    """A directory of the user's own below a writable mount is bound over itself: it cannot even be moved away."""
    mount = next(mount for mount in mounts if within(path, mount.target))
    source = os.path.join(os.fspath(mount.source or ""), os.path.relpath(path, mount.target))
    if stat.S_ISLNK(os.lstat(source).st_mode):
        raise ConfigError(
            f"{path!r} is a link, and commands could put something else in its place.",
            hint="Use a private workspace, or a directory with a .git of its own.",
        )
    order.add("--ro-bind", order.source(source, owned=True), path)
