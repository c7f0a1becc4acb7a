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
        typer.Option(help=f"Show only this backend ({', '.join(names(built=True))}); all of them by default."),
    ] = None,
) -> None:
    """Make a sandbox, work in it, try to break out of it, and show what it cost.

    Everything happens in private directories that are removed at the end; nothing of yours is touched.
    """
    from paddock.cli.tour import show

    with errors_told(), tempfile.TemporaryDirectory() as state:
        os.environ["PADDOCK_STATE"] = state
        show([backend] if backend else names(built=True))
