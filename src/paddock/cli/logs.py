"""`paddock logs`: what the audit log says, for people or for programs."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from paddock import records
from paddock.audit.reading import LogReader, event
from paddock.cli.ending import errors_told
from paddock.config import setting
from paddock.errors import ConfigError, UnavailableError, visible
from paddock.types import Event
from paddock.types.events import EventKind

if TYPE_CHECKING:
    from rich.text import Text

_KINDS = get_args(EventKind)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events are wanted."""

    sandbox: str | None
    operation: str | None
    kind: str | None
    denied: bool
    failed: bool

    def takes(self, found: Event) -> bool:
        """Whether this is one of them."""
        return (
            self.sandbox in (None, found.sandbox)
            and self.operation in (None, found.operation)
            and self.kind in (None, found.kind)
            and (found.denied or not self.denied)
            and (found.outcome != "ok" or not self.failed)
        )


def logs(
    sandbox: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this sandbox; by its name, if it is detached and runs.")
    ] = None,
    operation: Annotated[str | None, typer.Option(metavar="NAME", help="Only this call, such as write.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help=f"Only this kind: {', '.join(_KINDS)}.")] = None,
    denied: Annotated[bool, typer.Option("--denied", help="Only what a rule refused.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only what did not end well.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="At most this many, the last ones.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines of the log as they are.")] = False,
) -> None:
    """Show what sandboxes did.

    There is a line for each event of the audit log, with the local time.

    \b
      paddock logs -n 20
      paddock logs --denied --sandbox sb-0a1b2c3d4e5f
      paddock logs --follow --kind command
      paddock logs --json --failed -n 1000
    """
    with errors_told(as_json):
        if kind is not None and kind not in _KINDS:
            raise ConfigError(f"--kind={kind!r} is not a kind of event.", hint=f"Known: {', '.join(_KINDS)}.")
        _show(_log_path(), Filter(_id(sandbox), operation, kind, denied, failed), lines, follow, _printer(as_json))


Printer = Callable[[bytes, Event], None]


def _show(path: Path, wanted: Filter, count: int, follow: bool, show: Printer) -> None:
    if not path.exists():
        typer.echo(f"There is no audit log yet at {visible(str(path))}.", err=True)
    try:
        with closing(LogReader(path)) as log:
            last = list(islice(_chosen(log.before(), wanted), count))
            for line, found in reversed(last):
                show(line, found)
            if count and not last and not follow and path.exists():
                typer.echo("nothing was found", err=True)
            for line, found in _chosen(log.after(), wanted) if follow else ():
                show(line, found)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UnavailableError(
            f"The audit log cannot be read: {error.strerror}.", hint="Check the permissions of the file."
        ) from None
    except KeyboardInterrupt:
        if not follow:
            raise


def _chosen(lines: Iterable[bytes], wanted: Filter) -> "Iterable[tuple[bytes, Event]]":
    for line in lines:
        found = event(line)
        if found is not None and wanted.takes(found):
            yield line, found


def _id(sandbox: str | None) -> str | None:
    """The id of a sandbox that is given by id or name: the log knows no names."""
    known = {} if sandbox is None else {record.info.name: record.info.id for record in records.living()}
    return known.get(sandbox, sandbox)


def _log_path() -> Path:
    chosen = setting("audit")
    if chosen.value == "off":
        raise UnavailableError(
            f"The audit log is off, by {chosen.source}.", hint="Set the setting `audit` to an absolute path."
        )
    return Path(chosen.value)


def _printer(as_json: bool) -> Printer:
    if as_json:
        return lambda line, _: typer.echo(line)
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    return lambda _, found: console.print(_words(found))


def _words(found: Event) -> "Text":
    from rich.text import Text

    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.time))
    subject = " → ".join(visible(text) for text in (found.subject, found.target) if text)
    outcome = "red" if found.denied else "" if found.outcome == "ok" else "yellow"
    return Text("  ").join(
        [
            Text(when, "dim"),
            Text(f"{visible(found.sandbox):<15}"),
            Text(f"{visible(found.kind):<8}"),
            Text(f"{visible(found.operation):<11}", "bold"),
            Text(visible(found.outcome), outcome),
            Text(" ".join(part for part in (subject, *_amounts(found)) if part)),
        ]
    )


def _amounts(found: Event) -> list[str]:
    size = [] if found.size is None else [f"{found.size} bytes"]
    count = [] if found.count is None else [f"{found.count} items"]
    return [f"({', '.join([*size, *count, f'{found.duration * 1000:.1f} ms'])})"]
