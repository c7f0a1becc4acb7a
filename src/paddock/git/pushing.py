"""A staged commit onto its branch, once."""

from collections.abc import Mapping

from paddock.errors import ConflictError, visible
from paddock.git.targets.protocol import Commit, Order, Put, Target, Tree, Who, blob_id
from paddock.types.git import PushResult, StagedCommit


def push(target: Target, commit: StagedCommit, contents: Mapping[str, bytes]) -> PushResult:
    """Have it done. Somebody else may have pushed the very same at the same moment, which is as good."""
    try:
        sha = target.push(order(commit, contents))
    except ConflictError:
        result = found(target, commit, contents)
        if result is None:
            raise
        return result
    return _result(target, commit, sha)


def found(target: Target, commit: StagedCommit, contents: Mapping[str, bytes]) -> PushResult | None:
    """The result if the branch has the commit, as when an answer was lost; None if it can be put there.

    A branch that is anywhere else is a `ConflictError`.
    """
    sha = already_there(target, commit, contents)
    return None if sha is None else _result(target, commit, sha)


def _result(target: Target, commit: StagedCommit, sha: str) -> PushResult:
    return PushResult(sha, target.url(sha), commit.repo, commit.branch, commit.new_branch)


def order(commit: StagedCommit, contents: Mapping[str, bytes]) -> Order:
    """What a repository is asked to do."""
    files = tuple(Put(file.path, contents.get(file.path), file.executable) for file in commit.files)
    return Order(commit.branch, commit.base, commit.new_branch, commit.message, who(commit), files)


def who(commit: StagedCommit) -> Who:
    """Author and committer. The time is that of staging, so that the same commit can be made twice."""
    return Who(commit.name, commit.email, int(commit.created_at))


def already_there(target: Target, commit: StagedCommit, contents: Mapping[str, bytes]) -> str | None:
    """The id of the commit if the branch has it; None if it can be put there; else a `ConflictError`."""
    head = target.tip(commit.branch).head
    if head == (None if commit.new_branch else commit.base):
        return None
    if head is not None and _is_it(target.commit(head), commit) and _holds(target.tree(head), commit, contents):
        return head
    where = f"is at {head} now" if head else "is not there any more"
    raise ConflictError(
        f"The branch '{visible(commit.branch)}' moved since this was staged: it {where}.",
        hint="restage() puts the same change on top of it.",
    )


def _is_it(found: Commit, commit: StagedCommit) -> bool:
    parents = () if commit.base is None else (commit.base,)
    same_words = found.message.rstrip("\n") == commit.message
    return found.parents == parents and same_words and found.author == found.committer == who(commit)


def _holds(tree: Tree, commit: StagedCommit, contents: Mapping[str, bytes]) -> bool:
    for file in commit.files:
        entry = tree.entry(file.path)
        if file.operation == "delete":
            if entry is not None and entry.is_file:
                return False
        elif entry is None or (entry.blob, entry.executable) != (blob_id(contents[file.path]), file.executable):
            return False
    return True
