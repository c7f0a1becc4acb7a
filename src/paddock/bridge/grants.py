"""What is granted: Python functions and other MCP servers, with the terms of each."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from paddock.errors import ConfigError
from paddock.types.record import Record

Asking = Literal["allowed", "ask"]
"""Whether the grant is all the consent there has to be, or somebody is asked about each call."""

SECONDS = 60.0
MAX_OUTPUT = 256 << 10
SEPARATOR = "__"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_SERVER = re.compile(r"(?!.*__)[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_SCRIPTS = (".py", ".js", ".mjs", ".ts", ".sh")


@dataclass(frozen=True, slots=True)
class Tool:
    """A Python function as a tool. Its schema comes from its type hints, its description from its docstring."""

    function: Callable[..., Any]
    """Async, or not: then it runs in a thread."""
    name: str | None = None
    description: str | None = None
    consent: Asking = "allowed"
    """`"ask"`: `approve=` of the sandbox decides about each call."""
    timeout: float = SECONDS
    max_output: int = MAX_OUTPUT
    """Bytes of a result; what is more is cut off, and the result says so."""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(f"{self.function!r} is no function.", hint="Give a Python function.")
        check_name(self.called)
        _check_terms(self.consent, self.timeout, self.max_output)

    @property
    def called(self) -> str:
        """The name that clients see."""
        return self.name or str(getattr(self.function, "__name__", type(self.function).__name__))


@dataclass(frozen=True, slots=True)
class McpServer:
    """Another MCP server and its tools: a program that the host starts, or a URL that it connects to."""

    server: Sequence[str] | str
    """The program with its arguments, as a list; no shell looks at it. Or the URL of a streamable HTTP endpoint."""
    name: str | None = None
    """Tools are called `name__tool`. Without it, a word from the program or the URL."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For a program: what it gets besides `HOME`, `PATH` and the like, a token perhaps."""
    cwd: str | os.PathLike[str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For a URL: a token, say. They stay on the host."""
    only: Iterable[str] | None = None
    """If given, only these of its tools, by the server's own names."""
    exclude: Iterable[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    """From the server's own name to the one that clients see, which gets no prefix."""
    consent: Asking = "allowed"
    timeout: float = SECONDS
    max_output: int = MAX_OUTPUT

    def __post_init__(self) -> None:
        if isinstance(self.server, str):
            _check_url(self.server)
        elif not self.server or not all(isinstance(word, str) for word in self.server):
            raise ConfigError("server= is a list of words, or a URL.", hint='Such as ["python3", "server.py"].')
        else:
            object.__setattr__(self, "server", tuple(self.server))
        for filtered in ("only", "exclude"):
            names = getattr(self, filtered)
            if isinstance(names, str):
                raise ConfigError(f"{filtered}= is a list of names.", hint=f"Such as {filtered}=[{names!r}].")
            if names is not None:
                object.__setattr__(self, filtered, tuple(names))
        if not _SERVER.fullmatch(self.called):
            raise ConfigError(
                f"{self.called!r} is no name for a server.",
                hint="Give name=, up to 32 letters, digits, '-' and '_', without '__'.",
            )
        for name in self.rename.values():
            check_name(name)
        _check_terms(self.consent, self.timeout, self.max_output)

    @property
    def called(self) -> str:
        """Its name, which is the prefix of its tools."""
        return self.name or _derived(self.server)

    def name_of(self, tool: str) -> str:
        """What clients call one of its tools."""
        return self.rename.get(tool, f"{self.called}{SEPARATOR}{tool}")

    def takes(self, tool: str) -> bool:
        """Whether this one of its tools is granted."""
        return (self.only is None or tool in self.only) and tool not in self.exclude


Grantable = Callable[..., Any] | Tool | McpServer


@dataclass(frozen=True, slots=True)
class Grant(Record):
    """A tool that a sandbox may use, as it was when it was granted."""

    name: str
    description: str
    schema: dict[str, Any]
    digest: str
    """The hash of all that a model is told about it. If that becomes another, the tool is refused until granted anew."""
    consent: Asking = "allowed"
    timeout: float = SECONDS
    max_output: int = MAX_OUTPUT
    server: str | None = None
    """The MCP server that it is of; None for a function."""


def as_grantable(given: object) -> Tool | McpServer:
    """A function as a `Tool`; the others as they are."""
    if isinstance(given, (Tool, McpServer)):
        return given
    if callable(given):
        return Tool(given)
    raise ConfigError(f"{given!r} cannot be granted.", hint="Give Python functions, Tool(…) or McpServer(…).")


def is_name(name: str) -> bool:
    """Whether clients can call a tool so."""
    return bool(_NAME.fullmatch(name))


def check_name(name: str) -> None:
    """A `ConfigError` if it is none."""
    if not isinstance(name, str) or not is_name(name):
        raise ConfigError(
            f"{name!r} is no name for a tool.", hint="Use up to 128 letters, digits, '_', '-' and '.': give name=."
        )


def _check_url(url: str) -> None:
    from urllib.parse import urlsplit  # few sandboxes need it

    try:
        parts = urlsplit(url)
    except ValueError:  # brackets without an address in them
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is no URL of a server.", hint="Give http:// or https://, or a list of words.")


def _check_terms(consent: str, timeout: float, max_output: int) -> None:
    if consent not in ("allowed", "ask"):
        raise ConfigError(f"consent={consent!r} is unknown.", hint="Give 'allowed' or 'ask'.")
    if type(timeout) not in (int, float) or not 0 < timeout < float("inf"):
        raise ConfigError(f"timeout={timeout!r} is not a time.", hint="Give seconds above 0.")
    if type(max_output) is not int or max_output < 1:
        raise ConfigError(f"max_output={max_output!r} is not a number of bytes.", hint="Give 1 or more.")


def _of_host(host: str) -> str:
    """A word for a host: the first of its name, or its whole address."""
    from ipaddress import ip_address

    try:
        return "localhost" if ip_address(host).is_loopback else host
    except ValueError:
        return host.split(".")[0]


def _derived(server: Sequence[str] | str) -> str:
    if isinstance(server, str):
        from urllib.parse import urlsplit

        word = _of_host(urlsplit(server).hostname or "")
    else:
        script = next((word for word in server[1:] if word.endswith(_SCRIPTS)), server[0])
        word = os.path.basename(script).split(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]+|_{2,}", "_", word).strip("_-")[:32]
