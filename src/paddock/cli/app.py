"""The `paddock` program: its commands, each from a module of its own."""

import typer

from paddock import __version__
from paddock.cli.attach import attach
from paddock.cli.clean import clean
from paddock.cli.config import config
from paddock.cli.cp import cp
from paddock.cli.demo import demo
from paddock.cli.doctor import doctor
from paddock.cli.exec import execute
from paddock.cli.git import git
from paddock.cli.granting import tools
from paddock.cli.logs import logs
from paddock.cli.ps import ps
from paddock.cli.review import review
from paddock.cli.rm import rm
from paddock.cli.run import run
from paddock.cli.shell import shell
from paddock.cli.snapshots import snapshots
from paddock.cli.stats import stats
from paddock.cli.workspaces import workspaces

app = typer.Typer(
    help="A place for coding agents to work: isolated, fast and reviewable.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # boxes are in the way of reading, and of grep
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
_COMMAND_LAST = {"allow_interspersed_args": False}  # what follows the first word is the command's own, options too
app.command(context_settings=_COMMAND_LAST)(run)
app.command(context_settings=_COMMAND_LAST)(shell)
app.command()(ps)
app.command("exec", context_settings=_COMMAND_LAST)(execute)
app.command()(attach)
app.command()(cp)
app.command()(rm)
app.command()(clean)
app.add_typer(workspaces, name="workspaces")
app.add_typer(review, name="review")
app.add_typer(git, name="git")
app.add_typer(snapshots, name="snapshots")
app.command()(tools)
app.command()(stats)
app.command()(logs)
app.command()(doctor)
app.command()(config)
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
