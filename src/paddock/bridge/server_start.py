"""What an MCP server's program is started by, and becomes: it ends when Paddock does, however that ends.

It is run as a program, with the number of the process that started it and the words to run, and imports nothing of Paddock.
"""

import ctypes
import os
import signal
import sys

_DIE_WITH_PARENT = 1


def main(parent: int, words: list[str]) -> None:
    """Become these words' program."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it has ended already
        return
    try:
        os.execvp(words[0], words)  # noqa: S606 - there is no shell, as was promised
    except OSError as error:
        sys.exit(f"{words[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
