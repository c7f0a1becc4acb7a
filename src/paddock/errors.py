"""Every error Paddock raises.

The whole tree, with each class's code and the built-in error it also is::

    SandboxError                SANDBOX_ERROR
    ├── NotFoundError           NOT_FOUND           FileNotFoundError
    ├── NotFileError            NOT_A_FILE          IsADirectoryError
    ├── NotDirectoryError       NOT_A_DIRECTORY     NotADirectoryError
    ├── ExistsError             EXISTS              FileExistsError
    ├── NotEmptyError           NOT_EMPTY           OSError
    ├── InvalidPathError        INVALID_PATH        ValueError
    ├── OutsideError            OUTSIDE             PermissionError
    ├── ReadOnlyError           READ_ONLY           PermissionError
    ├── PermissionDeniedError   PERMISSION_DENIED   PermissionError
    ├── NotTextError            NOT_TEXT            ValueError
    ├── TooLargeError           TOO_LARGE           OSError
    ├── QuotaExceededError      QUOTA_EXCEEDED      OSError
    ├── ExecTimeoutError        TIMEOUT             TimeoutError
    ├── CommandFailedError      COMMAND_FAILED
    ├── LimitReachedError       LIMIT_REACHED
    ├── ClosedError             CLOSED
    ├── UnsupportedError        UNSUPPORTED
    ├── UnavailableError        UNAVAILABLE
    ├── SandboxDiedError        SANDBOX_DIED
    ├── NotAuthorizedError      NOT_AUTHORIZED
    ├── ConflictError           CONFLICT
    ├── GitError                GIT_ERROR
    │   └── GitAuthError        AUTH_ERROR
    ├── BridgeError             BRIDGE_ERROR
    ├── AgentError              AGENT_ERROR
    └── ConfigError             INVALID_CONFIG      ValueError

A message is one sentence that says what happened, in the sandbox's own paths; a hint is what is allowed or what to
do next. ``str(error)`` is both. File errors set ``errno`` and ``filename``.
"""

import errno as _errno
from typing import Any, ClassVar

DENIALS = frozenset({"OUTSIDE", "READ_ONLY", "PERMISSION_DENIED", "NOT_AUTHORIZED"})


def visible(text: str) -> str:
    """`text` with every character that could act on a terminal or reorder a line written out as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _fill_in(error: OSError, errno: int | None, path: str | None, message: str) -> None:
    error.errno, error.filename, error.strerror = errno, path, message


def _rebuild(cls: "type[SandboxError]", message: str, fields: dict[str, Any]) -> "SandboxError":
    return cls(message, **fields)


class SandboxError(Exception):
    """The root of the tree: `except SandboxError` catches all that Paddock raises on purpose."""

    code: str = "SANDBOX_ERROR"
    default_hint: ClassVar[str] = "Look at the error's code and path for what to change."
    default_errno: ClassVar[int | None] = None
    extra_fields: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        path: str | None = None,
        hint: str | None = None,
        errno: int | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(message)
        unknown = set(extra) - set(self.extra_fields)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        self.message = message
        if code is not None:
            self.code = code
        self.path = path
        self.hint = self.default_hint if hint is None else hint
        if isinstance(self, OSError):
            _fill_in(self, self.default_errno if errno is None else errno, path, message)
        for name in self.extra_fields:
            setattr(self, name, extra.get(name))

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self._fields())

    def to_llm(self) -> str:
        """The error as a model should read it: the code, what happened, and what to do."""
        return f"{self.code}: {self}"

    def to_dict(self) -> dict[str, Any]:
        """A stable, JSON-ready form; `paddock.error_from_dict` reads it back."""
        data: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "path": self.path,
        }
        for name in self.extra_fields:
            value = getattr(self, name)
            data[name] = value.to_dict() if hasattr(value, "to_dict") else value
        return data

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"code": self.code, "path": self.path, "hint": self.hint}
        if isinstance(self, OSError):
            fields["errno"] = getattr(self, "errno")  # noqa: B009 - the type checker sees no OSError here
        return fields | {name: getattr(self, name) for name in self.extra_fields}


class NotFoundError(SandboxError, FileNotFoundError):
    """Nothing is there."""

    code = "NOT_FOUND"
    default_errno = _errno.ENOENT
    default_hint = "List the directory to see what is there."


class NotFileError(SandboxError, IsADirectoryError):
    """A regular file was needed: it is a directory, or a pipe, socket or device."""

    code = "NOT_A_FILE"
    default_errno = _errno.EISDIR
    default_hint = "Name a regular file."


class NotDirectoryError(SandboxError, NotADirectoryError):
    """A directory was needed, and something else is there."""

    code = "NOT_A_DIRECTORY"
    default_errno = _errno.ENOTDIR
    default_hint = "Name a directory."


class ExistsError(SandboxError, FileExistsError):
    """Something is there already, and would have been lost."""

    code = "EXISTS"
    default_errno = _errno.EEXIST
    default_hint = "Choose another name, or pass overwrite=True where the call takes it."


class NotEmptyError(SandboxError, OSError):
    """A directory with something in it was to be removed."""

    code = "NOT_EMPTY"
    default_errno = _errno.ENOTEMPTY
    default_hint = "Delete what is in it first, or pass recursive=True to delete()."


class InvalidPathError(SandboxError, ValueError):
    """The path is malformed: nothing could have this name."""

    code = "INVALID_PATH"
    default_hint = "Give a POSIX path of at most 4096 bytes, 255 a name, without NUL characters."


class OutsideError(SandboxError, PermissionError):
    """The path is well formed and leads to something that this sandbox does not reach, whether it exists or not."""

    code = "OUTSIDE"
    default_errno = _errno.EACCES
    default_hint = 'list("/") names what is reachable.'


class ReadOnlyError(SandboxError, PermissionError):
    """The place can be read and not written."""

    code = "READ_ONLY"
    default_errno = _errno.EROFS
    default_hint = "Write somewhere else."


class PermissionDeniedError(SandboxError, PermissionError):
    """The file system refused, or a mount's own rules did."""

    code = "PERMISSION_DENIED"
    default_errno = _errno.EACCES
    default_hint = "Use a path that the sandbox's user may change."


class NotTextError(SandboxError, ValueError):
    """The file is not UTF-8."""

    code = "NOT_TEXT"
    default_hint = "Use read_bytes() for binary files."


class TooLargeError(SandboxError, OSError):
    """Larger than one call handles."""

    code = "TOO_LARGE"
    default_errno = _errno.EFBIG
    default_hint = "Ask for less at once."


class QuotaExceededError(SandboxError, OSError):
    """The sandbox's disk is full."""

    code = "QUOTA_EXCEEDED"
    default_errno = _errno.ENOSPC
    default_hint = "Delete something, or create the sandbox with a larger limit."


class ExecTimeoutError(SandboxError, TimeoutError):
    """The command ran out of time; `.result` has what there was."""

    code = "TIMEOUT"
    default_errno = _errno.ETIMEDOUT
    default_hint = "Pass a larger timeout=, or use start() for long work."
    extra_fields = ("result",)
    result: Any


class CommandFailedError(SandboxError):
    """The command ended with a nonzero status and `check=True`; `.result` has all of it."""

    code = "COMMAND_FAILED"
    default_hint = "Look at .result.stderr for its own words."
    extra_fields = ("result",)
    result: Any


class LimitReachedError(SandboxError):
    """A limit of the sandbox, or of this host, is used up; `.limit` names it."""

    code = "LIMIT_REACHED"
    default_hint = "End something that is no longer needed, or raise the limit."
    extra_fields = ("limit",)
    limit: str | None


class ClosedError(SandboxError):
    """The sandbox was closed."""

    code = "CLOSED"
    default_hint = "Create a new one with Sandbox.create()."


class UnsupportedError(SandboxError):
    """This backend cannot do that; `.backend` and `.capability` say which and what."""

    code = "UNSUPPORTED"
    default_hint = "Leave it out, or create the sandbox on a backend that can do it."
    extra_fields = ("backend", "capability")
    backend: str | None
    capability: str | None


class UnavailableError(SandboxError):
    """Something that is needed is missing on this host; the message says what, the hint how to get it."""

    code = "UNAVAILABLE"
    default_hint = "Install what is missing, or name another backend."


class SandboxDiedError(SandboxError):
    """The sandbox ended under its user."""

    code = "SANDBOX_DIED"
    default_hint = "Create a new one; files in host directories are still there."


class NotAuthorizedError(SandboxError):
    """Nobody agreed to this."""

    code = "NOT_AUTHORIZED"
    default_hint = "Ask the person or program that owns the sandbox to allow it."


class ConflictError(SandboxError):
    """Something changed meanwhile; nothing was overwritten."""

    code = "CONFLICT"
    default_hint = "Look at the current state and try again."


class GitError(SandboxError):
    """A git operation failed; `.operation` names it."""

    code = "GIT_ERROR"
    default_hint = "Check the repository, the branch and the paths."
    extra_fields = ("operation",)
    operation: str | None


class GitAuthError(GitError):
    """The remote wants credentials."""

    code = "AUTH_ERROR"
    default_hint = "Set GITHUB_TOKEN, or run `gh auth login`."


class BridgeError(SandboxError):
    """A host tool or its connection failed."""

    code = "BRIDGE_ERROR"
    default_hint = "Check the tool's own log and its grant."


class AgentError(SandboxError):
    """The agent's program failed; `kind` says how."""

    code = "AGENT_ERROR"
    extra_fields = ("agent", "kind", "status", "exit_code", "stderr")
    agent: str | None
    kind: str | None
    """`api`, `stalled`, `timeout`, `interrupted`, `max_turns`, `no_session`, `exited`, `setup`, `sandbox` or `failed`.

    Of an assistant also `hook` or `tools`.
    """
    status: int | None
    """What the model's provider answered, if that was it."""
    exit_code: int | None
    stderr: str | None
    default_hint = "Its `Log` events, which `paddock agent` shows, have the agent's own words."


class ConfigError(SandboxError, ValueError):
    """An argument, variable or file holds a value that cannot be used."""

    code = "INVALID_CONFIG"
    default_hint = "Correct the value named here."


def _tree(cls: type[SandboxError]) -> list[type[SandboxError]]:
    return [cls, *(found for child in cls.__subclasses__() for found in _tree(child))]


BY_CODE: dict[str, type[SandboxError]] = {cls.code: cls for cls in _tree(SandboxError)}
