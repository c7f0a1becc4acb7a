"""`paddock cp`: files to and from a detached sandbox."""

import os
import re
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.errors import ConfigError, NotFoundError, visible
from paddock.sandbox import Sandbox

_INSIDE = re.compile(r"([A-Za-z0-9_-]+):(.+)", re.DOTALL)


def cp(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A path here, or SANDBOX:PATH.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The other of the two.", show_default=False)],
) -> None:
    """Copy a file or a directory to a detached sandbox, or from it.

    One of the two is SANDBOX:PATH, with the name or id of the sandbox and a path that is absolute or starts at its working
    directory. What is copied goes into a directory that is there, else it gets that name. Directories above a path here are
    not made. A path here with a colon needs a slash before that, such as ./a:b.

    \b
      paddock cp ./app web:/workspace
      paddock cp web:report.md .
    """
    with errors_told():
        into, out_of = _inside(target), _inside(source)
        if (into is None) == (out_of is None):
            raise ConfigError(
                "One of the two is SANDBOX:PATH, and the other a path here.", hint="Such as f.txt web:f.txt."
            )
        if into is not None:
            wait_for(_upload(source, *into))
        elif out_of is not None:
            wait_for(_download(*out_of, target))


def _inside(text: str) -> tuple[str, str] | None:
    match = _INSIDE.fullmatch(text)
    return None if match is None else (match[1], match[2])


async def _upload(source: str, name: str, path: str) -> None:
    if not os.path.lexists(source):
        raise NotFoundError(f"There is no '{visible(source)}' here.", hint="Check the path.")
    async with Sandbox.connect(name) as sb:
        if await sb.exists(path) and (await sb.stat(path)).is_dir:
            path = os.path.join(path, os.path.basename(os.path.normpath(os.path.abspath(source))))
        await sb.upload(source, path)


async def _download(name: str, path: str, target: str) -> None:
    directory = target.rstrip("/") or "/" if target.endswith("/") else os.path.dirname(target) or "."
    if not os.path.isdir(directory):
        raise NotFoundError(f"There is no directory '{visible(directory)}'.", hint="Make it first.")
    async with Sandbox.connect(name) as sb:
        if os.path.isdir(target):
            target = os.path.join(target, os.path.basename(os.path.normpath(os.path.join(sb.workdir, path))))
        await sb.download(path, target)
