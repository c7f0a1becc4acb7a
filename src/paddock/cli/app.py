"""The `paddock` program: its commands, each from a module of its own that is loaded when it is asked for."""

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from paddock import __version__


class _Command(NamedTuple):
    """Where a command is, and how it is called."""

    place: str
    group: bool = False
    """Whether it has commands of its own."""
    command_last: bool = False
    """What follows the first word is another command's own, options too."""

    def add_to(self, app: typer.Typer, name: str) -> None:
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(f"paddock.cli.{module}"), attribute)
        if self.group:
            app.add_typer(found, name=name)
        else:
            settings = {"allow_interspersed_args": False} if self.command_last else None
            app.command(name, context_settings=settings)(found)


_SECTIONS: dict[str, dict[str, _Command]] = {
    "Work in a sandbox": {
        "run": _Command("run:run", command_last=True),
        "shell": _Command("shell:shell", command_last=True),
        "agent": _Command("agent:agent"),
        "assistant": _Command("assistant:assistant", group=True),
        "mcp": _Command("mcp:mcp"),
    },
    "What becomes of the work": {
        "review": _Command("review:review", group=True),
        "git": _Command("git:git", group=True),
        "snapshots": _Command("snapshots:snapshots", group=True),
    },
    "Sandboxes that run on": {
        "ps": _Command("ps:ps"),
        "exec": _Command("exec:execute", command_last=True),
        "attach": _Command("attach:attach"),
        "cp": _Command("cp:cp"),
        "expose": _Command("expose:expose"),
        "rm": _Command("rm:rm"),
    },
    "Sandboxes for many users": {
        "stats": _Command("stats:stats"),
        "workspaces": _Command("workspaces:workspaces", group=True),
        "clean": _Command("clean:clean"),
    },
    "What there is, and what happened": {
        "agents": _Command("agents:agents"),
        "connectors": _Command("connectors:connectors", group=True),
        "usage": _Command("usage:usage"),
        "skills": _Command("skills:skills", group=True),
        "tools": _Command("granting:tools"),
        "logs": _Command("logs:logs"),
        "config": _Command("config:config"),
        "doctor": _Command("doctor:doctor"),
        "demo": _Command("demo:demo"),
    },
}
_COMMANDS = {name: command for commands in _SECTIONS.values() for name, command in commands.items()}
_LONGEST = 200


class _InSections(TyperGroup):
    """The commands by what they are for, each with the whole of its first sentence."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in _COMMANDS if name in self.commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for title, commands in _SECTIONS.items():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(_LONGEST))
                for name in commands
                if name in self.commands
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def program(word: str | None = None) -> typer.Typer:
    """The program, or as much of it as is needed for one that begins with this word."""
    app = typer.Typer(
        cls=_InSections,
        help="A place for coding agents to work: isolated, fast and reviewable.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # boxes are in the way of reading, and of grep
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_options)
    for name in [word] if word in _COMMANDS else _COMMANDS:
        _COMMANDS[name].add_to(app, name)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"paddock {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", help="Show the version and end.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Options of the program itself."""
