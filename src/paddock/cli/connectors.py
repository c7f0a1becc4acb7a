"""`paddock connectors`: the ways to models that are configured, and whether they work."""

from typing import Annotated

import typer

from paddock.cli.ending import errors_told, show_json, wait_for
from paddock.cli.showing import table
from paddock.errors import SandboxError, visible
from paddock.gateway import configured, extra
from paddock.gateway.connectors import Connector

connectors = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
_HOW_TO_ADD = "There are no connectors. Add [connectors.NAME] to your paddock.toml: `paddock config` says where it is."
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@connectors.callback()
def _default(context: typer.Context) -> None:
    """List and check the connectors of your configuration: [connectors.NAME] in your own paddock.toml.

    \b
      paddock connectors
      paddock connectors check
      paddock run --connector claude -- claude -p 'fix the tests'
    """
    if context.invoked_subcommand is None:
        list_()


@connectors.command("list")
def list_(as_json: Json = False) -> None:
    """List them. Keys are not looked up."""
    with errors_told(as_json):
        found = configured.connectors()
        if as_json:
            show_json({"connectors": [connector.to_dict() for connector in found.values()]})
            return
        if not found:
            typer.echo(_HOW_TO_ADD, err=True)
            return
        rows = [("NAME", "PROVIDER", "MODEL", "ADDRESS", "KEY")]
        for one in found.values():
            key = "a function" if callable(one.key) else one.key or "none"
            rows.append((one.name, one.kind.name, visible(one.model or "any"), one.base_url, key))
        for line in table(rows):
            typer.echo(line)


@connectors.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Which; all if none is named.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model to ask, instead of the connector's own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask each model for a word, as a sandbox would through the gateway, and say what is wrong where it does not answer.

    This costs a few tokens. The exit code is 1 if one of them does not work, or if there is none.
    """
    with errors_told(as_json):
        extra.need()
        known = configured.connectors()
        chosen = [configured.find(name, known) for name in names] if names else list(known.values())
        found = {one.name: wait_for(_tried(one, model)) for one in chosen}
        if as_json:
            show_json({"connectors": [{"name": name, "error": error} for name, error in found.items()]})
        for name, error in () if as_json else found.items():
            typer.echo(f"{name}: {'ok' if error is None else visible(error)}")
        if not chosen and not as_json:
            typer.echo(_HOW_TO_ADD, err=True)
        if not chosen or any(found.values()):
            raise typer.Exit(1)


async def _tried(connector: Connector, model: str | None) -> str | None:
    """What is wrong with it, if anything."""
    from paddock.gateway.checking import ask_for_a_word

    try:
        await ask_for_a_word(connector, model)
    except SandboxError as error:
        return f"{error.message} {error.hint or ''}".strip()
    return None
