"""`paddock ps`: the detached sandboxes that run."""

import json
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.cli.order import Labels, labels
from paddock.errors import visible
from paddock.sandbox import Sandbox
from paddock.types import SandboxInfo

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def ps(
    label: Labels = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but ids.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each, on a line.")] = False,
) -> None:
    """List the detached sandboxes that run, the oldest first.

    They are made by `paddock run --detach`, or in Python. What those left that have ended is removed on the way.

    \b
      paddock ps
      paddock ps --label team=blue
      paddock rm $(paddock ps -q --label team=blue)
    """
    with errors_told(as_json):
        found = wait_for(Sandbox.find(labels=labels(label)))
        if as_json:
            for info in found:
                typer.echo(json.dumps(info.to_dict()))
        elif quiet:
            for info in found:
                typer.echo(info.id)
        else:
            _show(found)


def _show(found: Sequence[SandboxInfo]) -> None:
    rows = [("ID", "NAME", "BACKEND", "AGE", "ENDS", "LABELS"), *map(_row, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        typer.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _row(info: SandboxInfo) -> tuple[str, ...]:
    marks = ", ".join(f"{visible(name)}={visible(value)}" for name, value in sorted(info.labels.items()))
    age = _span(time.time() - info.created)
    return info.id, visible(info.name or "-"), visible(info.backend), age, _ends(info), marks or "-"


def _ends(info: SandboxInfo) -> str:
    """When it ends by itself."""
    words = []
    if info.lifetime is not None:
        words.append(f"in {_span(info.created + info.lifetime - time.time())}")
    if info.idle_timeout is not None:
        words.append(f"idle {_span(info.idle_timeout)}")
    return ", ".join(words) or "-"


def _span(seconds: float) -> str:
    """A time with its one or two largest units."""
    left = max(int(seconds), 0)
    words: list[str] = []
    for size, unit in _UNITS:
        if left >= size or (unit == "s" and not words):
            words.append(f"{left // size}{unit}")
            left %= size
    return " ".join(words[:2])
