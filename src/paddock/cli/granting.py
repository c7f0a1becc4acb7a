"""What `--tool` and `--mcp` name, and `paddock tools`, which shows it."""

import inspect
import json
import re
import shlex
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import typer

from paddock.bridge import Grant, McpServer, Tool, sdk
from paddock.bridge.files import places, run_by
from paddock.cli import stdout
from paddock.cli.ending import errors_told, say, show_json, wait_for
from paddock.cli.schemas import in_words
from paddock.errors import ConfigError, visible
from paddock.loading import load
from paddock.paths import within

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")

Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tool",
        metavar="FILE:NAME",
        help="Let it use this Python function, Tool or McpServer of yours, such as ./tools.py:echo.",
    ),
]
Servers = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp", metavar="[NAME=]SERVER", help="And the tools of this MCP server: a command that is run here, or a URL."
    ),
]


def tools(
    tool: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE:NAME",
            help="Python functions, Tools or McpServers, such as ./tools.py:echo.",
            show_default=False,
        ),
    ] = None,
    mcp: Servers = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what `run --tool` and `run --mcp` would grant.

    Functions are loaded, and servers started or connected to, as they would be; no sandbox is made and nothing is called.

    \b
      paddock tools ./tools.py:echo
      paddock tools --mcp 'python3 server.py' --mcp search=https://mcp.example.org/mcp --json
    """
    with errors_told(as_json):
        given = granted(tool, mcp)
        if not given:
            raise typer.BadParameter("name a function, or give --mcp.", param_hint="FILE:NAME")
        sdk.need()
        from paddock.bridge.bridge import preview

        found = wait_for(preview(given))
        if as_json:
            show_json({"tools": [grant.to_dict() for grant in found]})
        for grant in () if as_json else found:
            _show(grant)


def granted(
    tools: list[str] | None, servers: list[str] | None, written: Collection[str] = ()
) -> list[Tool | McpServer]:
    """What the options name. Nothing is loaded or started from host directories that the sandbox writes to."""
    for text in tools or ():
        _refuse_within(written, places(_split(text)[0]))
    if tools:
        stdout.lend()
    found = [*map(_tool, tools or ()), *map(_server, servers or ())]
    for one in found:
        _refuse_within(written, run_by(one))
    return found


def _refuse_within(written: Collection[str], files: Iterable[str]) -> None:
    for file in sorted(files):
        if any(within(file, directory) for directory in written):
            raise ConfigError(
                f"'{visible(file)}' runs on this host, and lies in a directory that the sandbox writes to.",
                hint="What is inside could change it, and you would run that the next time. Keep it elsewhere, "
                "mount its directory read-only, or use --review.",
            )


def _split(text: str) -> tuple[str, str]:
    file, _, name = text.rpartition(":")
    if not file or not name.isidentifier():
        raise ConfigError(f"{text!r} is not FILE:NAME.", hint="Such as ./tools.py:echo.")
    return file, name


def _tool(text: str) -> Tool | McpServer:
    file, name = _split(text)
    found = getattr(load(Path(file)), name, None)
    if isinstance(found, (Tool, McpServer)):
        return found
    if not callable(found) or inspect.isclass(found):
        raise ConfigError(
            f"{file!r} has no function {name!r}.", hint="Name one that it defines, or a Tool(…) or McpServer(…)."
        )
    return Tool(found, name=name)


def _server(text: str) -> McpServer:
    """A name, if it has one, then a URL, or a command with its environment before it, as for a shell."""
    name, is_named, rest = text.partition("=")
    if not is_named or not name.replace("-", "_").isidentifier() or _is_variable(name, rest):
        name, rest = "", text
    if _URL.match(rest):
        return McpServer(rest, name=name or None)
    try:
        words = shlex.split(rest)
    except ValueError:
        words = []
    env = {}
    while words and (setting := _VARIABLE.match(words[0])):
        env[setting[1]] = words.pop(0)[setting.end() :]
    if not words:
        raise ConfigError(f"--mcp={text!r} is no server.", hint="Such as 'python3 server.py', or a URL.")
    return McpServer(words, name=name or None, env=env)


def _is_variable(name: str, rest: str) -> bool:
    """Whether what stands before the first `=` is a variable of the command, and not the server's name."""
    return name.isupper() and not _URL.match(rest)


def _show(grant: Grant) -> None:
    required = grant.schema.get("required", ())
    say(visible(grant.name))
    for line in grant.description.splitlines():
        say(f"  {visible(line)}")
    for name, told in grant.schema.get("properties", {}).items():
        kind = in_words(told, grant.schema.get("$defs", {}))
        default = f", {json.dumps(told['default'])} unless given" if "default" in told else ", optional"
        say(visible(f"  - {name}: {kind}{'' if name in required else default}"))
