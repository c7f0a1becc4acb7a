"""The error tree: codes, built-in bases, pickling, and a serialised shape that does not change."""

import builtins
import errno
import json
import pickle
from typing import Any

import pytest

import paddock
from paddock import error_from_dict, errors
from paddock.errors import BY_CODE, SandboxError, visible
from paddock.types import ExecResult

CODES = {
    "NOT_FOUND": ("NotFoundError", "FileNotFoundError"),
    "NOT_A_FILE": ("NotFileError", "IsADirectoryError"),
    "NOT_A_DIRECTORY": ("NotDirectoryError", "NotADirectoryError"),
    "EXISTS": ("ExistsError", "FileExistsError"),
    "NOT_EMPTY": ("NotEmptyError", "OSError"),
    "INVALID_PATH": ("InvalidPathError", "ValueError"),
    "OUTSIDE": ("OutsideError", "PermissionError"),
    "READ_ONLY": ("ReadOnlyError", "PermissionError"),
    "PERMISSION_DENIED": ("PermissionDeniedError", "PermissionError"),
    "NOT_TEXT": ("NotTextError", "ValueError"),
    "TOO_LARGE": ("TooLargeError", "OSError"),
    "QUOTA_EXCEEDED": ("QuotaExceededError", "OSError"),
    "TIMEOUT": ("ExecTimeoutError", "TimeoutError"),
    "COMMAND_FAILED": ("CommandFailedError", None),
    "LIMIT_REACHED": ("LimitReachedError", None),
    "CLOSED": ("ClosedError", None),
    "UNSUPPORTED": ("UnsupportedError", None),
    "UNAVAILABLE": ("UnavailableError", None),
    "SANDBOX_DIED": ("SandboxDiedError", None),
    "NOT_AUTHORIZED": ("NotAuthorizedError", None),
    "CONFLICT": ("ConflictError", None),
    "GIT_ERROR": ("GitError", None),
    "AUTH_ERROR": ("GitAuthError", None),
    "BRIDGE_ERROR": ("BridgeError", None),
    "AGENT_ERROR": ("AgentError", None),
    "INVALID_CONFIG": ("ConfigError", "ValueError"),
    "SANDBOX_ERROR": ("SandboxError", None),
}


def test_the_table_is_complete() -> None:
    assert {code: cls.__name__ for code, cls in BY_CODE.items()} == {code: name for code, (name, _) in CODES.items()}


@pytest.mark.parametrize("code", CODES)
def test_each(code: str) -> None:
    name, also = CODES[code]
    cls = getattr(paddock, name)
    assert cls is BY_CODE[code]
    if also:
        assert issubclass(cls, getattr(builtins, also))
    error = cls("Something happened.", path="/workspace/f")
    assert error.code == code
    assert str(error) == f"Something happened. {error.hint}"
    assert error.hint.strip().endswith(".")
    assert error.to_llm() == f"{code}: Something happened. {error.hint}"
    if isinstance(error, OSError):
        assert error.errno is not None
        assert error.filename == "/workspace/f"


@pytest.mark.parametrize("code", CODES)
def test_pickled_and_serialised(code: str) -> None:
    cls = BY_CODE[code]
    extra: dict[str, Any] = {name: f"some {name}" for name in cls.extra_fields}
    if "result" in extra:
        extra["result"] = ExecResult(3, b"out", b"\xff")
    error = cls("What happened.", path="/p", hint="Do this.", **extra)
    for copy in (pickle.loads(pickle.dumps(error)), error_from_dict(json.loads(json.dumps(error.to_dict())))):
        assert type(copy) is cls
        assert (str(copy), copy.code, copy.path, copy.hint) == (str(error), code, "/p", "Do this.")
        assert all(getattr(copy, name) == value for name, value in extra.items())
        assert getattr(copy, "errno", None) == getattr(error, "errno", None)


def test_shapes_that_others_store() -> None:
    missing = errors.NotFoundError("Not there.", path="/workspace/f")
    assert missing.to_dict() == {
        "code": "NOT_FOUND",
        "message": "Not there.",
        "hint": "List the directory to see what is there.",
        "path": "/workspace/f",
    }
    timeout = errors.ExecTimeoutError("Too long.", result=ExecResult(137, b"x"))
    assert timeout.to_dict() == {
        "code": "TIMEOUT",
        "message": "Too long.",
        "hint": "Pass a larger timeout=, or use start() for long work.",
        "path": None,
        "result": {
            "exit_code": 137,
            "stdout_bytes": "eA==",
            "stderr_bytes": "",
            "truncated": False,
            "duration": 0.0,
            "usage": {"cpu": 0.0, "memory": 0},
            "limit": None,
        },
    }
    unknown = error_from_dict({"code": "FROM_THE_FUTURE", "message": "m", "hint": "h"})
    assert (type(unknown), unknown.code) == (SandboxError, "FROM_THE_FUTURE")


def test_fields_that_do_not_exist() -> None:
    with pytest.raises(TypeError, match="colour"):
        SandboxError("m", colour="red")


def test_errno_can_be_given() -> None:
    assert errors.NotFileError("m", errno=errno.ENXIO).errno == errno.ENXIO


def test_visible() -> None:
    assert visible("plain é 日本") == "plain é 日本"
    assert visible("a\x1b[0m\n\u202e\udcff") == "a\\x1b[0m\\n\\u202e\\udcff"
