"""`Dir` over the wire: the supervisor makes every call, beneath the same root and by the same rules."""

import builtins
import errno
import os
from collections.abc import Callable, Iterable

from paddock.dirs.protocol import Change, Node, Write
from paddock.paths import encode, split
from paddock.wire.calls import Calls, Root, broken
from paddock.wire.fields import Malformed, pack_text, pack_u8, pack_u16
from paddock.wire.files import NewFile, WireReader, replaceable
from paddock.wire.frames import Reply, Request
from paddock.wire.nodes import read_entries, read_node
from paddock.wire.stage import WireStage

_BLINDLY = 1 << 20  # a file up to this size is sent before anything is known of its place
_NO_ROOT = 0xFFFFFFFF


class WireDir:
    """The root that the supervisor knows by this number. It lasts as long as the channel does."""

    remote = True

    def __init__(self, calls: Calls, root: int) -> None:
        self._root = Root(calls, root)

    def stat(self, path: str) -> Node:
        (payload,) = self._root.ask(Request.STAT, self._root.at(path), Reply.NODE)
        try:
            return read_node(payload, split(path)[1])
        except Malformed:
            raise broken() from None

    def list(self, path: str, *, stats: bool) -> builtins.list[Node]:
        payloads = self._root.ask(Request.LIST, self._root.at(path) + pack_u8(stats), Reply.ENTRIES)
        try:
            return read_entries(payloads)
        except Malformed:
            raise broken() from None

    def open(self, path: str, offset: int = 0) -> WireReader:
        return WireReader(self._root, path, offset)

    def write(self, path: str, data: bytes | Iterable[bytes], mode: int | None, *, replace: bool = True) -> int:
        directory, name = split(path)
        parts = (data,) if isinstance(data, bytes) else data
        if not isinstance(data, bytes) or len(data) > _BLINDLY:
            self._check_place(path, replace)
        file = NewFile(self._root, directory)
        try:
            for part in parts:
                file.append(part)
            file.put(name, mode, replace=replace)
            file.settle()
        except BaseException:
            file.close()
            if file.refused:
                self._check_place(path, replace)  # which would have been the first thing to say
            raise
        return file.size

    def stage(self, files: Iterable[Write]) -> WireStage:
        return WireStage(self._root, files)

    def mkdir(self, path: str, mode: int = 0o755) -> None:
        self._root.ask(Request.MKDIR, self._root.at(path) + pack_u16(mode & 0o777))

    def remove(self, path: str, *, tree: bool = False) -> None:
        self._root.ask(Request.REMOVE, self._root.at(path) + pack_u8(tree))

    def rename(self, path: str, to: str, *, replace: bool) -> None:
        self._root.ask(Request.RENAME, self._root.at(path) + pack_text(encode(to)) + pack_u8(not replace))

    def link(self, path: str, target: str) -> None:
        self._root.ask(Request.LINK, self._root.at(path) + pack_text(encode(target)))

    def watch(self, path: str, notify: Callable[[builtins.list[Change]], None]) -> Callable[[], None]:
        from paddock.dirs.watching import watch_tree
        from paddock.wire.watch import WireSource

        return watch_tree(WireSource(self._root), path, notify)

    def close(self) -> None:
        self._root = Root(self._root.calls, _NO_ROOT)

    def _check_place(self, path: str, replace: bool) -> None:
        old = replaceable(self._root.send(Request.STAT, self._root.at(path)))
        if old is not None and not replace:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
