"""Standard output, which is this program's own: code of the user's that runs here prints to standard error.

What a tool prints, in whichever thread, would otherwise stand in the middle of a command's output, or of JSON.
"""

import os
import sys
from typing import TextIO

_lent: list[tuple[TextIO, TextIO, int]] = []
"""What stands in its place, what was there, and its descriptor."""


def lend() -> None:
    """From now on everything but `own` and `descriptor` goes to standard error, also that of programs that are started."""
    if sys.stdout is None or sys.stderr is None or _is_lent():
        return
    given: TextIO = sys.stdout
    fd = 1
    if sys.stdout is sys.__stdout__ and given.fileno() == 1:
        given.flush()
        fd = os.dup(1)
        os.dup2(2, 1)
        given = os.fdopen(fd, "w", encoding=given.encoding, errors=given.errors, buffering=1, closefd=False)
    _lent[:] = [(sys.stderr, given, fd)]
    sys.stdout = sys.stderr


def own() -> TextIO | None:
    """Standard output as it was given to this program; None if it was closed."""
    return _lent[0][1] if _is_lent() else sys.stdout


def descriptor() -> int:
    """The same as a descriptor."""
    return _lent[0][2] if _is_lent() else 1


def _is_lent() -> bool:
    return bool(_lent) and sys.stdout is _lent[0][0]
