"""MCP servers of an assistant, with references to variables of this host that are looked up for each request."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.assistants.checking import check
from paddock.assistants.schemas import SERVER
from paddock.bridge import McpServer
from paddock.documents import Value, load
from paddock.errors import ConfigError, visible
from paddock.types.times import parse_time

_REFERENCE = re.compile(r"\$ENV\.([A-Za-z_][A-Za-z0-9_]*)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


class ServerSpec:
    """One server, as it is written down."""

    def __init__(self, name: str, value: Value, folder: Path) -> None:
        self.name = name
        self._value = value
        self._folder = folder
        self.server(_anything)  # whatever is wrong is better heard of now

    def server(self, environment: Mapping[str, str] | None = None) -> McpServer:
        """The server, with what the variables of this host have now."""
        found = self._value.mapping()
        if ("command" in found) == ("url" in found):
            raise self._value.error("a server has either a command or a url.", "Give one of them.")
        try:
            return McpServer(
                self._command(found) if "command" in found else found["url"].plain(),
                name=self.name,
                env=_looked_up(found.get("env"), environment),
                cwd=self._folder if "command" in found else None,
                headers=_looked_up(found.get("headers"), environment),
                **_terms(found),
            )
        except ConfigError as error:
            if str(self._value.file) in error.message:
                raise
            raise self._value.error(error.message, error.hint) from None

    def _command(self, found: Mapping[str, Value]) -> list[str]:
        given = found["command"].plain()
        try:
            return shlex.split(given) if isinstance(given, str) else list(given)
        except ValueError:
            raise found["command"].error("a quote is not closed.", "Close it, or give a list of words.") from None


def _terms(found: Mapping[str, Value]) -> dict[str, Any]:
    given = {name: found[name].plain() for name in ("only", "exclude", "rename", "consent", "timeout") if name in found}
    return given | ({"timeout": parse_time(given["timeout"])} if "timeout" in given else {})


class _Anything(dict[str, str]):
    """An environment in which every variable is set."""

    def __missing__(self, name: str) -> str:
        return "x"

    def get(self, name: str, default: str | None = None) -> str:  # type: ignore[override]
        return "x"


_anything = _Anything()


def servers(inline: Value | None, folder: Path) -> tuple[ServerSpec, ...]:
    """Those of assistant.yml, and those of the files in mcp/."""
    found = {name: ServerSpec(name, value, folder) for name, value in (inline.mapping() if inline else {}).items()}
    for path in sorted([*folder.glob("mcp/*.json"), *folder.glob("mcp/*.toml")]):
        raise ConfigError(
            f"{visible(str(path))}: servers are written as YAML.", hint=f"Make a mcp/{path.stem}.yml of it."
        )
    for path in sorted([*folder.glob("mcp/*.yml"), *folder.glob("mcp/*.yaml")]):
        value = load(path)
        if not _NAME.fullmatch(path.stem):
            raise value.error(f"'{path.stem}' cannot be the name of a server.", "Rename it: letters, digits, '-', '_'.")
        if path.stem in found:
            raise value.error(f"there is a server '{path.stem}' already.", "Rename one of them.")
        check(value, SERVER)
        found[path.stem] = ServerSpec(path.stem, value, folder)
    return tuple(found.values())


def _looked_up(block: Value | None, environment: Mapping[str, str] | None) -> dict[str, str]:
    known = os.environ if environment is None else environment
    return {name: _one(value, known) for name, value in (block.mapping() if block else {}).items()}


def _one(value: Value, known: Mapping[str, str]) -> str:
    def found(match: re.Match[str]) -> str:
        text = known.get(match[1])
        if not text:
            raise value.error(f"the variable {match[1]} is not set on this host.", f"Set {match[1]}.")
        return text

    return _REFERENCE.sub(found, str(value.content))
