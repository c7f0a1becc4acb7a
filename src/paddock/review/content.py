"""What is in a file: its hash, and its bytes where these are few enough to be compared line by line."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from paddock.diffs import MOST_BYTES
from paddock.errors import TooLargeError, visible
from paddock.review.bounds import Spending
from paddock.review.tree import Seen, Tree, seen

MOST_OF_ONE = 4 << 30
_PIECE = 1 << 20
_ORIGIN = "user.overlay.origin"


@dataclass(frozen=True, slots=True)
class Content:
    """A file as it was read once."""

    sha256: str
    size: int
    seen: Seen
    data: bytes | None
    """None if it is large."""
    copied_up: bool = False
    """Whether an overlay made it, and it alone, out of a file of the host's."""


def read(tree: Tree, path: str, spending: Spending) -> Content:
    """Read a file to where it ended when it was opened. Whatever else is there is an `OSError`."""
    with tree.open(path) as fd:
        info = os.fstat(fd)
        if info.st_size > MOST_OF_ONE:
            raise TooLargeError(
                f"'{visible(path)}' has {info.st_size:,} bytes, and one file may have {MOST_OF_ONE:,}.",
                hint="Remove it, or move it to /cache, and look again.",
            )
        digest, size, kept = sha256(), 0, bytearray()
        for piece in pieces(fd, info.st_size):
            spending.spend(size=len(piece))
            digest.update(piece)
            size += len(piece)
            if size <= MOST_BYTES:
                kept += piece
        data = bytes(kept) if size <= MOST_BYTES else None
        return Content(digest.hexdigest(), size, seen(info), data, info.st_nlink == 1 and is_copied_up(fd))


def pieces(fd: int, size: int) -> Iterator[bytes]:
    """The first `size` bytes, or what there is of them."""
    while size > 0 and (piece := os.read(fd, min(size, _PIECE))):
        yield piece
        size -= len(piece)


def is_copied_up(fd: int) -> bool:
    """Whether an overlay made this file or directory out of one of the host's."""
    try:
        os.getxattr(fd, _ORIGIN)
    except OSError:
        return False
    return True
