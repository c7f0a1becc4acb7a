"""`paddock config`: every setting, its value, and what set it."""

import os
from dataclasses import replace
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, show_json
from paddock.config import DEFAULT, OPTIONS, Setting, files, settings
from paddock.errors import visible


def config(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show every setting, its value, and where it came from.

    A variable beats the paddock.toml of the current directory, that beats your own file, and that beats the default. Options
    and arguments beat all of them.

    \b
      paddock config
      paddock config --json
    """
    with errors_told(as_json):
        found = [_named(one) for one in settings()]
        looked_at = [(os.path.abspath(file.path) if file.path else "", file.exists) for file in files()]
        if as_json:
            show_json(
                {
                    "settings": [
                        one.to_dict() | {"variable": OPTIONS[one.name].variable, "meaning": OPTIONS[one.name].meaning}
                        for one in found
                    ],
                    "files": [{"path": path, "exists": exists} for path, exists in looked_at],
                }
            )
            return
        for one in found:
            value = "none" if one.value is None else str(one.value)
            source = f"default; {OPTIONS[one.name].variable}" if one.source == DEFAULT else one.source
            typer.echo(visible(f"{one.name:<24} {value}  ({source})"))
        typer.echo("\nfiles, the strongest first:")
        allowed = " and ".join(name for name, option in OPTIONS.items() if option.project is not None)
        whose = (f"this directory's: {allowed} only", "your own")
        for (path, exists), label in zip(looked_at, whose, strict=True):
            state = "read" if exists else "not there"
            typer.echo(visible(f"  {path or 'no home directory'}  ({label}; {state})"))


def _named(setting: Setting) -> Setting:
    """Of tables their names alone: somebody may have written a key into one."""
    return replace(setting, value=", ".join(setting.value) or None) if isinstance(setting.value, dict) else setting
