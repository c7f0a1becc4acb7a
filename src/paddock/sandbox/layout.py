"""From `root=`, `workspace=`, `cache=` and `mounts=` to the full set of mounts, checked for conflicts."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from paddock.dirs.syscalls import chmod_directory
from paddock.driver import HOME
from paddock.errors import ConfigError, visible
from paddock.paths import within
from paddock.sandbox.protected import protected
from paddock.types import Mount
from paddock.types.mounts import host_path

WORKSPACE = "/workspace"
CACHE = "/cache"
STANDARD = (WORKSPACE, CACHE, "/tmp", HOME)  # noqa: S108 - a path inside the sandbox
DEFAULT_ROOT = ".sandbox"

Mode = Literal["sandboxed", "direct"]
HostPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Layout:
    """Every mount of a sandbox, and which directories below them nobody may change."""

    mounts: tuple[Mount, ...]
    protected: tuple[str, ...] = ()
    """Sandbox paths that are read-only though their mount is not: an existing `.git` of the user's own."""
    made: tuple[str, ...] = ()
    """The host directories that were made for it, outermost first."""

    def undo(self) -> None:
        """Remove what was made, where nothing has been put in it."""
        for path in reversed(self.made):
            with suppress(OSError):
                os.rmdir(path)


def lay_out(
    mode: Mode | None,
    root: HostPath | None,
    workspace: HostPath | None,
    cache: HostPath | None,
    mounts: Iterable[Mount],
    *,
    make: bool = True,
) -> Layout:
    """The mounts for these arguments; host directories of the standard two are made if they are missing, and `make`."""
    mode = _mode(mode, root, workspace, cache)
    extra = tuple(mounts)
    if mode is None and not extra:
        return _PRIVATE
    if not all(isinstance(mount, Mount) for mount in extra):
        raise ConfigError("mounts= takes Mount values.", hint='Such as mounts=[Mount("./data", "/data")].')
    if mode == "sandboxed":
        base = os.path.abspath(host_path(DEFAULT_ROOT if root is None else root))
        standard = [
            Mount(os.path.join(base, "workspace"), WORKSPACE, "rw"),
            Mount(os.path.join(base, "cache"), CACHE, "rw"),
        ]
    else:
        standard = [Mount(workspace, WORKSPACE, "rw")]
        if cache is not None or workspace is None:
            standard.append(Mount(cache, CACHE, "rw"))
    standard += [Mount(None, target, "rw") for target in STANDARD[2:]]
    complete = tuple(_on_host(mount) for mount in (*standard, *extra))
    _check_targets(complete)
    _check_there(extra)
    _check_sources(complete)
    if mode == "sandboxed":
        _check_no_links(base, complete)
    _check_entering(complete)
    if not make:
        return Layout(complete)
    hosted = [os.fspath(mount.source) for mount in complete[: len(standard)] if mount.source is not None]
    made = _make(base, 0o700) if mode == "sandboxed" else []
    for path in hosted:
        made += _make(path, 0o755)
    return Layout(complete, protected(complete) if mode != "sandboxed" else (), tuple(made))


def reviewed(layout: Layout) -> Layout:
    """The same layout for `review=True`: directories of the host that are there, and are looked at, never written."""
    written = [mount for mount in layout.mounts if mount.source is not None and not mount.read_only]
    if not written:
        raise ConfigError("review=True without a host directory.", hint='Give one, such as workspace=".".')
    for mount in written:
        if not os.path.isdir(os.fspath(mount.source or "")):
            raise ConfigError(
                f"The host directory of {mount.target!r} is not there, so nothing in it can be reviewed.",
                hint="Make it first, or correct the path.",
            )
    return layout


_PRIVATE = Layout(tuple(Mount(None, target, "rw") for target in STANDARD))
"""What most sandboxes have: nothing of this host."""


def _mode(mode: Mode | None, root: HostPath | None, workspace: HostPath | None, cache: HostPath | None) -> Mode | None:
    given = [name for name, value in (("workspace", workspace), ("cache", cache)) if value is not None]
    if mode not in (None, "sandboxed", "direct"):
        raise ConfigError(f"mode={mode!r} is not a mode.", hint="Give 'sandboxed', 'direct', or leave it out.")
    if given and (root is not None or mode == "sandboxed"):
        other = "root=" if root is not None else "mode='sandboxed'"
        raise ConfigError(f"{other} and {given[0]}= contradict each other.", hint="Give one of them.")
    if mode == "direct" and (workspace is None or root is not None):
        raise ConfigError("mode='direct' needs workspace=, and no root=.", hint='Such as workspace="./reports".')
    if root is not None:
        return "sandboxed"
    return "direct" if given else mode


def _on_host(mount: Mount) -> Mount:
    """The mount with its source absolute and free of links, so that what is compared is what is used."""
    if mount.source is None:
        return mount
    real = os.path.realpath(os.fspath(mount.source))
    return Mount(real, mount.target, mount.mode, mount.suffixes, mount.max_file_bytes)


def _check_targets(mounts: tuple[Mount, ...]) -> None:
    seen: dict[str, Mount] = {}
    for mount in mounts:
        if mount.target in seen:
            raise ConfigError(f"Two mounts have the target {mount.target!r}.", hint="Give each a path of its own.")
        seen[mount.target] = mount
    for outer in mounts:
        for inner in mounts:
            if outer is inner or not within(inner.target, outer.target):
                continue
            if not outer.read_only:
                raise ConfigError(
                    f"The target {inner.target!r} lies below {outer.target!r}, which is writable.",
                    hint="Commands could move it away. Mount it outside, such as at '/data'.",
                )
            if inner.target in STANDARD:
                raise ConfigError(f"The target {outer.target!r} would hide {inner.target!r}.", hint="Choose another.")


def _check_there(extra: tuple[Mount, ...]) -> None:
    """Sources as they were given, which nobody makes."""
    for mount in extra:
        if mount.source is None or mount.target in STANDARD or os.path.isdir(mount.source):
            continue
        given = visible(os.fspath(mount.source))
        if os.path.exists(mount.source):
            raise ConfigError(
                f"'{given}' is not a directory, and only directories can be mounted.",
                hint="Mount the directory that it is in.",
            )
        raise ConfigError(
            f"There is no directory '{given}' to mount at {mount.target!r}.", hint="Make it first, or correct the path."
        )


def _check_sources(mounts: tuple[Mount, ...]) -> None:
    hosted = [mount for mount in mounts if mount.source is not None]
    for index, one in enumerate(hosted):
        source = os.fspath(one.source or "")
        for other in hosted[index + 1 :]:
            their = os.fspath(other.source or "")
            if within(source, their) or within(their, source):
                raise ConfigError(
                    f"The host directories of {one.target!r} and {other.target!r} overlap.",
                    hint="Give directories that do not contain each other; what lies in one of them is seen there.",
                )


def _check_entering(mounts: tuple[Mount, ...]) -> None:
    """What is shown can be entered by whoever shows it. What is not there yet is made, or missed elsewhere."""
    effective = os.access in os.supports_effective_ids
    for mount in mounts:
        source = mount.source
        if source is not None and os.path.isdir(source) and not os.access(source, os.X_OK, effective_ids=effective):
            raise ConfigError(
                f"This user may not enter the host directory of {mount.target!r}.",
                hint="Give a directory of your own; chmod u+rwx opens one that is closed.",
            )


def _check_no_links(base: str, mounts: tuple[Mount, ...]) -> None:
    """The directories of a root lie in it: a sandbox may have been able to put links there."""
    for mount in mounts[:2]:
        if mount.source != os.path.join(os.path.realpath(base), mount.target[1:]):
            raise ConfigError(
                f"The host directory of {mount.target!r} in the root is a link.",
                hint="Remove the link, or give where it leads to as workspace= or cache=.",
            )


def _make(path: str, mode: int) -> list[str]:
    """Make a directory and what is missing above it; what was made, outermost first."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    try:
        for directory in reversed(missing):
            _make_one(directory, mode if directory == missing[0] else 0o755)
    except OSError as error:
        raise ConfigError(
            f"A directory for the sandbox cannot be made: {error.strerror}.", hint="Choose another."
        ) from error
    return missing[::-1]


def _make_one(path: str, mode: int) -> None:
    """Its mode is set whatever the umask is, and only if nobody has put a link in its place."""
    above, name = os.path.split(path)
    parent = os.open(above, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.mkdir(name, dir_fd=parent)
        chmod_directory(parent, os.fsencode(name), mode)
    finally:
        os.close(parent)
