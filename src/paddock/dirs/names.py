"""Names for files on their way to their place: nobody can guess them, so nobody can be there first."""

import os
from binascii import hexlify
from collections import deque

PREFIX = b".paddock-"
_ready: deque[bytes] = deque()  # one call for many: each write needs one


def temporary_name() -> bytes:
    """A name that was never used."""
    try:
        return _ready.pop()
    except IndexError:
        random = os.urandom(8 * 128)
        _ready.extend(PREFIX + hexlify(random[i : i + 8]) for i in range(0, len(random), 8))
        return PREFIX + hexlify(os.urandom(8))


os.register_at_fork(after_in_child=_ready.clear)
