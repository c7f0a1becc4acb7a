"""Where the contents of changes come from: the sandbox's layer, or a review that was kept. Only what was shown comes out."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Protocol, Self

from paddock.errors import ConflictError, SandboxError, visible
from paddock.review.began import is_same
from paddock.review.bounds import Spending
from paddock.review.content import pieces, read
from paddock.review.findings import Found
from paddock.review.tree import MOVED, Tree
from paddock.types.review import Layer


class Shown(Protocol):
    """Contents, open for a while."""

    def check(self, one: Found, spending: Spending) -> None:
        """A `ConflictError` if it is no longer what was shown."""

    def opened(self, one: Found) -> AbstractContextManager[int]:
        """The file of a change. It may hold anything by now: whoever reads it compares the hash."""


class Uppers:
    """The layers of a sandbox, which may change them at any time."""

    def __init__(self, layers: Iterable[Layer]) -> None:
        self._layers = tuple(layers)
        self._stack = ExitStack()
        self._trees: list[Tree] = []

    def __enter__(self) -> Self:
        try:
            for layer in self._layers:
                self._trees.append(self._stack.enter_context(Tree.at(layer.upper, ours=True)))
        except OSError as error:
            self._stack.close()
            raise SandboxError(
                "What the sandbox changed is not there any more.", hint="Keep a review before the sandbox is closed."
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self, one: Found, spending: Spending) -> None:
        tree = self._trees[one.layer]
        now = tree.look(one.relative)
        if now is not None and now.whiteout:
            now = None
        same = is_same(one.new, now) and (now is None or one.new is None or now.mode == one.new.mode)
        if not same and not (now is not None and now.kind == "file" and self._has_same(tree, one, spending)):
            raise moved_on(one)
        if one.old_relative is not None:
            old = tree.look(one.old_relative)
            if old is not None and not old.whiteout:
                raise moved_on(one)

    def opened(self, one: Found) -> AbstractContextManager[int]:
        return self._trees[one.layer].open(one.relative)

    @staticmethod
    def _has_same(tree: Tree, one: Found, spending: Spending) -> bool:
        try:
            now = read(tree, one.relative, spending)
        except OSError as error:
            if error.errno not in MOVED and not isinstance(error, PermissionError):
                raise
            return False
        return one.new is not None and (now.sha256, now.seen.mode) == (one.change.sha256, one.new.mode)


Opener = Callable[[], AbstractContextManager[Shown]]


def moved_on(one: Found) -> ConflictError:
    """The error for something that is not what was shown."""
    return ConflictError(
        f"'{visible(one.change.path)}' changed since changes() was called.",
        path=one.change.path,
        hint="Call changes() again and look at what is there now; nothing was applied.",
    )


def copy_out(shown: Shown, one: Found, to: Path, spending: Spending, *, sync: bool) -> None:
    """Put the content of a change into a new file of our own; a `ConflictError` if it is not what was shown."""
    digest, size = sha256(), 0
    fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with shown.opened(one) as source:
            for piece in pieces(source, one.change.size + 1):
                spending.spend(size=len(piece))
                digest.update(piece)
                size += len(piece)
                _write(fd, piece)
        if sync:
            os.fsync(fd)
    except OSError as error:
        if error.errno not in MOVED:
            raise
        raise moved_on(one) from None
    finally:
        os.close(fd)
    if (digest.hexdigest(), size) != (one.change.sha256, one.change.size):
        raise moved_on(one)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
