"""What bubblewrap is told: the whole of a sandbox's root, in the order in which it is built."""

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from paddock.backends.namespaces import etc, holding, rootfs, system
from paddock.backends.namespaces.identity import INSIDE, Identity
from paddock.backends.namespaces.sources import Sources, open_entry, open_source
from paddock.dirs.syscalls import open_beneath
from paddock.driver import HOME, SOCKETS, Plan
from paddock.errors import ConfigError, UnavailableError
from paddock.paths import below, within
from paddock.types import Mount

SUPERVISOR = f"{SOCKETS}/init"
_BRIDGE = f"{SOCKETS}/paddock-bridge"
SOCKETS_SIZE = 64 << 10
"""Sockets need next to nothing, and nothing else belongs there."""
PLACE = "/tmp"  # noqa: S108 - where the launcher shows what only root can reach
MERGED = "merged"
"""In the directory that a layer is made in: where the launcher mounts it, if we are not root."""
_TAKEN = ("/usr", "/etc", "/proc", "/dev", "/sys", "/run", "/var", *system.LINKED)
_MOST_ENTRIES = 64
_MOST_SHOWN = 126  # the launcher has room for 128, and bubblewrap itself may need two
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

    def __init__(self, identity: Identity, *, by_descriptor: bool = True) -> None:
        self.words: list[str] = []
        self.shown: list[tuple[int | str, int, int]] = []
        """What the launcher shows: a descriptor, or the path of something of ours; and whose it is on disk."""
        self.layers: dict[int, int] = {}
        """Of what is shown, by its number, with a layer over it: the directory with what that is made of."""
        self.composed: list[str] = []
        """Directories that were put together, and are to be read-only when everything is in them."""
        self.held: list[int] = []
        """Descriptors that have to be open as long as the sandbox runs."""
        self.passed: list[int] = []
        """Descriptors that bubblewrap mounts, and closes."""
        self._opened: list[int] = []
        self._identity = identity
        self._by_descriptor = by_descriptor

    def add(self, *words: str) -> None:
        """Some more words."""
        self.words += words

    def source(self, path: str) -> str:
        """Where bubblewrap finds what is at `path` of this host, which is the system's or Paddock's own.

        For root that is another place: bubblewrap is not root any more, and may not be able to get there.
        """
        if self._identity.ours:
            return path
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise UnavailableError(f"{path!r} cannot be shown: {error.strerror}.", hint="Check its path.") from error
        return self._place(self.keep(fd), owned=False)

    def private(self, path: str) -> str:
        """The same for a directory of this sandbox's own. It need not be there yet, but when bubblewrap is told."""
        if self._identity.ours:
            return path
        return self._placed(path, self._identity.uid, self._identity.gid)

    def keep(self, fd: int) -> int:
        """A descriptor that is closed with the others."""
        self._opened.append(fd)
        return fd

    def show(self, fd: int, target: str, *, writable: bool = False, owned: bool = True) -> None:
        """Mount what a descriptor stands for. With `owned`, what is its owner's is the sandbox's user's inside."""
        option = "--bind" if writable else "--ro-bind"
        if not self._identity.ours:
            self.add(option, self._place(fd, owned=owned), target)
        elif self._by_descriptor:
            self.passed.append(fd)
            self.add(f"{option}-fd", str(fd), target)
        else:  # by its name; what is there is compared when the sandbox runs
            self.add(option, os.readlink(f"/proc/self/fd/{fd}"), target)

    def layer(self, fd: int, directory: str, target: str) -> None:
        """Mount a layer over what a descriptor stands for, which the launcher makes of what is in a directory of ours."""
        self.layers[len(self.shown)] = self.keep(os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        place = self._place(fd, owned=True)
        self.add("--bind", os.path.join(directory, MERGED) if self._identity.ours else place, target)

    def _place(self, fd: int, *, owned: bool) -> str:
        info = os.fstat(fd)
        owner = (info.st_uid, info.st_gid) if owned else (self._identity.uid, self._identity.gid)
        return self._placed(fd, *owner)

    def _placed(self, what: int | str, uid: int, gid: int) -> str:
        self.shown.append((what, uid, gid))
        return f"{PLACE}/{len(self.shown) - 1}"

    def close(self) -> None:
        """Close the descriptors."""
        for fd in (*self.held, *self._opened):
            os.close(fd)
        self.held, self._opened, self.shown, self.passed, self.layers = [], [], [], [], {}


def build(
    order: Order,
    plan: Plan,
    sources: Sources,
    private: Mapping[str, str],
    supervisor: str,
    host_paths: Iterable[str] = (),
    other_root: str | None = None,
    layers: Mapping[str, str] | None = None,
) -> None:
    """Everything about the root of one sandbox.

    `private` says where on this host the private mounts are that are on disk, `layers` where the overlays are made.
    """
    shown = frozenset(() if other_root is None else rootfs.mounts(other_root))
    mounts = [mount for mount in plan.mounts if mount not in shown]
    check_targets(tuple(mount.target for mount in mounts), tuple(host_paths))
    order.add(*_NAMESPACES)
    if other_root is None:
        _host_system(order)
    else:
        _other_system(order, other_root, [*host_paths, *(mount.target for mount in mounts)])
    for path in host_paths:
        _parents(order, path)
        order.show(order.keep(open_source(path, path)), path)
    _parents(order, SOCKETS)
    _memory(order, SOCKETS, "0755", SOCKETS_SIZE)
    program = order.source(supervisor)  # mounted both times: a link could be made to lead elsewhere
    order.add("--ro-bind", program, SUPERVISOR, "--ro-bind", program, _BRIDGE)
    _kernel_file_systems(order, plan)
    for mount in sorted(mounts, key=lambda mount: mount.target):
        _mount(order, plan, mount, sources, private, layers or {})
    for path in plan.protected:
        order.show(sources[path], path)  # bound over itself, it cannot even be moved away
    _check_number(order)
    for path in (*order.composed, "/"):
        order.add("--remount-ro", path)
    order.add("--chdir", "/")


def _host_system(order: Order) -> None:
    order.add(*_system_words())
    prepared = etc.prepare()
    order.held.append(prepared.fd)
    order.show(prepared.fd, "/etc", owned=False)
    prefix = system.interpreter()
    if prefix is not None:
        _parents(order, prefix)
        order.show(order.keep(open_source(prefix, prefix)), prefix, owned=False)
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


def _other_system(order: Order, top: str, targets: Iterable[str]) -> None:
    """Each entry of another root, so that mounts have a place beside them and nothing in it is ever written."""
    directory = order.keep(open_source(top, "/"))
    shown = dict(rootfs.entries(top))
    for target in targets:
        if target.split("/")[1] in shown:
            _refuse_links(directory, target)
    for name, path in shown.items():
        if os.path.islink(path):
            order.add("--symlink", os.readlink(path), f"/{name}")
        elif os.path.isdir(path) or os.path.isfile(path):
            order.show(order.keep(open_entry(directory, name)), f"/{name}", owned=False)


def _refuse_links(directory: int, target: str) -> None:
    """Bubblewrap follows them, and makes what is missing wherever they lead: on this host, too."""
    try:
        os.close(open_entry(directory, target.lstrip("/")))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(
                f"The root file system has a link on the way to {target!r}.", hint="Mount it elsewhere."
            ) from None


def _kernel_file_systems(order: Order, plan: Plan) -> None:
    # The host's settings of the kernel could only be changed by root, which nobody is in here; they are covered all the same.
    order.add("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
    order.add("--dev", "/dev")
    _memory(order, "/dev/shm", "1777", holding.tmp_size(plan.limits))  # noqa: S108 - a path inside
    order.add("--remount-ro", "/dev")


def _memory(order: Order, target: str, mode: str, size: int | str | None) -> None:
    bounded = () if size is None else ("--size", str(size))
    order.add("--perms", mode, *bounded, "--tmpfs", target)


def _mount(
    order: Order,
    plan: Plan,
    mount: Mount,
    sources: Sources,
    private: Mapping[str, str],
    layers: Mapping[str, str],
) -> None:
    _parents(order, mount.target)
    if mount.target in layers:
        order.layer(sources[mount.target], layers[mount.target], mount.target)
    elif mount.target in private:
        order.add("--ro-bind" if mount.read_only else "--bind", order.private(private[mount.target]), mount.target)
    elif mount.source is not None:
        _show(order, plan, mount, sources[mount.target])
    else:
        size = holding.tmp_size(plan.limits) if mount.target in _IN_MEMORY else plan.limits.disk
        _memory(order, mount.target, "1777" if mount.target == "/tmp" else "0755", size)  # noqa: S108 - a path inside


def _show(order: Order, plan: Plan, mount: Mount, source: int) -> None:
    inner = [other.target for other in plan.mounts if other is not mount and within(other.target, mount.target)]
    if all(has_directory(source, below(target, mount.target)) for target in inner):
        order.show(source, mount.target, writable=not mount.read_only)
    else:
        _compose(order, source, mount.target, inner)


def _compose(order: Order, source: int, target: str, inner: list[str]) -> None:
    """A read-only directory with other mounts in it for which it has no place: its entries, beside those places."""
    names = names_in(source)
    if len(names) > _MOST_ENTRIES:
        raise ConfigError(
            f"{target!r} has no directory for the mount at {inner[0]!r}, and too many entries to put one beside them.",
            hint="Make that directory, or mount it outside.",
        )
    order.add("--perms", "0755", "--tmpfs", target)
    for name in sorted(names):
        there = f"{target}/{name}"
        deeper = [path for path in inner if within(path, there)]
        mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
        if there in deeper or (deeper and not stat.S_ISDIR(mode)):
            continue  # the mount has its place: behind a link it would be made wherever that leads, on this host too
        if stat.S_ISLNK(mode):
            order.add("--symlink", os.readlink(name, dir_fd=source), there)
        elif deeper:
            _compose(order, order.keep(open_entry(source, name)), there, deeper)
        elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            order.show(order.keep(open_entry(source, name)), there)
    order.composed.append(target)


def names_in(directory: int) -> list[str]:
    """What is in a directory that is open only as a path."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def has_directory(directory: int, path: str) -> bool:
    """Whether there is one at `path` below a directory, with no link on the way."""
    try:
        os.close(open_beneath(directory, os.fsencode(path), os.O_PATH | os.O_DIRECTORY))
    except OSError:
        return False
    return True


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


def _check_number(order: Order) -> None:
    if len(order.shown) > _MOST_SHOWN:
        raise ConfigError(
            f"These are {len(order.shown)} directories and files to show, and root can show {_MOST_SHOWN}.",
            hint="Use fewer mounts, or mount a directory above them.",
        )
