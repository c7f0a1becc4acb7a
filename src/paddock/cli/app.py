"""The `paddock` program: its commands, each from a module of its own."""

import typer

from paddock import __version__
from paddock.cli.demo import demo

app = typer.Typer(
    help="A place for coding agents to work: isolated, fast and reviewable.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"paddock {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", help="Show the version and end.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Options of the program itself."""
