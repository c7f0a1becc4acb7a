"""Objects of git through libgit2: trees are read, blobs, trees and commits are written. Nothing here knows where refs are."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paddock.errors import GitError, SandboxError, TooLargeError, UnavailableError, visible
from paddock.extras import how_to_get
from paddock.git.places import without_places
from paddock.git.targets.protocol import DIRECTORY, FILE, PROGRAM, Commit, Entry, Order, Put, Who

if TYPE_CHECKING:
    import pygit2

MOST_FILE = 50 << 20
"""Bytes of one file, either way. GitHub takes no more than twice that."""
MOST_ENTRIES = 100_000
_MOST_DEPTH = 200
_MOST_TREE = 16 << 20
_ID = re.compile("[0-9a-f]{40}")


def library() -> Any:
    """libgit2; without it an `UnavailableError` that says how to get it."""
    try:
        import pygit2
    except ModuleNotFoundError:
        raise UnavailableError(
            "The git gate needs the package pygit2, which is not installed.", hint=how_to_get("git")
        ) from None
    return pygit2


@contextmanager
def as_git_error(operation: str) -> Iterator[None]:
    """What libgit2 raises, as an error of ours."""
    try:
        yield
    except SandboxError:
        raise
    except (library().GitError, KeyError, ValueError, TypeError, OSError) as error:
        raise GitError(
            f"The repository cannot be used: {visible(without_places(str(error)))[:300]}.",
            hint="Check it with `git fsck`.",
            operation=operation,
        ) from error


def checked_id(text: str) -> str:
    """An id of an object; anything else never gets to a program or a URL."""
    if not _ID.fullmatch(text):
        raise GitError("That is not the id of a commit.", hint="Ids have 40 hexadecimal digits.", operation="read")
    return text


class ObjectTree:
    """The files of a commit in a repository that libgit2 has open."""

    def __init__(self, repository: "pygit2.Repository", commit: str | None) -> None:
        self._repository = repository
        self._root: Any = None
        if commit is not None:
            with as_git_error("read"):
                self._root = self._sized(str(_commit(repository, commit).tree_id), _MOST_TREE)

    def entry(self, path: str) -> Entry | None:
        """What is at a path, if there is something."""
        if self._root is None:
            return None
        here, found = self._root, None
        with as_git_error("read"):
            for name in path.split("/"):
                if here is None:
                    return None
                found = _named(here, name)
                if found is None:
                    return None
                here = self._sized(found.blob, _MOST_TREE) if found.mode == DIRECTORY else None
        return found

    def below(self, path: str) -> list[tuple[str, Entry]]:
        """Everything below a directory but directories."""
        if self._root is None:
            return []
        with as_git_error("read"):
            root = self._root
            if path:
                entry = self.entry(path)
                if entry is None or entry.mode != DIRECTORY:
                    return []
                root = self._sized(entry.blob, _MOST_TREE)
            return list(self._walked(root, f"{path}/" if path else ""))

    def _walked(self, root: Any, prefix: str) -> Iterator[tuple[str, Entry]]:
        """All that is counted, not only files: the same small tree can be in another a hundred times, and that again."""
        waiting, seen = [(root, prefix)], 0
        while waiting:
            tree, above = waiting.pop()
            for entry in tree:
                path, mode, seen = above + _text(entry), int(entry.filemode), seen + 1
                if seen > MOST_ENTRIES or path.count("/") > _MOST_DEPTH:
                    raise TooLargeError(
                        "The directory has too many files, or they lie too deep.", hint="Name smaller directories."
                    )
                if mode == DIRECTORY:
                    waiting.append((self._sized(str(entry.id), _MOST_TREE), f"{path}/"))
                else:
                    yield path, Entry(mode, str(entry.id))

    def read(self, blob: str) -> bytes:
        """The content of a file."""
        with as_git_error("read"):
            return bytes(self._sized(blob, MOST_FILE).data)

    def _sized(self, oid: str, most: int) -> Any:
        """An object whose size was looked at before it is unpacked: a few bytes can stand for very many."""
        _, size = self._repository.odb.read_header(oid)
        if size > most:
            raise TooLargeError(f"A file there has {size} bytes.", hint=f"The gate handles up to {most} bytes.")
        return self._repository[oid]


def _text(entry: Any) -> str:
    """A name; one that is not UTF-8 gets surrogates, which no later check lets pass."""
    return bytes(entry.raw_name).decode("utf-8", "surrogateescape")


def _named(tree: Any, name: str) -> Entry | None:
    try:
        found = tree[name]
    except KeyError:
        return None
    return Entry(int(found.filemode), str(found.id))


def _commit(repository: "pygit2.Repository", sha: str) -> Any:
    found = repository[checked_id(sha)]
    if not isinstance(found, library().Commit):
        raise GitError("The branch does not lead to a commit.", operation="read")
    return found


def read_commit(repository: "pygit2.Repository", sha: str) -> Commit:
    """A commit's own words."""
    with as_git_error("read"):
        found = _commit(repository, sha)
        return Commit(
            tuple(str(parent) for parent in found.parent_ids), found.message, _who(found.author), _who(found.committer)
        )


def _who(signature: Any) -> Who:
    return Who(signature.name, signature.email, int(signature.time))


def write_commit(repository: "pygit2.Repository", order: Order) -> str:
    """Make the commit of an order, on no branch yet; its id. The same order always makes the same commit."""
    git = library()
    with as_git_error("push"):
        old = None if order.base is None else _commit(repository, order.base).tree
        changes = {put.path: put for put in order.files}
        tree = _written_tree(repository, old, [(path.split("/"), put) for path, put in changes.items()])
        if tree is None:
            tree = repository.TreeBuilder().write()
        who = git.Signature(order.who.name, order.who.email, order.who.time, 0)
        parents = [] if order.base is None else [git.Oid(hex=order.base)]
        return str(repository.create_commit(None, who, who, f"{order.message}\n", tree, parents))


def _written_tree(repository: "pygit2.Repository", old: Any, changes: list[tuple[list[str], Put]]) -> Any:
    """The id of a tree with these changes, whose paths are lists of names; None if nothing is left in it."""
    builder = repository.TreeBuilder(old) if old is not None else repository.TreeBuilder()
    inner: dict[str, list[tuple[list[str], Put]]] = {}
    for names, put in changes:
        if len(names) > 1:
            inner.setdefault(names[0], []).append((names[1:], put))
        elif put.data is None and builder.get(names[0]) is not None:
            builder.remove(names[0])
    for names, put in changes:
        if len(names) == 1 and put.data is not None:
            builder.insert(names[0], repository.create_blob(put.data), PROGRAM if put.executable else FILE)
    for name, below in inner.items():
        _put_tree(repository, builder, name, below)
    return builder.write() if len(builder) else None


def _put_tree(repository: "pygit2.Repository", builder: Any, name: str, changes: list[tuple[list[str], Put]]) -> None:
    """A directory in a tree, with changes. A file of that name makes way only for a new file below it."""
    found = builder.get(name)
    is_directory = found is not None and int(found.filemode) == DIRECTORY
    if not is_directory and all(put.data is None for _, put in changes):
        return
    tree = _written_tree(repository, found if is_directory else None, changes)
    if tree is not None:
        builder.insert(name, tree, DIRECTORY)
    elif found is not None:
        builder.remove(name)
