"""Forgetting changes: what the sandbox sees becomes what the host has, through the sandbox's own directories."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from paddock.dirs.protocol import Chmod, Dir
from paddock.errors import SandboxError, visible
from paddock.review.content import pieces
from paddock.review.findings import Findings, Found
from paddock.review.tree import Tree


def restore(findings: Findings, mounts: Sequence[Dir]) -> None:
    """Undo all that was found, in the mount of each layer. The host is read, and not written. It blocks: use a thread.

    The mode of a directory that is still there stays as the sandbox made it where a `Dir` cannot change that.
    """
    with ExitStack() as stack:
        lowers = [stack.enter_context(Tree.at(layer.lower)) for layer in findings.layers]
        for one in findings.found:  # a directory before what is in it: that goes with it, whatever its mode
            with _telling(one.change.path):
                if one.new is not None and (one.host is None or one.host.kind != one.new.kind):
                    _remove(mounts[one.layer], one.relative)
        for one in findings.found:
            with _telling(one.change.path):
                _bring_back(one, mounts[one.layer], lowers[one.layer])


@contextmanager
def _telling(path: str) -> Iterator[None]:
    try:
        yield
    except SandboxError:
        raise
    except OSError as error:
        raise SandboxError(
            f"'{visible(path)}' could not be put back: {error.strerror}.",
            path=path,
            hint="Call changes() again to see what is left.",
        ) from error


def _remove(mount: Dir, path: str) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        mount.remove(path, tree=True)


def _bring_back(one: Found, mount: Dir, lower: Tree) -> None:
    path = one.relative if one.old_relative is None else one.old_relative
    host = lower.look(path)
    if host is None:
        return
    with suppress(FileNotFoundError):
        there = mount.stat(path)
        if there.kind != host.kind or host.kind == "link":
            mount.remove(path, tree=True)
        elif host.kind == "directory":
            if isinstance(mount, Chmod) and there.mode != host.mode:
                mount.chmod(path, host.mode)
            return
    if host.kind == "directory":
        mount.mkdir(path, host.mode)
    elif host.kind == "link":
        mount.link(path, host.target or "")
    elif host.kind == "file":
        with lower.open(path) as fd:
            mount.write(path, pieces(fd, host.size), host.mode)
