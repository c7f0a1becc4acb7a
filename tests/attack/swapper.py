"""The attacker: swaps pairs of paths for each other, as fast as it can, until it is ended. Run as a program."""

import ctypes
import sys

AT_FDCWD, RENAME_EXCHANGE = -100, 2


def main(pairs: list[bytes]) -> None:
    libc = ctypes.CDLL(None)
    swaps = [(ctypes.c_char_p(a), ctypes.c_char_p(b)) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    print("ready", flush=True)
    while True:
        for one, other in swaps:
            libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)


if __name__ == "__main__":
    main([argument.encode() for argument in sys.argv[1:]])
