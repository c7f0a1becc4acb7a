"""`paddock demo`: the main job end to end, on this machine, with nothing to set up."""

import os
import tempfile
from typing import Annotated

import typer

from paddock.cli.ending import errors_told
from paddock.registry import names


def demo(
    backend: Annotated[
        str | None,
        typer.Option(help=f"Show this backend ({', '.join(names(built=True))}); by default the one that isolates."),
    ] = None,
) -> None:
    """Make a sandbox, work in it, try to break out of it, and show what it cost.

    It writes and searches files, runs commands, streams their output and ends those that take too long. Then a command tries
    to get out, in a dozen ways, and each refusal is shown in the words of whoever refused. Last, an agent works on a project
    that it cannot write to: the scripted one, which needs no model. What it did is shown, agreed to, applied, and pushed as a
    commit. It takes a few seconds.

    Everything happens in private directories that are removed at the end; nothing of yours is touched. Where this host cannot
    isolate, it says why and shows the rest without isolation.
    """
    from paddock.cli.tour import show, show_default

    with errors_told(), tempfile.TemporaryDirectory() as state:
        os.environ["PADDOCK_STATE"] = state
        if backend is None:
            show_default()
        else:
            show(backend)
