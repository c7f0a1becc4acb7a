"""Changes on a terminal: a summary in colours, a question, and what is done with the answer."""

import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence

import typer

from paddock.asking import answer as answer_at
from paddock.asking import forget_typed
from paddock.cli.ending import tell
from paddock.consent import begun_by, offer
from paddock.errors import ConflictError, visible
from paddock.paths import encode
from paddock.review import ChangeSet, summary
from paddock.review.summary import Line, Style
from paddock.types.review import Applied, Change

Look = Callable[[], Awaitable[ChangeSet]]
"""What changed by now."""

_STYLES: dict[Style, dict[str, object]] = {
    "plain": {},
    "heading": {"bold": True},
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "changed": {"fg": "yellow"},
    "faint": {"dim": True},
    "warning": {"fg": "red", "bold": True},
    "place": {},
}
_OVERWRITE = "[o]verwrite the host's, "
_QUESTION = "[a]pply all, [c]hoose, [s]how, [k]eep for later, [d]iscard? "


def show(lines: Iterable[Line], *, err: bool = True) -> None:
    """Lines with their colours, where there are any; standard output is the command's own, so by default not there."""
    for line in lines:
        typer.echo("".join(typer.style(span.text, **_STYLES[span.style]) for span in line), err=err)  # type: ignore[arg-type]


def is_interactive() -> bool:
    """Whether somebody is there to be asked."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


async def decide(look: Look, *, quiet: bool = False) -> None:
    """Show what changed and ask what becomes of it. Where nobody can be asked, it is kept."""
    changes = await look()
    if not changes:
        if not quiet:
            typer.echo("nothing was changed", err=True)
        return
    if is_interactive():
        await _ask_until_decided(changes, look)
    else:
        if not quiet:
            show(summary.lines(changes.changes))
        await keep(changes)


async def _ask_until_decided(changes: ChangeSet, look: Look) -> None:
    show(summary.lines(changes.changes))
    decided = False
    while not decided:
        answer = await asked(_OVERWRITE + _QUESTION if changes.conflicts else _QUESTION, default="k")
        if answer == "s":
            page(changes.changes)
        elif answer == "d":
            typer.echo("forgotten; the host's files are as they were", err=True)
            decided = True
        elif answer == "k":
            await keep(changes)
            decided = True
        elif answer in ("a", "o"):
            decided = await applied(changes, None, overwrite=answer == "o")
        elif answer == "c":
            decided = await _choose(changes, look)
        if not decided and answer in ("a", "o", "c"):
            changes = await look()  # the host's files may be others by now
            show(summary.lines(changes.changes))


async def _choose(changes: ChangeSet, look: Look) -> bool:
    """Go through the changes one by one, and keep what is not applied; whether that was done."""
    wanted: list[Change] = []
    for change in summary.told(changes):
        show(summary.diff(change))
        while (answer := await asked("apply this? [y]es, [n]o, [q]uit choosing: ", default="q")) not in ("y", "n", "q"):
            pass
        if answer == "q":
            return False
        if answer == "y":
            wanted.append(change)
    wanted += _emptied(changes, wanted)
    if wanted and not await applied(changes, wanted):
        return False
    rest = await look()
    if rest:
        typer.echo("what you did not choose is kept:", err=True)
        await keep(rest)
    return True


def _emptied(changes: ChangeSet, wanted: list[Change]) -> list[Change]:
    """Directories that are gone, and whose contents were all chosen: nobody was asked about these."""
    chosen = {change.path for change in wanted}
    left = {above for change in summary.told(changes) if change.path not in chosen for above in _above(change.path)}
    known = {change.path for change in summary.told(changes)}
    gone = [change for change in changes if change.kind == "directory" and change.operation == "delete"]
    return [change for change in gone if change.path not in known and change.path not in left]


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


async def applied(changes: ChangeSet, paths: Sequence[str | Change] | None, *, overwrite: bool = False) -> bool:
    """Apply them with this person's word; whether it was done. A conflict is told, and nothing was changed then."""
    try:
        choice = changes.choose(paths)
        with begun_by("person"):
            word = offer("apply", choice.subject, choice.digest)
            done = await changes.apply(paths, overwrite=overwrite, approval=word)
    except ConflictError as error:
        tell(error, as_json=False)
        return False
    tell_applied(done, choice.subject)
    return True


def tell_applied(done: Applied, where: str) -> None:
    """How much was written, and each thing that was not: a pipe, a socket, a device, what cannot be read."""
    typer.echo(f"{len(done.paths)} applied to {visible(where)}", err=True)
    for path in done.skipped:
        typer.echo(f"left out: {visible(path)} cannot be applied", err=True)


def quoted(path: str) -> str:
    """A path for a shell to read. Names come from whoever was in the sandbox, and may be made to be pasted."""
    if path.isprintable():
        return shlex.quote(path)
    raw = encode(path)
    return "$'" + "".join(chr(b) if chr(b).isalnum() or chr(b) in "/._- " else f"\\x{b:02x}" for b in raw) + "'"


async def keep(changes: ChangeSet) -> None:
    """Keep them for later, and say how to go on."""
    kept = await changes.keep()
    typer.echo(f"kept as {kept}. Go on with:", err=True)
    for words in ("show", "apply", "discard"):
        typer.echo(f"  paddock review {words} {kept}", err=True)


def page(changes: Iterable[Change]) -> None:
    """All of them in full."""
    for change in changes:
        show(summary.diff(change))


async def asked(question: str, *, default: str) -> str:
    """The first letter of an answer. Ctrl-D, and a terminal that is gone, are the default."""
    forget_typed(sys.stdin.fileno())
    typer.echo(question, nl=False, err=True)
    line = await answer_at(sys.stdin.fileno())
    if line is None:
        typer.echo("", err=True)
        return default
    return line.strip()[:1].lower() or "?"
