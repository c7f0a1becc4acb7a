"""`paddock git`: a person's way through the git gate."""

import json
import time
from typing import Annotated

import typer

from paddock import consent
from paddock.audit import EventBus, default_log
from paddock.cli.changes import asked, is_interactive, show
from paddock.cli.ending import FAILED, errors_told, show_json, wait_for
from paddock.cli.showing import span, table
from paddock.consent import Consent
from paddock.errors import NotAuthorizedError, visible
from paddock.git import Git, GitContext, HostFiles
from paddock.review.summary import Line, Span, diff_lines
from paddock.sandbox.gating import owner_of
from paddock.types.git import PushResult, StagedCommit

git = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
Id = Annotated[str, typer.Argument(metavar="COMMIT", help="The id of a staged commit: twelve digits and letters.")]
Repo = Annotated[str, typer.Argument(metavar="REPO", help="owner/name on GitHub, a URL, or a path of this host.")]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch.")]
Into = Annotated[str, typer.Option("--into", metavar="DIR", help="The directory that is the workspace.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AllowFile = Annotated[bool, typer.Option("--allow-file", help="Let file:// URLs be used.")]


@git.callback()
def _about() -> None:
    """Look at commits that sandboxes staged, and push them, or not.

    What an agent stages (`sb.git.stage`) waits here. Nothing leaves this host before you push it.

    \b
      paddock git staged
      paddock git show 0123456789ab
      paddock git push 0123456789ab
      paddock git pull owner/name docs/ --into .
    """


@git.command()
def staged(as_json: Json = False) -> None:
    """List the commits that wait, the oldest first."""
    with errors_told(as_json):
        found = wait_for(Git().staged())
        if as_json:
            for commit in found:
                typer.echo(json.dumps(commit.to_dict()))
            return
        for line in table([("ID", "AGE", "REPOSITORY", "BRANCH", "FILES", "MESSAGE"), *map(_row, found)]):
            typer.echo(line)


def _row(commit: StagedCommit) -> tuple[str, ...]:
    first = commit.message.split("\n", 1)[0]
    return (
        commit.id,
        span(time.time() - commit.created_at),
        visible(commit.repo),
        visible(commit.branch),
        str(len(commit.files)),
        visible(first[:60]),
    )


@git.command("show")
def show_(id: Id, as_json: Json = False) -> None:
    """Show a staged commit with its diffs.

    At the end stands how to push exactly this from a script: the code is good once, for an hour, and for nothing else.
    """
    with errors_told(as_json):
        commit = wait_for(Git().show(id))
        if as_json:
            show_json(commit.to_dict())
            return
        show(_lines(commit), err=False)
        word = consent.offer("push", commit.subject, commit.digest)
        typer.echo(f"\npush exactly this: paddock git push {commit.id} --approval {word.nonce}")


@git.command()
def push(
    id: Id,
    approval: Annotated[
        str | None, typer.Option(metavar="CODE", help="The code that `show` ended with; instead of a question.")
    ] = None,
    allow_file: AllowFile = False,
    as_json: Json = False,
) -> None:
    """Put a staged commit on its branch: exactly the bytes that were staged, and nothing is checked out.

    On a terminal you are shown it and asked. Elsewhere it takes the code that `paddock git show` gives. If the branch has
    moved since, it is a conflict; `paddock git restage` puts the same change on top of what is there now.
    """
    with errors_told(as_json):
        result = wait_for(_push(id, approval, allow_file))
        if result is None:
            raise typer.Exit(FAILED)
        if as_json:
            show_json(result.to_dict())
        else:
            typer.echo(f"{result.commit_sha} {visible(result.url)}")


async def _push(id: str, approval: str | None, allow_file: bool) -> PushResult | None:
    gate = Git(None, Consent("deny-all", EventBus("git", default_log())), GitContext(allow_file=allow_file))
    if approval is None:
        commit = await gate.show(id)  # one that there is not is told first
        if not is_interactive():
            raise NotAuthorizedError(
                "Nobody is here to approve this.",
                hint=f"Look at it with `paddock git show {visible(id)}`, and pass on the code that it gives.",
            )
        show(_lines(commit))
        if await asked(f"push to {visible(commit.repo)} {visible(commit.branch)}? [y/N] ", default="n") != "y":
            return None
        approval = consent.offer("push", commit.subject, commit.digest).nonce
    with consent.begun_by("person"):
        return await gate.push(id, approval=approval)


@git.command()
def restage(id: Id, allow_file: AllowFile = False) -> None:
    """Put a staged commit's change on top of what the branch is now; the id of the new one is printed."""
    with errors_told():
        commit = wait_for(Git(context=GitContext(allow_file=allow_file)).restage(id))
        typer.echo(commit.id)


@git.command()
def discard(ids: Annotated[list[str], typer.Argument(metavar="COMMIT", help="Ids.", show_default=False)]) -> None:
    """Forget staged commits."""
    with errors_told():
        for id in ids:
            wait_for(Git().discard(id))
            typer.echo(visible(id))


@git.command()
def pull(
    repo: Repo,
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files or directories; `.` is everything.")],
    branch: Branch = "main",
    into: Into = ".",
    allow_file: AllowFile = False,
    as_json: Json = False,
) -> None:
    """Write files of a branch into a directory. Over files that differ they are merged, and conflicts are marked.

    A file is `pulled` if it is as on the branch now, `merged` if it has changes of both sides, `kept` if it changed only
    here and was left alone, and in `conflict` if somebody has to decide.
    """
    with errors_told(as_json):
        with HostFiles(into) as files:
            result = wait_for(Git(files, context=_context(into, allow_file)).pull(repo, paths, branch))
        if as_json:
            show_json(result.to_dict())
            return
        for word, names in (
            ("pulled", tuple(name for name in result.pulled if name not in result.merged)),
            ("merged", tuple(name for name in result.merged if name not in result.kept)),
            ("kept", result.kept),
            ("conflict", result.conflicts),
            ("missing", result.missing),
            ("skipped", tuple(f"{one.path} ({one.reason})" for one in result.skipped)),
        ):
            for name in names:
                typer.echo(f"{word:<9}{visible(name)}")
        raise typer.Exit(FAILED if result.conflicts or result.missing else 0)


@git.command()
def status(
    repo: Annotated[str | None, typer.Argument(metavar="REPO", help="Only this one.")] = None,
    into: Into = ".",
    allow_file: AllowFile = False,
    as_json: Json = False,
) -> None:
    """Show how a directory stands to the branches that files were pulled from, and what waits to be pushed."""
    with errors_told(as_json):
        with HostFiles(into) as files:
            found = wait_for(Git(files, context=_context(into, allow_file)).status(repo))
        for one in found:
            if as_json:
                show_json(one.to_dict())
                continue
            moved = ", which has moved since" if one.moved else ""
            typer.echo(f"{visible(one.repo)} {visible(one.branch)}{moved}")
            for change in one.changes:
                typer.echo(f"  {change.operation:<9}{visible(change.path)}")
            for id in one.staged:
                typer.echo(f"  staged   {id}")
        if not found and not as_json:
            typer.echo("nothing was pulled into this directory", err=True)


def _context(into: str, allow_file: bool) -> GitContext:
    """What was pulled into a directory is remembered for sandboxes that work on it too."""
    return GitContext(workspace=owner_of(into), allow_file=allow_file)


def _lines(commit: StagedCommit) -> "list[Line]":
    who = f"{commit.name} <{commit.email}>"
    found: list[Line] = [(Span(f"{visible(commit.subject)}, by {visible(who)}", "heading"),), (Span(""),)]
    found += [(Span(f"    {visible(line)}"),) for line in commit.message.split("\n")]
    found += [(Span(""),), *((Span(file.summary, "heading"),) for file in commit.files)]
    for file in commit.files:
        found.append((Span(""),))
        found += diff_lines(file.diff) if file.diff else [(Span(file.summary, "faint"),)]
    return found
