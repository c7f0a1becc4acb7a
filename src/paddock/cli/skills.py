"""`paddock skills`: what agents can be taught, and whether it is as they need it."""

import os
from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, show_json
from paddock.cli.showing import table
from paddock.errors import ConfigError, visible
from paddock.skills import Skill, load_skill, load_skills
from paddock.skills.skill import FILES

skills = typer.Typer(rich_markup_mode=None)
_WIDEST = 80
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@skills.callback()
def _default() -> None:
    """Check skills by the agentskills specification, and list them.

    \b
      paddock skills check ./skills
      paddock skills list ./skills --json
    """


@skills.command("list")
def list_(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="A folder with skills in it.")] = Path("skills"),
    as_json: Json = False,
) -> None:
    """List the skills in a folder, as an agent is told of them: DIR/NAME/SKILL.md each."""
    with errors_told(as_json):
        found = load_skills(directory)
        if as_json:
            show_json({"skills": [skill.to_dict() for skill in found]})
            return
        if not found:
            typer.echo(f"There are no skills in {visible(str(directory))}: no folder in it with a SKILL.md.", err=True)
            return
        for line in table([("NAME", "DESCRIPTION"), *((visible(one.name), _short(one)) for one in found)]):
            typer.echo(line)


@skills.command()
def check(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Skills, or folders of them.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Check each skill, and say file, line and key of what is wrong. The exit code is 1 if something is."""
    with errors_told(as_json):
        found = {path: _wrong(path) for directory in directories for path in folders(directory)}
        if as_json:
            show_json({"skills": [{"path": path, "error": error} for path, error in found.items()]})
        for path, error in () if as_json else found.items():
            typer.echo(f"{visible(path)}: {visible(error) if error else 'ok'}")
        if any(found.values()):
            raise typer.Exit(1)


def folders(directory: Path) -> list[str]:
    """The skill that it is, or those in it."""
    try:
        inner = sorted(path for path in directory.iterdir() if path.is_dir() and path.name[0] != ".")
    except OSError as error:
        raise ConfigError(
            f"'{visible(str(directory))}' cannot be read: {error.strerror}.", hint="Name a folder."
        ) from None
    is_one = any(os.path.lexists(directory / name) for name in FILES)
    return [str(directory)] if is_one or not inner else [str(path) for path in inner]


def _wrong(path: str) -> str | None:
    try:
        load_skill(path)
    except ConfigError as error:
        return str(error)
    return None


def _short(skill: Skill) -> str:
    words = visible(" ".join(skill.description.split()))
    return words if len(words) <= _WIDEST else f"{words[: _WIDEST - 1]}…"
