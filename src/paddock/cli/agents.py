"""`paddock agents`: which agents there are, which of them this host has, and how to get the others."""

import re
import sys
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, show_json, wait_for
from paddock.cli.showing import table
from paddock.cli.ways import how_to_use
from paddock.cli.wording import for_a_shell
from paddock.errors import visible
from paddock.runners import agents as names
from paddock.runners.agent import Agent
from paddock.runners.keys import lacks_models
from paddock.runners.programs import Program
from paddock.runners.registry import load
from paddock.runners.scripted.play import WORDS
from paddock.runners.versions import with_versions

_HEADING = ("NAME", "AGENT", "FOUND", "VERSION", "WHERE, OR HOW TO GET IT")


def agents(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="All about this one.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the agents that Paddock can run, and whether this host has them.

    They are looked for on the PATH, and in a `node_modules` of this directory or one above. A program that does not lie
    beside its version is asked for it, for five seconds, in a sandbox that sees nothing else; outside nothing is run. One
    that is not here can also be in the image of a container: `paddock agent NAME --image IMAGE`.

    \b
      paddock agents
      paddock agents claude
      paddock agents --json
    """
    with errors_told(as_json):
        if name is not None:
            _show_one(load(name), as_json)
            return
        every = [load(one) for one in names()]
        found = list(zip(every, _found(every), strict=True))
        if as_json:
            show_json({"agents": [_told(agent, program) for agent, program in found]})
            return
        _show([_row(agent, program) for agent, program in found])
        words = how_to_use()
        if words is not None:
            typer.echo(f"\n{visible(words)}", err=True)


def _found(wanted: list[Agent]) -> list[Program | None]:
    return wait_for(with_versions(agent.find() for agent in wanted))


def _row(agent: Agent, program: Program | None) -> tuple[str, ...]:
    if program is None:
        return (agent.name, agent.title, "no", "-", for_a_shell(agent.install))
    return (agent.name, agent.title, "yes", _version(program), visible(program.found or "-"))


def _version(program: Program) -> str:
    """Without the platform, which packages of a platform's own have behind it."""
    return visible(re.sub(r"-(linux|darwin|win32)-\w+$", "", program.version or "-"))


def _models(agent: Agent) -> str:
    if not agent.needs_models:
        return "none of Paddock's"
    return "by a connector: `paddock connectors`" if lacks_models(agent) else "its own, or by --connector"


def _show(rows: list[tuple[str, ...]]) -> None:
    if sys.stdout is None or not sys.stdout.isatty():
        for line in table([_HEADING, *rows]):
            typer.echo(line)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(*(word.lower() for word in _HEADING), box=None, pad_edge=False)
    for name, title, found, version, where in rows:
        style = "green" if found == "yes" else "yellow"
        shown.add_row(Text(name, "bold"), title, Text(found, style), Text(version), Text(where))
    Console(highlight=False).print(shown)


def _told(agent: Agent, program: Program | None) -> dict[str, object]:
    return {
        "name": agent.name,
        "title": agent.title,
        "found": program is not None,
        "version": program and program.version,
        "path": program and program.found,
        "install": agent.install,
        "needs_models": agent.needs_models,
        "skills": agent.skills,
    }


def _show_one(agent: Agent, as_json: bool) -> None:
    (program,) = _found([agent])
    if as_json:
        mounts = [] if program is None else [mount.to_dict() for mount in program.mounts]
        show_json(
            {**_told(agent, program), "command": list(program.argv if program else agent.command), "mounts": mounts}
        )
        return
    lines = {
        "agent": agent.title,
        "found": "no" if program is None else program.found or "yes",
        "version": "-" if program is None else _version(program),
        "command inside": " ".join(program.argv if program else agent.command),
        "get it": for_a_shell(agent.install),
        "models": _models(agent),
        "skills": f"~/{agent.skills}" if agent.skills else "none",
    }
    if agent.name == "scripted":
        lines["its words"] = ", ".join(WORDS)
    for what, words in lines.items():
        typer.echo(visible(f"{what:<15} {words}"))
