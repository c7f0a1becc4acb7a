"""Copying files and trees: within a sandbox, from the host into it, and out of it.

A tree is looked through before anything is copied, so that what would be refused is refused before anything is written.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from paddock import paths
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.names import temporary_name
from paddock.dirs.protocol import Dir, Node, Reader
from paddock.errors import (
    ConfigError,
    ExistsError,
    NotDirectoryError,
    NotFileError,
    NotFoundError,
    OutsideError,
    SandboxError,
    TooLargeError,
    UnsupportedError,
    visible,
)
from paddock.sandbox.budget import MAX_TREE_BYTES, Budget
from paddock.sandbox.failures import typed
from paddock.sandbox.files import Files, make_directories, refuse_root, unmake
from paddock.sandbox.mounts import Place

_PIECE = 1 << 20
Rule = Callable[[str, Node], None]
"""Called with the path relative to the tree and the entry; raises for what may not be copied."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """A file or directory somewhere, with how to speak of it."""

    dir: Dir
    path: str
    shown: str


@dataclass(frozen=True, slots=True)
class _Item:
    relative: str
    node: Node


def copy(files: Files, path: str, to: str, *, overwrite: bool, budget: Budget) -> int:
    """Copy a file or a tree within the sandbox; how many bytes. A tree appears at once, when it is complete."""
    source, node = files.settle(files.target(path).path)
    target = files.target(to, write=True)
    if paths.within(target.path, source.path) and node.kind == "directory":
        raise ConfigError(
            f"'{visible(path)}' cannot be copied into itself.", path=to, hint="Choose a place outside it."
        )
    _refuse_nested(files, source)
    refuse_root(files.table, target)
    tree = _Tree(source.dir, source.relative, source.path)
    rule = _both(_readable(files, source), _writable(files, target))
    items = _survey(tree, budget, rule, keep_links=True)
    made: list[tuple[Dir, str]] = []
    try:
        with _about(target.path):
            make_directories(target.dir, paths.split(target.relative)[0], made)
        if node.kind != "directory":
            goal = _Tree(target.dir, target.relative, target.path)
            return _copy_file(tree, goal, "", rule, budget, replace=overwrite)
        return _copy_new_tree(tree, target, items, rule, overwrite, budget)
    except BaseException:
        unmake(made)
        raise


def move(files: Files, path: str, to: str, *, overwrite: bool, budget: Budget) -> int:
    """Copy to another mount and remove what was copied; a link is moved as a link."""
    node = files.settle(path)[1]
    if node.kind == "link":
        files.link(to, node.target or "", overwrite=overwrite)
        size = 0
    else:
        size = copy(files, path, to, overwrite=overwrite, budget=budget)
    files.delete(path, recursive=True)
    return size


def upload(files: Files, host_path: str, path: str, budget: Budget) -> int:
    """Copy a file or tree of the host into the sandbox, over what is there; how many bytes."""
    _refuse_own(files, host_path, "upload")
    real = os.path.realpath(host_path)
    if not os.path.exists(real):
        raise NotFoundError("The host path given to upload() does not exist.", hint="Check the path.")
    directory, name = (real, "") if os.path.isdir(real) else os.path.split(real)
    if name and files.is_directory(path):
        path = paths.join(path, name)
    with _about(path), closing(DescriptorDir.at(directory)) as host:
        source = _Tree(host, name, name or os.path.basename(real))
        target = files.target(path, write=True)
        rule = _writable(files, target)
        if name:
            _check_entry(name, host.stat(name))
            rule("", host.stat(name))
            make_directories(target.dir, paths.split(target.relative)[0])
            return _copy_file(source, _Tree(target.dir, target.relative, target.path), "", rule, budget)
        items = _survey(source, budget, rule, keep_links=False, root=real)
        return _overlay(source, _Tree(target.dir, target.relative, target.path), items, rule, budget)


def download(files: Files, path: str, host_path: str, budget: Budget) -> tuple[str, int]:
    """Copy a file or tree of the sandbox to the host, over what is there; its absolute path and how many bytes."""
    source, node = files.settle(files.target(path).path)
    _refuse_own(files, host_path, "download")
    _refuse_nested(files, source)
    tree = _Tree(source.dir, source.relative, source.path)
    rule = _readable(files, source)
    items = _survey(tree, budget, rule, keep_links=False, root=source.path)
    destination = os.path.abspath(host_path)
    if node.kind == "directory":
        with _host_directory(destination) as host:
            return destination, _overlay(tree, _Tree(host, "", source.path), items, rule, budget)
    if os.path.isdir(destination):
        destination = os.path.join(destination, os.fsdecode(paths.encode(paths.name(source.path))))
    parent, name = os.path.split(destination)
    with _host_directory(parent) as host:
        goal = _Tree(host, paths.decode(os.fsencode(name)), source.path)
        return destination, _copy_file(tree, goal, "", rule, budget)


def _survey(tree: _Tree, budget: Budget, rule: Rule, *, keep_links: bool, root: str | None = None) -> list[_Item]:
    """Everything in a tree, outermost first, each entry allowed."""
    with _about(tree.shown):
        top = tree.dir.stat(tree.path)
        if top.kind != "directory":
            _check_entry(tree.shown, top)
            rule("", top)
            return []
        items: list[_Item] = []
        pending = [""]
        total = 0
        while pending:
            here = pending.pop()
            nodes = tree.dir.list(_join(tree.path, here), stats=True)
            budget.spend(len(nodes))
            for node in sorted(nodes, key=lambda node: node.name):
                relative = _join(here, node.name)
                shown = f"{tree.shown}/{relative}"
                _check_entry(shown, node)
                rule(relative, node)
                if node.kind == "link" and not keep_links:
                    node = _inner_link(relative, node, shown, root)
                total += node.size if node.kind == "file" else 0
                if total > MAX_TREE_BYTES:
                    raise TooLargeError(
                        f"'{visible(tree.shown)}' holds more than {MAX_TREE_BYTES} bytes.",
                        path=tree.shown,
                        hint="Copy parts of it.",
                    )
                items.append(_Item(relative, node))
                if node.kind == "directory":
                    pending.append(relative)
        return sorted(items, key=lambda item: item.relative.split("/"))


def _check_entry(shown: str, node: Node) -> None:
    if node.kind == "other":
        raise NotFileError(
            f"'{visible(shown)}' is a pipe, a socket or a device.",
            path=shown,
            hint="Remove it, or copy the rest in parts.",
        )
    if node.kind == "file" and node.size > MAX_TREE_BYTES:
        raise TooLargeError(
            f"'{visible(shown)}' has {node.size} bytes.",
            path=shown,
            hint=f"At most {MAX_TREE_BYTES} are copied.",
        )


def _inner_link(relative: str, node: Node, shown: str, root: str | None) -> Node:
    """The link as it may be copied, if it stays inside the tree; absolute ones that do are made relative.

    Only leading `..` count: after a name, `..` leads wherever that name links to.
    """
    target = node.target or ""
    above = relative.count("/")
    if root is not None and target.startswith(root + "/"):
        target = "../" * above + target[len(root) + 1 :]
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    if target.startswith("/") or up > above or ".." in parts[up:]:
        raise OutsideError(
            f"'{visible(shown)}' is a link that leads out of the tree.",
            path=shown,
            hint="Remove it or replace it by a copy; nothing was copied.",
        )
    return Node(node.name, "link", node.size, node.mode, node.mtime, target)


def _refuse_nested(files: Files, source: Place) -> None:
    if files.table.nested(source.path):
        raise UnsupportedError(
            f"'{visible(source.path)}' holds another mount.",
            path=source.path,
            capability="nested mounts",
            hint="Take its parts one by one.",
        )


def _refuse_own(files: Files, host_path: str, call: str) -> None:
    """A host path inside a mount is the sandbox's own ground: links in it are not the caller's, and may lead anywhere."""
    for given in (os.path.abspath(host_path), os.path.realpath(host_path)):
        for source, target in files.table.sources:
            if paths.within(given, source):
                raise ConfigError(
                    f"The host path given to {call}() lies in {target} of this sandbox.",
                    hint=f"Use copy() or move() with paths below {target}.",
                )


def _overlay(source: _Tree, target: _Tree, items: list[_Item], rule: Rule, budget: Budget) -> int:
    with _about(target.shown):
        make_directories(target.dir, target.path)
    size = 0
    for item in items:
        inner = _Tree(source.dir, _join(source.path, item.relative), f"{source.shown}/{item.relative}")
        outer = _Tree(target.dir, _join(target.path, item.relative), f"{target.shown}/{item.relative}")
        with _about(outer.shown):
            size += _copy_item(inner, outer, item, rule, budget)
    return size


def _copy_item(source: _Tree, target: _Tree, item: _Item, rule: Rule, budget: Budget) -> int:
    budget.spend()
    if item.node.kind == "directory":
        make_directories(target.dir, target.path, mode=item.node.mode | 0o700)  # there is still something to put in it
        return 0
    if item.node.kind == "link":
        _replace_link(target, item.node.target or "")
        return 0
    return _copy_file(source, target, item.relative, rule, budget)


def _replace_link(target: _Tree, text: str) -> None:
    try:
        target.dir.link(target.path, text)
    except FileExistsError:
        if target.dir.stat(target.path).kind == "directory":
            raise
        target.dir.remove(target.path)
        target.dir.link(target.path, text)


def _copy_file(source: _Tree, target: _Tree, relative: str, rule: Rule, budget: Budget, *, replace: bool = True) -> int:
    with _about(source.shown):
        reader = source.dir.open(source.path)
    with reader, _about(target.shown):
        rule(relative, Node("", "file", reader.size, reader.mode, 0.0))  # it may have grown since it was looked at
        return target.dir.write(target.path, _pieces(reader, budget), reader.mode, replace=replace)


def _pieces(reader: Reader, budget: Budget) -> Iterator[bytes]:
    while piece := reader.read(_PIECE):
        budget.spend(size=len(piece))
        yield piece


def _copy_new_tree(
    source: _Tree, target: Place, items: list[_Item], rule: Rule, overwrite: bool, budget: Budget
) -> int:
    """Copy beside the target and rename, so that half a tree is never seen."""
    with _about(target.path):
        parent = paths.split(target.relative)[0]
        aside = _join(parent, temporary_name().decode())
        _vacant(target, overwrite)
        try:
            size = _overlay(source, _Tree(target.dir, aside, target.path), items, rule, budget)
            target.dir.rename(aside, target.relative, replace=overwrite)
        except BaseException:
            _discard(target.dir, aside)
            raise
        return size


def _vacant(target: Place, overwrite: bool) -> None:
    try:
        kind = target.dir.stat(target.relative).kind
    except FileNotFoundError:
        return
    if not overwrite:
        raise ExistsError(f"'{visible(target.path)}' exists already.", path=target.path)
    if kind != "directory":
        raise NotDirectoryError(
            f"'{visible(target.path)}' is a file, and a directory was to replace it.", path=target.path
        )


def _discard(directory: Dir, path: str) -> None:
    with suppress(FileNotFoundError):
        directory.remove(path, tree=True)


def _readable(files: Files, source: Place) -> Rule:
    def rule(relative: str, node: Node) -> None:
        if node.kind == "file":
            files.table.check_content(files.table.locate(paths.join(source.path, relative)), node.size)

    return rule


def _writable(files: Files, target: Place) -> Rule:
    def rule(relative: str, node: Node) -> None:
        place = files.table.locate(paths.join(target.path, relative), write=True)
        if node.kind == "file":
            files.table.check_content(place, node.size)

    return rule


def _both(one: Rule, other: Rule) -> Rule:
    def rule(relative: str, node: Node) -> None:
        one(relative, node)
        other(relative, node)

    return rule


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path and name else path or name


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Errors of directories become typed ones about `path`; typed ones pass."""
    try:
        yield
    except SandboxError:
        raise
    except OSError as error:
        raise typed(error, path) from None


@contextmanager
def _host_directory(path: str) -> Iterator[DescriptorDir]:
    try:
        os.makedirs(path, exist_ok=True)
        host = DescriptorDir.at(path)
    except OSError as error:
        raise ConfigError(
            f"The host directory given to download() cannot be used: {error.strerror}.", hint="Give another."
        ) from None
    with closing(host):
        yield host
