"""`paddock assistant`: agents that are folders. Made, checked, run once, and talked with."""

import json
import os
import pwd
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from paddock.cli import stdout
from paddock.cli.ending import errors_told, say, show_json, wait_for
from paddock.cli.showing import table
from paddock.errors import ConfigError, visible

if TYPE_CHECKING:
    from paddock.cli.chatting import Talk

assistant = typer.Typer(rich_markup_mode=None)
_WIDEST = 60

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of an assistant: it has an assistant.yml.", show_default=False)
]
Folders = Annotated[Path, typer.Argument(metavar="[DIR]", help="A folder of assistants.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
User = Annotated[str | None, typer.Option(metavar="NAME", help="For whom; you if it is not given.")]
Chat = Annotated[
    str, typer.Option(metavar="NAME", help="Which conversation. Its files are its own, and it goes on the next time.")
]
New = Annotated[bool, typer.Option("--new", help="Forget what was said in it before; files stay.")]
Variables = Annotated[list[str] | None, typer.Option("--var", metavar="NAME=VALUE", help="A variable of its prompts.")]
Attached = Annotated[list[Path] | None, typer.Option("--attach", metavar="FILE", help="Send this file along.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show what it says, and nothing else.")]


@assistant.callback()
def _default() -> None:
    """Agents for people who do not write code for each one: a folder says who works for whom, with what, and where.

    \b
      paddock assistant new ./editor
      paddock assistant check ./editor
      paddock assistant chat ./editor
    """


@assistant.command()
def new(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that is made.", show_default=False)],
    agent: Annotated[
        str, typer.Option(metavar="NAME", help="Which agent works for it; '' to ask a model directly.")
    ] = "claude",
) -> None:
    """Make a folder with an assistant in it, with a hook, a skill and a tool to change."""
    with errors_told():
        from paddock.assistants.making import new_folder

        made = new_folder(directory, agent)
        for path in sorted(path for path in made.rglob("*") if path.is_file()):
            say(visible(os.path.relpath(path)))
        typer.echo(f"\nChange them, then: paddock assistant chat {shlex.quote(visible(str(directory)))}", err=True)


@assistant.command()
def check(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Assistants, or folders of them.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Check assistants, and say file, line and key of what is wrong. Their Python files are run for that.

    What is not wrong, but is for nothing, or cannot be had on this host, is told on standard error. The exit code is 1 if
    something is wrong.
    """
    with errors_told(as_json):
        stdout.lend()
        found = [_checked(path) for directory in directories for path in _each(directory)]
        if as_json:
            show_json({"assistants": [one._asdict() for one in found]})
        for one in () if as_json else found:
            say(f"{visible(one.path)}: {visible(one.error) if one.error else 'ok'}")
            for remark in one.remarks:
                typer.echo(f"{visible(one.path)}: {visible(remark)}", err=True)
        if any(one.error for one in found):
            raise typer.Exit(1)


@assistant.command("list")
def list_(directory: Folders = Path("assistants"), as_json: Json = False) -> None:
    """List the assistants in a folder of them, with what is wrong about those that cannot be loaded.

    Their Python files are run for that.
    """
    with errors_told(as_json):
        stdout.lend()
        from paddock.assistants.assistant import folders

        found = [_told(path) for path in (_each(directory) if directory.is_dir() else folders(directory))]
        if as_json:
            show_json({"assistants": found})
            return
        rows = [
            (visible(one["name"]), one.get("agent") or "-", visible(one["error"] or "") or _short(one["description"]))
            for one in found
        ]
        for line in table([("NAME", "AGENT", "DESCRIPTION"), *rows]):
            say(line)


@assistant.command()
def schema(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="assistant, prompts or mcp.")] = "assistant",
) -> None:
    """Print the JSON schema of a file: assistant.yml, prompts.yml, or one in mcp/."""
    with errors_told():
        from paddock.assistants.schemas import SCHEMAS, published

        if name not in SCHEMAS:
            raise ConfigError(f"There is no schema {name!r}.", hint=f"Known: {', '.join(SCHEMAS)}.")
        say(json.dumps(published(name), indent=2))


@assistant.command()
def run(
    directory: Folder,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="What it is to do. `-`, or none in a pipe: standard input."),
    ] = None,
    user: User = None,
    chat: Chat = "cli",
    fresh: New = False,
    var: Variables = None,
    attach: Attached = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each event.")] = False,
    quiet: Quiet = False,
) -> None:
    """Give an assistant one message, and see what it does.

    The exit code is 0 when it is done, 1 when it failed, 130 after Ctrl-C, 125 for an error of Paddock's own.

    \b
      paddock assistant run ./editor 'shorten drafts/letter.md'
      paddock assistant run ./editor --attach letter.pdf 'what is wrong with this?'
      paddock assistant run ./editor --chat monday --json 'and now shorter'
    """
    with errors_told(as_json):
        from paddock.cli.agent import read_prompt
        from paddock.cli.chatting import once

        talk = _talk(directory, user, chat, var, quiet, as_json)
        raise typer.Exit(wait_for(once(talk, read_prompt(prompt), [*(attach or ())], fresh=fresh)))


@assistant.command("chat")
def chat_(
    directory: Folder,
    user: User = None,
    chat: Chat = "cli",
    fresh: New = False,
    var: Variables = None,
    quiet: Quiet = False,
) -> None:
    """Talk with an assistant. What it does is shown as it happens.

    Ctrl-C interrupts it, Ctrl-D ends the conversation. In a pipe each line of standard input is a message.

    \b
      /attach FILE   send a file along with the next message
      /files         list the files of this conversation
      /new           forget what was said; files stay
      /help, /exit
    """
    with errors_told():
        from paddock.cli.chatting import converse

        talk = _talk(directory, user, chat, var, quiet, as_json=False)
        raise typer.Exit(wait_for(converse(talk, fresh=fresh)))


def _talk(directory: Path, user: str | None, chat: str, var: list[str] | None, quiet: bool, as_json: bool) -> "Talk":
    from paddock.assistants import Assistant
    from paddock.cli.chatting import Talk

    stdout.lend()  # hooks and tools may print
    return Talk(Assistant.load(directory), user or _you(), chat, _variables(var), quiet, as_json)


def _variables(given: list[str] | None) -> dict[str, str]:
    found = [text.partition("=") for text in given or ()]
    for name, equals, _ in found:
        if not name or not equals:
            raise typer.BadParameter(f"{name!r} has no value: NAME=VALUE.", param_hint="--var")
    return {name: value for name, _, value in found}


def _you() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _each(directory: Path) -> list[Path]:
    """It itself, or those in it; other folders beside them are nobody's business."""
    from paddock.assistants.assistant import folders, is_assistant

    if is_assistant(directory) or not directory.is_dir():
        return [directory]
    return [path for path in folders(directory) if is_assistant(path)] or [directory]


def _told(path: Path) -> dict[str, Any]:
    from paddock.assistants import Assistant

    try:
        return {**Assistant.load(path).to_dict(), "error": None}
    except ConfigError as error:
        return {"name": path.name, "path": str(path), "error": str(error)}


class _Checked(NamedTuple):
    """What is to be said about one."""

    path: str
    error: str | None
    remarks: list[str]


def _checked(path: Path) -> _Checked:
    from paddock.assistants import Assistant
    from paddock.assistants.remarks import remarks

    try:
        return _Checked(str(path), None, list(remarks(Assistant.load(path))))
    except ConfigError as error:
        return _Checked(str(path), str(error), [])


def _short(text: str) -> str:
    words = visible(" ".join(text.split()))
    return words if len(words) <= _WIDEST else f"{words[: _WIDEST - 1]}…"
