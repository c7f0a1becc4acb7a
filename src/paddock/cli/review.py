"""`paddock review`: what sandboxes changed and nobody has decided about yet."""

import json
import time
from typing import Annotated

import typer

from paddock import consent
from paddock.audit import EventBus, default_log
from paddock.cli.changes import applied, asked, is_interactive, page, quoted, show, tell_applied
from paddock.cli.ending import FAILED, errors_told, show_json, wait_for
from paddock.cli.showing import size, span, table
from paddock.consent import Consent
from paddock.errors import ConfigError, NotAuthorizedError, visible
from paddock.review import kept, recover, summary
from paddock.review.kept import Kept

review = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
Id = Annotated[str, typer.Argument(metavar="REVIEW", help="Its id, such as rv-1a2b3c, or its name.")]
Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH", help="Paths inside, or below /workspace; a directory is all in it. Without any: all."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@review.callback()
def _about() -> None:
    """Look at what sandboxes changed, and decide what becomes of it.

    `paddock run --review` works on a directory of yours without writing to it. What it changed is kept here until you
    apply or discard it.

    \b
      paddock run --review --workspace . -- ./agent.sh
      paddock review list
      paddock review show rv-1a2b3c
      paddock review apply rv-1a2b3c /workspace/src
    """
    for cut_off in recover():
        done = "finished" if cut_off.finished else "undone"
        typer.echo(f"note: an apply that was cut off is {done} now", err=True)
        for left in cut_off.left:
            typer.echo(f"note: but not '{visible(left.path)}': {visible(left.why)}", err=True)


@review.command("list")
def list_(as_json: Json = False) -> None:
    """List those that are kept, the oldest first."""
    with errors_told(as_json):
        found = kept.list()
        if as_json:
            for info in found:
                typer.echo(json.dumps(info.to_dict()))
            return
        now = time.time()
        rows = [
            (
                info.id,
                visible(info.name or "-"),
                span(now - info.created),
                str(info.changes),
                size(info.size),
                visible(", ".join(info.directories)),
            )
            for info in found
        ]
        for line in table([("ID", "NAME", "AGE", "CHANGES", "SIZE", "DIRECTORY"), *rows]):
            typer.echo(line)


@review.command("show")
def show_(id: Id, paths: Paths = None, as_json: Json = False) -> None:
    """Show one: a summary, then each change in full.

    At the end stands how to apply exactly this from a script: the code is good once, for an hour, and for nothing else.
    """
    with errors_told(as_json):
        changes = _loaded(id)
        choice = changes.choose(_inside(paths))
        if as_json:
            shown = {"id": changes.info.id, "digest": choice.digest, "changes": [c.to_dict() for c in choice.changes]}
            show_json(shown)
            return
        show(summary.lines(choice.changes), err=False)
        for change in choice.changes:
            typer.echo("")
            show(summary.diff(change), err=False)
        word = consent.offer("apply", choice.subject, choice.digest)
        named = " ".join([changes.info.id, *map(quoted, _inside(paths) or ())])
        over = " --overwrite" if any(change.conflict is not None for change in choice.changes) else ""
        typer.echo(f"\napply exactly this: paddock review apply {named}{over} --approval {word.nonce}")


@review.command()
def apply(
    id: Id,
    paths: Paths = None,
    approval: Annotated[
        str | None, typer.Option(metavar="CODE", help="The code that `show` ended with; instead of a question.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also over files that have changed on the host since.")
    ] = False,
) -> None:
    """Write changes to the directory that they are about: exactly what was shown.

    On a terminal you are shown them and asked. Elsewhere it takes the code that `paddock review show` gives. A file that
    changed on the host meanwhile is a conflict: nothing is written, unless you say --overwrite.
    """
    with errors_told():
        changes, chosen = _loaded(id), _inside(paths)
        changes.choose(chosen)  # a path that is wrong is told first
        raise typer.Exit(wait_for(_apply(changes, chosen, approval, overwrite)))


async def _apply(changes: Kept, paths: list[str] | None, approval: str | None, overwrite: bool) -> int:
    if approval is not None:
        where = changes.choose(paths).subject
        with consent.begun_by("person"):
            done = await changes.apply(paths, overwrite=overwrite, approval=approval)
        tell_applied(done, where)
        return 0
    if not is_interactive():
        raise NotAuthorizedError(
            "Nobody is here to approve this.",
            hint=f"Look at it with `paddock review show {changes.info.id}`, and pass on the code that it gives.",
        )
    show(summary.lines(changes.choose(paths).changes))
    while (answer := await asked("[a]pply, [s]how, [q]uit? ", default="q")) != "q":
        if answer == "s":
            page(changes.choose(paths).changes)
        elif answer == "a":
            return 0 if await applied(changes, paths, overwrite=overwrite) else FAILED
    return FAILED


@review.command()
def discard(
    ids: Annotated[list[str] | None, typer.Argument(metavar="REVIEW", help="Ids or names.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are kept.")] = False,
) -> None:
    """Forget some, with their contents. The host's files are as they were."""
    with errors_told():
        if bool(ids) == everything:
            raise ConfigError("Name what to discard, or give --all.", hint="`paddock review list` lists what is kept.")
        for id in ids or [info.id for info in kept.list()]:
            typer.echo(kept.discard(id))


def _inside(paths: list[str] | None) -> list[str] | None:
    """Paths as changes have them; a relative one is below /workspace."""
    return None if not paths else [path if path.startswith("/") else f"/workspace/{path}" for path in paths]


def _loaded(id: str) -> Kept:
    """With the policy that a person has: nothing without a word of theirs, and each is in the log."""
    return kept.load(id, Consent("deny-all", EventBus("review", default_log())))
