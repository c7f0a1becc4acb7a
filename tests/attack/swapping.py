"""The attacker at work: pairs of paths that are swapped for each other for the length of a block."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ATTACKER = Path(__file__).with_name("swapper.py")


@contextmanager
def swapping(workspace: Path) -> Iterator[None]:
    """`d` and `f` are swapped with `d-link` and `f-link`, as fast as a process of its own can."""
    with swapping_pairs(*(workspace / name for name in ("d", "d-link", "f", "f-link"))):
        yield


@contextmanager
def swapping_pairs(*pairs: Path) -> Iterator[None]:
    """Each path and the one after it change places all the time."""
    attacker = subprocess.Popen([sys.executable, "-I", "-S", str(_ATTACKER), *map(str, pairs)], stdout=subprocess.PIPE)
    assert attacker.stdout is not None
    try:
        assert attacker.stdout.readline() == b"ready\n"
        yield
    finally:
        attacker.kill()
        attacker.wait()
        attacker.stdout.close()
