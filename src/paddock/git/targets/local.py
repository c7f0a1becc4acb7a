"""A repository on this host, bare or not. Its objects and branches are used; its configuration, hooks and files are not.

libgit2 opens a git directory of our own, with our own configuration, in which `objects` and `refs` are links to those of
the repository. So nothing that is written in there can tell us to run or read something.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from paddock.errors import ConflictError, GitError, UnsupportedError, visible
from paddock.git import places
from paddock.git.context import GitContext
from paddock.git.names import LocalRepo, branch_name
from paddock.git.objects import ObjectTree, as_git_error, library, read_commit, write_commit
from paddock.git.stopping import Stop
from paddock.git.targets.protocol import Commit, Order, Tip, Tree, no_beginning
from paddock.types.git import Branch

_MOST = 4096
_HEADS = "refs/heads/"
_CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = true
\tlogallrefupdates = {logs}
\tsharedrepository = {shared}
\tprotecthfs = true
\tprotectntfs = true
"""
_NOWHERE = "ref: refs/paddock/nowhere\n"


class LocalTarget:
    """A directory with a repository, or of one."""

    def __init__(self, repo: LocalRepo, context: GitContext, stop: Stop) -> None:
        self._path = repo.path
        self._context = context
        self._stop = stop
        self._git_dir = _common(_git_dir(repo.path))
        self._repository = self._opened()

    def _opened(self) -> Any:
        _check_format(self._git_dir)
        _check_files(self._git_dir)
        _check_whole(self._git_dir)
        with places.alone(places.hashed(self._git_dir), self._context.timeout, self._stop):
            own = _view(self._git_dir)
        with as_git_error("open"):
            return library().Repository(str(own))

    def branches(self) -> list[Branch]:
        """All of them, sorted by name."""
        default = self._default()
        with as_git_error("branches"):
            names = sorted(name.decode("utf-8", "replace") for name in self._repository.raw_listall_branches())
            heads = [(name, self._head(name)) for name in names]
        return [Branch(name, head, name == default) for name, head in heads if head is not None]

    def tip(self, branch: str) -> Tip:
        """Where a branch is now."""
        head = self._head(branch)
        if head is not None:
            return Tip(head, head)
        default = self._default()
        base = self._head(default) if default else None
        if base is None and self._repository.raw_listall_branches():
            raise no_beginning(branch)
        return Tip(None, base)

    def _default(self) -> str | None:
        """The branch that HEAD names; a name that no branch can have is none."""
        name = _head_branch(os.path.join(self._git_dir, "HEAD"))
        with suppress(GitError):
            return branch_name(name) if name else None
        return None

    def _head(self, branch: str) -> str | None:
        reference = self._reference(branch)
        return None if reference is None else str(reference.target)

    def _reference(self, branch: str) -> Any:
        _check_no_links(self._git_dir, f"{_HEADS}{branch}")
        with as_git_error("read"):
            try:
                found = self._repository.lookup_reference(f"{_HEADS}{branch}")
            except KeyError:
                return None
            if not isinstance(found.target, library().Oid):
                raise GitError(
                    f"The branch '{visible(branch)}' is another name for a ref.",
                    hint="Name the branch that it stands for.",
                    operation="read",
                )
            return found

    def tree(self, commit: str | None) -> Tree:
        """The files of a commit."""
        return ObjectTree(self._repository, commit)

    def commit(self, sha: str) -> Commit:
        """A commit that `tip` gave."""
        return read_commit(self._repository, sha)

    def check_writable(self, branch: str) -> None:
        """A branch that somebody works on is not moved under their feet; nor does root leave files of its own."""
        if not self._context.allow_checked_out and branch in _checked_out(self._git_dir):
            raise GitError(
                f"The branch '{visible(branch)}' is checked out in {visible(self._path)}: moving it would make the files"
                " there look changed.",
                hint="Stage for another branch, such as 'paddock/work', and merge it; or allow_checked_out=True in the"
                " GitContext.",
                operation="push",
            )
        if os.geteuid() == 0 != os.stat(self._git_dir).st_uid:
            raise GitError(
                "The repository belongs to another user, who could not use what root writes there.",
                hint="Push as that user.",
                operation="push",
            )

    def push(self, order: Order) -> str:
        """Make the commit and move the branch, if it is where it was."""
        self.check_writable(order.branch)
        with places.alone(places.hashed(self._git_dir), self._context.timeout, self._stop):
            _check_no_links(self._git_dir, f"logs/{_HEADS}{order.branch}")
            sha = write_commit(self._repository, order)
            self._repository.set_ident(order.who.name, order.who.email)
            reference = self._reference(order.branch)
            expected = None if order.new_branch else order.base
            if (None if reference is None else str(reference.target)) != expected:
                raise moved(order.branch, None if reference is None else str(reference.target))
            self._move(reference, order.branch, sha)
        return sha

    def _move(self, reference: Any, branch: str, sha: str) -> None:
        """By compare and swap: libgit2 looks at the old value once more while it holds git's own lock."""
        git = library()
        try:
            if reference is None:
                self._repository.create_reference_direct(f"{_HEADS}{branch}", git.Oid(hex=sha), False, "paddock: push")
            else:
                reference.set_target(git.Oid(hex=sha), "paddock: push")
        except (git.GitError, ValueError, OSError) as error:
            now = self._head(branch)
            if now != (None if reference is None else str(reference.target)):
                raise moved(branch, now) from error
            raise GitError(
                f"The branch '{visible(branch)}' cannot be moved: {visible(places.without_places(str(error)))[:300]}.",
                hint="Check its name against the other branches, that the repository can be written, and that no crash left a"
                f" '{_HEADS}{visible(branch)}.lock' there.",
                operation="push",
            ) from error

    def url(self, sha: str) -> str:
        """The repository itself."""
        return self._path


def moved(branch: str, head: str | None) -> ConflictError:
    """The error for a branch that is not where it was when something was staged for it."""
    where = f"is at {head} now" if head else "is not there any more"
    return ConflictError(
        f"The branch '{visible(branch)}' moved since this was staged: it {where}.",
        hint="restage() puts the same change on top of it.",
    )


def _missing(path: str) -> GitError:
    return GitError(
        f"There is no git repository at {visible(path)}.",
        hint="Name a directory with a '.git', or a bare repository.",
        operation="open",
    )


def _git_dir(path: str) -> str:
    """The git directory that belongs to a directory."""
    inner = os.path.join(path, ".git")
    if os.path.islink(inner):
        raise _elsewhere(inner)
    if _is_git_dir(inner):
        return inner
    text = _line(inner)
    if text is not None and text.startswith("gitdir: "):  # a linked worktree, or a submodule
        found = os.path.realpath(os.path.join(path, text.removeprefix("gitdir: ")))
        if os.path.isdir(found) and not _knows(found, inner):
            raise _elsewhere(inner)
        if os.path.isdir(found):
            return found
    if _is_git_dir(path):
        return path
    raise _missing(path)


def _common(git_dir: str) -> str:
    """Where the branches of a git directory are: a linked worktree has those of its repository."""
    text = _line(os.path.join(git_dir, "commondir"))
    found = os.path.realpath(git_dir if text is None else os.path.join(git_dir, text))
    if text is not None and os.path.dirname(os.path.realpath(git_dir)) != os.path.join(found, "worktrees"):
        raise _elsewhere(os.path.join(git_dir, "commondir"))
    if not _is_git_dir(found):
        raise _missing(git_dir)
    return found


def _knows(git_dir: str, link: str) -> bool:
    """Whether a git directory has a work tree that names it: a linked one that it names too, or a submodule of a project."""
    back = _line(os.path.join(git_dir, "gitdir"))
    if back is not None:
        return os.path.realpath(os.path.join(git_dir, back)) == os.path.realpath(link)
    above = os.path.dirname(os.path.dirname(os.path.realpath(link)))
    while above != "/" and not os.path.isdir(os.path.join(above, ".git", "modules")):
        above = os.path.dirname(above)
    return git_dir.startswith(os.path.join(above, ".git", "modules", ""))


def _elsewhere(what: str) -> GitError:
    return GitError(
        f"{visible(what)} leads to another place, which nobody named.",
        hint="Name the repository that it leads to, if that is what you mean.",
        operation="open",
    )


def _check_whole(git_dir: str) -> None:
    """A repository that somebody else made may have the branches of another one, which nobody meant to show.

    Objects that it shares with another one are found by their ids only, which who made it has to know: a shared clone works.
    """
    for name in ("refs", "packed-refs", "logs", "objects/pack", "objects/info"):
        _check_no_links(git_dir, name)
    for name in ("objects", "objects/pack"):
        with suppress(FileNotFoundError):
            for entry in _scanned(os.path.join(git_dir, name)):
                if entry.is_symlink():
                    raise _elsewhere(entry.path)


def _check_no_links(git_dir: str, name: str) -> None:
    place = git_dir
    for part in name.split("/"):
        place = os.path.join(place, part)
        if os.path.islink(place):
            raise _elsewhere(place)


def _is_git_dir(path: str) -> bool:
    return all(os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs")) and (
        _line(os.path.join(path, "HEAD")) is not None
    )


def _check_format(git_dir: str) -> None:
    """Kinds of repositories that libgit2 does not know. The configuration would say so, but it is not ours to read."""
    head = _line(os.path.join(git_dir, "HEAD")) or ""
    if os.path.isdir(os.path.join(git_dir, "reftable")) or head.endswith(".invalid"):
        raise UnsupportedError(
            "The repository keeps its branches as reftable, which the gate does not read.",
            hint="`git refs migrate --ref-format=files` changes that.",
            capability="reftable",
        )


def _check_files(git_dir: str) -> None:
    """libgit2 opens what is there and waits for it: a pipe in the place of an object would hold us for ever."""
    waiting = [os.path.join(git_dir, name) for name in ("objects", "refs", "logs")]
    odd = [
        path for path in (os.path.join(git_dir, "packed-refs"),) if os.path.exists(path) and not os.path.isfile(path)
    ]
    while waiting and not odd:
        with suppress(OSError):
            for entry in _scanned(waiting.pop()):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not entry.is_file() and not entry.is_dir() and os.path.exists(entry.path):
                    odd.append(entry.path)
    if odd:
        raise GitError(
            f"{visible(odd[0])} is a pipe, a socket or a device.", hint="Check the repository.", operation="open"
        )


def _line(path: str) -> str | None:
    """The first line of a small file; None for everything else that may be there, of which nothing is waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return os.fsdecode(os.read(fd, _MOST)).split("\n", 1)[0].strip()
    finally:
        os.close(fd)


def _head_branch(path: str) -> str | None:
    text = _line(path) or ""
    return text.removeprefix(f"ref: {_HEADS}") if text.startswith(f"ref: {_HEADS}") else None


def _checked_out(git_dir: str) -> set[str]:
    """The branches that have a work tree: the repository's own, unless it is bare, and the linked ones."""
    heads = [] if _is_bare(git_dir) else [os.path.join(git_dir, "HEAD")]
    with suppress(OSError):
        heads += [os.path.join(entry.path, "HEAD") for entry in _scanned(os.path.join(git_dir, "worktrees"))]
    return {branch for branch in map(_head_branch, heads) if branch}


def _scanned(path: str) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(path) as entries:
        yield from entries


def _is_bare(git_dir: str) -> bool:
    """As a guess without the configuration: who has files has an index, or is called `.git`."""
    return os.path.basename(git_dir) != ".git" and not os.path.lexists(os.path.join(git_dir, "index"))


def _view(git_dir: str) -> Path:
    """Our own git directory onto the objects and branches of another."""
    own = places.directory("repos", places.hashed(git_dir))
    for name in ("objects", "refs", "packed-refs", "logs"):
        _linked(own / name, os.path.join(git_dir, name))
    shared = "0660" if os.stat(os.path.join(git_dir, "objects")).st_mode & stat.S_IWGRP else "umask"
    config = _CONFIG.format(logs="false" if _is_bare(git_dir) else "true", shared=shared)
    places.write_private(own / "config", config.encode())
    places.write_private(own / "HEAD", _NOWHERE.encode())
    return own


def _linked(link: Path, target: str) -> None:
    try:
        link.symlink_to(target)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise places.no_room(error) from error
        if not link.is_symlink() or os.readlink(link) != target:
            raise GitError(
                f"{link} is not what the gate put there.", hint="Remove that directory.", operation="open"
            ) from None
