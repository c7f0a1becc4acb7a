"""What a snapshot lists: an entry for each file, directory and link, as data and as bytes."""

import json
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from paddock import paths
from paddock.errors import visible

WORKSPACE = "/workspace"
_DIGEST = re.compile(rb'"([0-9a-f]{64})"')


class Entry(NamedTuple):
    """One path relative to the workspace. There are no owners, no special bits and no attributes to carry."""

    path: str
    kind: Literal["file", "directory", "link", "deleted"]
    """`deleted` is in the host directory of a sandbox under review, and not in the sandbox."""
    mode: int = 0
    size: int = 0
    digest: str = ""
    """The SHA-256 of a file's content."""
    target: str = ""
    """What a link says."""


def encoded(entries: Iterable[Entry]) -> bytes:
    """All of them; a name that is not UTF-8 stays what it is."""
    return json.dumps(list(entries), separators=(",", ":")).encode("ascii")


def decoded(data: bytes) -> list[Entry]:
    """The inverse of `encoded`; ValueError or TypeError for anything else."""
    return [Entry(*fields) for fields in json.loads(data)]


def digests(data: bytes) -> set[str]:
    """Every content that these bytes speak of, and perhaps more, without taking them apart."""
    return {found.decode() for found in _DIGEST.findall(data)}


def shown(path: str) -> str:
    """A relative path as the sandbox knows it."""
    return paths.join(WORKSPACE, path)


def quoted(path: str) -> str:
    """The same, to be read by people."""
    return f"'{visible(shown(path))}'"


def join(directory: str, name: str) -> str:
    """A name below a relative directory."""
    return f"{directory}/{name}" if directory else name
