"""The host directories that a sandbox shows: each is opened once, with no link on the way, and used by its descriptor."""

import errno
import os
import stat
from collections.abc import Iterator
from functools import cache
from types import TracebackType

from paddock.dirs.syscalls import open_beneath
from paddock.driver import Plan
from paddock.errors import ConfigError
from paddock.paths import below, within


class Sources:
    """Those of the mounts, and what is protected below them. What is checked and what is shown are one thing."""

    def __init__(self, plan: Plan) -> None:
        self._mounts = [mount for mount in plan.mounts if mount.source is not None]
        self._protected = plan.protected
        self._opened: dict[str, int] = {}

    def __enter__(self) -> "Sources":
        try:
            for mount in self._mounts:
                self._opened[mount.target] = open_source(os.fspath(mount.source or ""), mount.target)
            for path in self._protected:
                self._opened[path] = self._open_protected(path)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getitem__(self, path: str) -> int:
        """The descriptor of what is at this path inside."""
        return self._opened[path]

    @property
    def writable(self) -> Iterator[int]:
        """The descriptors of the mounts that can be written to."""
        return (self._opened[mount.target] for mount in self._mounts if not mount.read_only)

    @property
    def targets(self) -> list[str]:
        """Where the mounts are inside."""
        return [mount.target for mount in self._mounts]

    def target_of(self, path: str) -> str:
        """The mount that a path inside belongs to."""
        return max((target for target in self.targets if within(path, target)), key=len)

    def close(self) -> None:
        """Close them all."""
        for fd in self._opened.values():
            os.close(fd)
        self._opened = {}

    def _open_protected(self, path: str) -> int:
        target = self.target_of(path)
        try:
            return open_entry(self._opened[target], below(path, target))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ConfigError(
                    f"{path!r} is a link, and commands could put something else in its place.",
                    hint="Use a private workspace, or a directory with a .git of its own.",
                ) from None
            raise ConfigError(
                f"{path!r} cannot be protected: {error.strerror}.",
                hint="It has to be a directory, or a file that names one.",
            ) from None


def open_source(path: str, target: str) -> int:
    """The directory at an absolute path of this host that has no links in it; `target` is for the error."""
    try:
        return open_beneath(_top(), os.fsencode(path.lstrip("/")), os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(
            f"The host directory of {target!r} cannot be opened: {error.strerror}.",
            hint="Correct the path; nobody may put a link in its place meanwhile.",
        ) from None


def open_entry(directory: int, path: str) -> int:
    """The file or directory at `path` below a directory; a link anywhere is ELOOP, anything else there EINVAL."""
    fd = open_beneath(directory, os.fsencode(path), os.O_PATH)
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        return fd
    os.close(fd)
    code = errno.ELOOP if stat.S_ISLNK(mode) else errno.EINVAL
    raise OSError(code, os.strerror(code))


@cache
def _top() -> int:
    return os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
