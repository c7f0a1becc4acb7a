"""Errors as data, and back: what a process or a server sends to another."""

from typing import Any

from paddock.errors import BY_CODE, SandboxError
from paddock.types.commands import ExecResult


def error_from_dict(data: dict[str, Any]) -> SandboxError:
    """The error that `to_dict` described; a code this version does not know becomes a plain `SandboxError`."""
    cls = BY_CODE.get(data["code"], SandboxError)
    extra = {name: data.get(name) for name in cls.extra_fields}
    if isinstance(extra.get("result"), dict):
        extra["result"] = ExecResult.from_dict(data["result"])
    return cls(data["message"], code=data["code"], path=data.get("path"), hint=data.get("hint"), **extra)
