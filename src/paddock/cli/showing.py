"""How commands show things: tables, spans of time, sizes; once, or again and again."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated

import typer

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"

_LEAST, _MOST = 0.1, 86400


def _interval(seconds: float | None) -> float | None:
    if seconds is not None and not _LEAST <= seconds <= _MOST:  # which `nan` is not either
        raise typer.BadParameter(f"{seconds:g} is not between {_LEAST} and {_MOST} seconds.")
    return seconds


Watch = Annotated[
    float | None,
    typer.Option("--watch", metavar="SECONDS", callback=_interval, help="Show it again so often, until Ctrl-C."),
]


def watched(lines: Callable[[], Iterable[str]], every: float | None) -> None:
    """Show the lines; with `every`, again after so many seconds, on a cleared screen if it is one, until Ctrl-C."""
    clear = every is not None and sys.stdout is not None and sys.stdout.isatty()
    try:
        while True:
            text = "".join(f"{line}\n" for line in lines())
            typer.echo((_CLEAR if clear else "") + text, nl=False)
            if every is None:
                return
            time.sleep(every)
    except KeyboardInterrupt:
        if every is None:
            raise


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows in columns, the first of them the heading. What is in the cells has to be harmless already."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def span(seconds: float) -> str:
    """A time with its one or two largest units."""
    left = max(int(seconds), 0)
    words: list[str] = []
    for size, unit in _UNITS:
        if left >= size or (unit == "s" and not words):
            words.append(f"{left // size}{unit}")
            left %= size
    return " ".join(words[:2])


def size(count: int | None) -> str:
    """Bytes with a unit."""
    if count is None:
        return "-"
    number, units = float(count), "BKMGT"
    while number >= 1024 and len(units) > 1:
        number, units = number / 1024, units[1:]
    return f"{count}B" if units[0] == "B" else f"{number:.1f}{units[0]}"
