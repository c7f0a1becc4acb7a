"""What `--tool` and `--mcp` name, and `paddock tools`, which shows it."""

import inspect
import shlex
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from paddock.bridge import Grant, Grantable, McpServer, Tool, sdk
from paddock.cli.ending import errors_told, show_json, wait_for
from paddock.errors import ConfigError, visible

Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tool", metavar="FILE:NAME", help="Let it use this Python function of yours, such as ./tools.py:echo."
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
        typer.Argument(metavar="FILE:NAME", help="Python functions, such as ./tools.py:echo.", show_default=False),
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
        from paddock.bridge.grants import as_grantable

        found = wait_for(preview([as_grantable(one) for one in given]))
        if as_json:
            show_json({"tools": [grant.to_dict() for grant in found]})
        for grant in () if as_json else found:
            _show(grant)


def granted(tools: list[str] | None, servers: list[str] | None) -> list[Grantable]:
    """What the options name."""
    return [*(_function(text) for text in tools or ()), *(_server(text) for text in servers or ())]


def _function(text: str) -> Tool:
    file, _, name = text.rpartition(":")
    if not file or not name.isidentifier():
        raise ConfigError(f"--tool={text!r} is no function.", hint="Such as ./tools.py:echo.")
    found = getattr(_module(Path(file)), name, None)
    if not callable(found) or inspect.isclass(found):
        raise ConfigError(f"{file!r} has no function {name!r}.", hint="Name one that it defines.")
    return Tool(found, name=name)


def _module(path: Path) -> ModuleType:
    """A file of the user's own, run as Python would import it."""
    path = path.resolve()
    name = f"_paddock_tools_{path.stem}"
    spec = spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"'{visible(str(path))}' is no Python file.", hint="Give its path, such as ./tools.py:echo.")
    if name in sys.modules and sys.modules[name].__file__ == str(path):
        return sys.modules[name]
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # what it imports from beside itself
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(
            f"'{visible(str(path))}' cannot be loaded: {type(error).__name__}: {error}.", hint="Run it by itself."
        ) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _server(text: str) -> McpServer:
    name, is_named, rest = text.partition("=")
    if not is_named or not name.replace("-", "_").isidentifier():
        name, rest = "", text
    if rest.startswith(("http://", "https://")):
        return McpServer(rest, name=name or None)
    try:
        words = shlex.split(rest)
    except ValueError:
        words = []
    if not words:
        raise ConfigError(f"--mcp={text!r} is no server.", hint="Such as 'python3 server.py', or a URL.")
    return McpServer(words, name=name or None)


def _show(grant: Grant) -> None:
    required = grant.schema.get("required", ())
    typer.echo(visible(grant.name))
    for line in grant.description.splitlines():
        typer.echo(f"  {visible(line)}")
    for name, told in grant.schema.get("properties", {}).items():
        kind = told.get("type", "any") if isinstance(told, dict) else "any"
        typer.echo(f"  - {visible(name)}: {visible(str(kind))}{'' if name in required else ', optional'}")
