"""`review=True` over host directories of several sizes, beside a sandbox without it."""

import os
from pathlib import Path
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.measure import Rows, Step, alternate, compare
from paddock import Mount, Namespaces, Sandbox

LARGE_HOLD = 2.0
_IN_ONE = 1000
_CHANGED = 10


def review(bench: Bench) -> Rows:
    """From nothing to everything cleaned up: a layer is to cost the same, however much lies below it."""
    sizes = (0, bench.scale.files // 10, bench.scale.files * 10)
    trees = {size: _tree(bench.directory / f"review-{size}", size) for size in sizes}
    steps = {f"{size}": _turns(bench, tree, review=True) for size, tree in trees.items()}
    taken = alternate({"plain": _turns(bench, trees[0], review=False), **steps}, bench.scale.rounds)
    empty = taken["0"]
    yield compare("create, close with review=True over an empty directory", empty, taken["plain"], against="without")
    for size in sizes[1:]:
        case = f"create, close with review=True over {size:,} files"
        yield compare(case, taken[f"{size}"], empty, against="over an empty one", hold=LARGE_HOLD)
    yield from _changes(bench, trees)


def _changes(bench: Bench, trees: dict[int, Path]) -> Rows:
    """Ten files changed, and what `changes()` takes to find them, however much lies below."""
    sandboxes = {size: bench.run(_changed(tree)) for size, tree in trees.items()}
    try:
        taken = alternate({f"{size}": _looks(bench, sb) for size, sb in sandboxes.items()}, bench.scale.rounds)
    finally:
        for sandbox in sandboxes.values():
            bench.run(sandbox.close())
    for size in list(trees)[1:]:
        case = f"changes() of {_CHANGED} files over {size:,}"
        yield compare(case, taken[f"{size}"], taken["0"], against="over none", hold=LARGE_HOLD)


async def _changed(tree: Path) -> Sandbox:
    sandbox = await Sandbox.create(Namespaces(), mounts=[Mount(tree, "/project", mode="rw")], review=True)
    await sandbox.write_files({f"/project/changed/{number}": "text\n" for number in range(_CHANGED)})
    return sandbox


def _looks(bench: Bench, sandbox: Sandbox) -> Step:
    async def turn() -> float:
        started = perf_counter()
        found = await sandbox.changes()
        taken = perf_counter() - started
        if len(found) != _CHANGED + 1:
            raise AssertionError("a change was not found")
        return taken

    return lambda: bench.run(turn())


def _tree(path: Path, size: int) -> Path:
    """So many small files."""
    path.mkdir()
    for first in range(0, size, _IN_ONE):
        directory = path / f"{first}"
        directory.mkdir()
        at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        for number in range(min(_IN_ONE, size - first)):
            file = os.open(f"{number}", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=at)
            os.write(file, b"small\n")
            os.close(file)
        os.close(at)
    return path


def _turns(bench: Bench, tree: Path, *, review: bool) -> Step:
    async def turn() -> float:
        started = perf_counter()
        async with Sandbox.create(Namespaces(), mounts=[Mount(tree, "/project", mode="rw")], review=review):
            pass
        return perf_counter() - started

    return lambda: bench.run(turn())
