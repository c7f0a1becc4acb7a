"""From an errno that a directory raised to the typed error a user sees."""

import errno
from collections.abc import Callable

from paddock.errors import (
    ExistsError,
    InvalidPathError,
    LimitReachedError,
    NotDirectoryError,
    NotEmptyError,
    NotFileError,
    NotFoundError,
    OutsideError,
    PermissionDeniedError,
    QuotaExceededError,
    ReadOnlyError,
    SandboxDiedError,
    SandboxError,
    TooLargeError,
    visible,
)

_Make = Callable[[str, str], SandboxError]


def _file_error(cls: type[SandboxError], words: str, hint: str | None = None) -> _Make:
    return lambda shown, path: cls(f"'{shown}' {words}", path=path, hint=hint)


def _limit(name: str, words: str) -> _Make:
    return lambda shown, path: LimitReachedError(f"This host is out of {words}.", path=path, limit=name)


_denied = _file_error(PermissionDeniedError, "cannot be changed or read by the sandbox's user.")
_locked = _file_error(PermissionDeniedError, "is locked by a program that has it open.")
_full = _file_error(
    QuotaExceededError,
    "does not fit: the disk is full.",
    "Delete something, or create the sandbox with larger limits on disk and tmp.",
)
_large = _file_error(
    TooLargeError,
    "is larger than the limit on one file, or has more directories than can be watched.",
    "Use less at once, or create the sandbox with a larger Limits.file_size.",
)
_special = _file_error(NotFileError, "is a pipe, a socket or a device.")
_links = _file_error(OutsideError, "leads through links that cannot be followed.")
_name = _file_error(InvalidPathError, "cannot be a name here.")
_gone = _file_error(SandboxDiedError, "is on a file system that is gone.")

_TABLE: dict[int, _Make] = {
    errno.ENOENT: _file_error(NotFoundError, "does not exist."),
    errno.EISDIR: _file_error(NotFileError, "is a directory."),
    errno.ENXIO: _special,
    errno.ENODEV: _special,
    errno.ENOTDIR: _file_error(NotDirectoryError, "is not a directory, or lies below something that is not one."),
    errno.EEXIST: _file_error(ExistsError, "exists already."),
    errno.ENOTEMPTY: _file_error(NotEmptyError, "is a directory that is not empty."),
    errno.EROFS: _file_error(ReadOnlyError, "is on a read-only file system."),
    errno.EACCES: _denied,
    errno.EPERM: _denied,
    errno.EOVERFLOW: _denied,  # an owner that an id-mapped mount cannot name
    errno.EBUSY: _denied,
    errno.EAGAIN: _locked,
    errno.ETXTBSY: _denied,
    errno.ENOSPC: _full,
    errno.EDQUOT: _full,
    errno.EFBIG: _large,
    errno.ELOOP: _links,
    errno.EXDEV: _links,
    errno.ENAMETOOLONG: _name,
    errno.EINVAL: _name,
    errno.EILSEQ: _name,
    errno.EMFILE: _limit("open_files", "open files"),
    errno.ENFILE: _limit("open_files", "open files"),
    errno.ENOMEM: _limit("memory", "memory"),
    errno.ESTALE: _gone,
    errno.ENOTCONN: _gone,
}


def typed(error: OSError, path: str) -> SandboxError:
    """The typed error for `error`, about the sandbox path `path`; nothing of the host shows in it."""
    if isinstance(error, SandboxError):
        return error
    make = _TABLE.get(error.errno or 0)
    if make is not None:
        return make(visible(path), path)
    return SandboxError(f"'{visible(path)}' could not be used: {error.strerror}.", path=path, hint="Try again.")
