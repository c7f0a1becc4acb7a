"""Snapshots of a workspace against copying it with `cp -a`."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from time import perf_counter

from benchmarks import plain
from benchmarks.bench import Bench
from benchmarks.measure import Rows, Step, alternate, compare
from paddock.dirs.descriptor import DescriptorDir
from paddock.dirs.protocol import Dir
from paddock.snapshots import Store, restore, take

CHANGED = 10
IN_A_DIRECTORY = 100
DATA = b"The quick brown fox jumps over the lazy dog, twice a day or so.\n" * 16
COPY = "cp -a"
HOLD = 0.25
LARGE = 1_000
"""Files, from which on the hold counts: what every snapshot costs is a good part of the first one of a hundred."""


def snapshots(bench: Bench) -> Rows:
    """The first one, one after ten files changed, a fork, and a restore of ten files, in trees of several sizes."""
    for size in (bench.scale.files // 10, bench.scale.files, bench.scale.files * 5):
        yield from _of(bench, bench.directory / f"snapshots-{size}", size)


def _of(bench: Bench, directory: Path, size: int) -> Rows:
    tree = directory / "tree"
    _write(tree, size)
    with closing(DescriptorDir.at(str(tree))) as dir:
        numbers = count()
        store = Store(directory / "store")
        take(dir, store, "sb")
        steps: dict[str, Step] = {
            "first": lambda: _first(dir, directory / f"store-{next(numbers)}"),
            "ten": lambda: _ten(dir, tree, store, next(numbers)),
            "fork": lambda: _fork(store, directory / f"fork-{next(numbers)}"),
            "restore": lambda: _restore(dir, tree, store, next(numbers)),
            COPY: lambda: _copy(tree, directory / f"copy-{next(numbers)}"),
        }
        taken = alternate(steps, 3)
    yield compare(f"first snapshot of {size:,} files", taken["first"], taken[COPY], against=COPY)
    case = f"snapshot, {CHANGED} of {size:,} files changed"
    yield compare(case, taken["ten"], taken[COPY], against=COPY)
    hold = HOLD if size >= LARGE else None
    yield compare(case, taken["ten"], taken["first"], against="first snapshot", hold=hold)
    yield compare(f"restore, {CHANGED} of {size:,} files changed", taken["restore"], taken[COPY], against=COPY)
    yield compare(f"fork of {size:,} files", taken["fork"], taken[COPY], against=COPY)


def _write(tree: Path, size: int) -> None:
    """Small files, each of its own content."""
    for name, numbers in _directories(size):
        path = tree / name
        os.makedirs(path)
        with plain.directory(path) as at:
            for number in numbers:
                plain.create(at, f"{number}.txt", b"%d\n" % number + DATA)


def _directories(size: int) -> Iterator[tuple[str, range]]:
    for start in range(0, size, IN_A_DIRECTORY):
        yield f"d{start // IN_A_DIRECTORY}", range(start, min(start + IN_A_DIRECTORY, size))


def _change(tree: Path, turn: int) -> None:
    for number in range(CHANGED):
        path = tree / "d0" / f"{number}.txt"
        path.write_bytes(b"%d %d\n" % (turn, number) + DATA)


def _first(dir: Dir, at: Path) -> float:
    store = Store(at)
    return _timed(lambda: take(dir, store, "sb"))


def _ten(dir: Dir, tree: Path, store: Store, turn: int) -> float:
    _change(tree, turn)
    return _timed(lambda: take(dir, store, "sb"))


def _fork(store: Store, at: Path) -> float:
    os.mkdir(at)
    with closing(DescriptorDir.at(str(at))) as dir:
        return _timed(lambda: restore(dir, store, store.snapshots()[-1]))


def _restore(dir: Dir, tree: Path, store: Store, turn: int) -> float:
    _change(tree, turn)
    return _timed(lambda: restore(dir, store, store.snapshots()[-1], sandbox="sb"))


def _copy(tree: Path, to: Path) -> float:
    return _timed(lambda: subprocess.run(["cp", "-a", tree, to], check=True))


def _timed(work: Callable[[], object]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started
