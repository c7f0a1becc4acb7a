"""`paddock doctor`: what this host can and cannot do, tried out, and how to fix it."""

import sys
from typing import Annotated

import typer

from paddock.cli.checks import Check, all_checks
from paddock.cli.ending import errors_told, show_json
from paddock.errors import visible

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Try out what this host can do, and say how to get what is missing.

    Nothing is guessed: every line is about something that was just done. Directories are made, user namespaces entered, the
    filters loaded, cgroups made and removed, and in the end a whole sandbox on every backend, with the time it took.

    \b
      ok      it works
      warn    it does not, and you can do without; the last column says what for
      fail    it does not, and the default backend needs it; the exit code is 1

    The default backend is the one of the setting `backend`, or `namespaces` on Linux. What is wrong with it is also what an
    error of Sandbox.create() says; this shows all of it at once.

    \b
      paddock doctor
      paddock doctor --json
    """
    with errors_told(as_json):
        found = all_checks()
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
