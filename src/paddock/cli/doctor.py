"""`paddock doctor`: what this host can and cannot do, tried out, and how to fix it."""

import sys
from typing import Annotated

import typer

from paddock.cli.checks import Check, checks
from paddock.cli.ending import errors_told, show_json
from paddock.errors import visible

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Try out what this host can do, and say how to get what is missing.

    The exit code is 1 if something that is needed does not work. A warning is about something that is optional, or that only
    some backends need.

    \b
      paddock doctor
      paddock doctor --json
    """
    with errors_told(as_json):
        found = checks()
        if as_json:
            show_json({"ok": not _failed(found), "checks": [check.to_dict() for check in found]})
        elif sys.stdout is not None and sys.stdout.isatty():
            _show_table(found)
        else:
            _show_lines(found)
        raise typer.Exit(1 if _failed(found) else 0)


def _failed(found: list[Check]) -> bool:
    return any(check.status == "fail" for check in found)


def _show_table(found: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "check", "found", "what to do", box=None, pad_edge=False)
    for check in found:
        style = _STYLES[check.status]
        table.add_row(
            Text(check.status, style), Text(visible(check.name)), Text(visible(check.found)), Text(visible(check.fix))
        )
    Console(highlight=False).print(table)


def _show_lines(found: list[Check]) -> None:
    for check in found:
        typer.echo(visible(f"{check.status:<5} {check.name}: {check.found}"))
        if check.fix:
            typer.echo(visible(f"      {check.fix}"))
