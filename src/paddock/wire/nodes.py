"""Directory entries, as they come on the wire. A name that could lead elsewhere is malformed, whoever sent it."""

import struct

from paddock.dirs.protocol import Node
from paddock.dirs.watching import Watched
from paddock.paths import decode
from paddock.types.files import Kind
from paddock.wire.fields import Fields, Malformed

_KINDS: tuple[Kind, ...] = ("file", "directory", "link", "other")
_NUMBERS = struct.Struct("<BQHq")
_BILLION = 1_000_000_000


def read_node(payload: bytes, name: str) -> Node:
    """The one node of a payload, under the name that was asked for."""
    fields = Fields(payload)
    node = _node(fields)
    fields.end()
    return node._replace(name=name)


def read_entries(payloads: list[bytes]) -> list[Node]:
    """The nodes of a whole listing."""
    found: list[Node] = []
    for payload in payloads:
        fields = Fields(payload)
        fields.u8()
        for _ in range(fields.u32()):
            node = _node(fields)
            _check(node.name)
            found.append(node)
        fields.end()
    return found


def read_watched(payloads: list[bytes]) -> Watched:
    """The watch of a directory, and what is in it."""
    watch, entries = 0, []
    for payload in payloads:
        fields = Fields(payload)
        fields.u8()
        watch = fields.u32()
        for _ in range(fields.u32()):
            is_directory, name = fields.u8() != 0, decode(fields.text())
            _check(name)
            entries.append((name, is_directory))
        fields.end()
    return Watched(watch, entries)


def _node(fields: Fields) -> Node:
    kind, size, mode, mtime = fields.numbers(_NUMBERS)
    name, target = fields.text(), fields.text()
    if kind >= len(_KINDS):
        raise Malformed("a node of no known kind")
    seconds, rest = divmod(mtime, _BILLION)
    link = decode(target) if kind == 2 else None
    return Node(decode(name), _KINDS[kind], size, mode & 0o777, seconds + 1e-9 * rest, link)


def _check(name: str) -> None:
    if name in ("", ".", "..") or "/" in name:
        raise Malformed("an entry's name is not a name")
