"""File calls of a sandbox against the same with `os`."""

import glob as globbing
import os
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import plain
from benchmarks.bench import AUDITED, Bench, Drain, Subject, nothing
from benchmarks.measure import Rows, Step, alternate, compare
from paddock.sync import Sandbox

WRITE_HOLD = 1.5
READ_HOLD = 4.0
WORKSPACE = "/workspace"
DEEP = "one/two/three"
DATA = b"The quick brown fox jumps over the lazy dog, twice a day or so.\n" * 64
SMALL = DATA[:64]

Call = Callable[[str], Coroutine[Any, Any, object]]
Names = Callable[[], list[str]]
"""What the calls of one turn are about."""


def read(bench: Bench) -> Rows:
    """4 KiB by `read`: at the root of a mount and three directories down."""
    subjects = _subjects(bench)
    os.makedirs(bench.workspace / DEEP, exist_ok=True)
    for case, name in (("at the root", "file"), ("3 deep", f"{DEEP}/file")):
        for subject in subjects:
            bench.run(subject.sandbox.write(name, DATA))
        names = _same(name, bench.scale.calls)
        steps = {subject.title: _turns(bench, subject, subject.sandbox.read, names) for subject in subjects}
        steps["os"] = _plain_turns(lambda name: plain.read(bench.at, name), names)
        yield from _each(f"read {case}", subjects, steps, bench.scale.rounds, READ_HOLD)


def write(bench: Bench) -> Rows:
    """4 KiB by `write`: a new file, one that is replaced, and one that is replaced three directories down."""
    subjects = _subjects(bench)
    os.makedirs(bench.workspace / DEEP, exist_ok=True)
    cases = {"new": "", "replace": "old", "replace, 3 deep": f"{DEEP}/old"}
    for case, name in cases.items():
        names = {
            title: _same(f"{name}-{title}", bench.scale.calls) if name else _fresh(title, bench.scale.calls)
            for title in ("os", *(subject.title for subject in subjects))
        }
        steps = {subject.title: _turns(bench, subject, _writer(subject), names[subject.title]) for subject in subjects}
        steps["os"] = _plain_turns(lambda name: plain.write(bench.at, name, f"{name}.temporary", DATA), names["os"])
        yield from _each(f"write {case}", subjects, steps, bench.scale.rounds, WRITE_HOLD)


def write_files(bench: Bench) -> Rows:
    """Many small new files by one `write_files`: against temporary files and renames, and against plain creation."""
    tree = _tree(bench)
    subjects = [bench.sandbox(backend) for backend in AUDITED]
    steps = {subject.title: _set_turns(bench, subject, tree) for subject in subjects}
    steps["os"] = _tree_turns(bench.workspace / "atomic", tree, atomic=True)
    steps["direct"] = _tree_turns(bench.workspace / "direct", tree, atomic=False)
    taken = alternate(steps, bench.scale.few_rounds, warm=False)
    for subject in subjects:
        case = f"write_files {bench.scale.files:,}, {subject.title}"
        yield compare(case, taken[subject.title], taken["os"], hold=WRITE_HOLD)
        yield compare(case, taken[subject.title], taken["direct"], against="os, no rename")


def list_(bench: Bench) -> Rows:
    """The names in a small and in a large directory, by `list`."""
    subject = bench.sandbox("local")
    for size in (100, bench.scale.files):
        name, calls = f"list-{size}", max(1, 20_000 // size)
        plain.write_tree(bench.workspace, {name: map(str, range(size))}, b"")
        _agree(bench.run(subject.sandbox.list(name)), sorted(os.listdir(bench.workspace / name)))
        ours = _turns(bench, subject, subject.sandbox.list, _same(name, calls))
        theirs = _plain_turns(lambda name: sorted(os.listdir(bench.workspace / name)), _same(name, calls))
        taken = alternate({"ours": ours, "os": theirs}, bench.scale.rounds)
        yield compare(f"list {size:,}, {subject.title}", taken["ours"], taken["os"], against="sorted(listdir)")


def glob(bench: Bench) -> Rows:
    """Half of the files of a tree, by `glob`."""
    subject = bench.sandbox("local")
    host = bench.workspace / "tree"
    plain.write_tree(host, _tree(bench), SMALL)
    _agree(len(bench.run(subject.sandbox.glob("tree/**/*.py"))), sum(1 for _ in host.glob("**/*.py")))
    steps = {
        "ours": _turns(bench, subject, subject.sandbox.glob, _same("tree/**/*.py", 1)),
        "glob": _plain_turns(
            lambda pattern: sorted(globbing.glob(pattern, recursive=True)), _same(f"{host}/**/*.py", 1)
        ),
        "pathlib": _plain_turns(lambda pattern: sorted(map(str, host.glob(pattern))), _same("**/*.py", 1)),
    }
    taken = alternate(steps, bench.scale.few_rounds)
    for name in ("glob", "pathlib"):
        case = f"glob over {bench.scale.files:,}, {subject.title}"
        yield compare(case, taken["ours"], taken[name], against=f"sorted({name})")


def sync(bench: Bench) -> Rows:
    """4 KiB by `read` of `paddock.sync`."""
    names = _same("file", bench.scale.calls)
    with bench.audit(True) as drain, Sandbox.create("local", root=bench.root) as sandbox:
        sandbox.write("file", DATA)
        steps = {
            "ours": _plain_turns(sandbox.read, names, drain),
            "os": _plain_turns(lambda name: plain.read(bench.at, name), names),
        }
        taken = alternate(steps, bench.scale.rounds)
    yield compare("read by sync at the root, local, audit on", taken["ours"], taken["os"])


def _subjects(bench: Bench) -> list[Subject]:
    """Every backend with and without the audit log, as users have it first."""
    return [bench.sandbox(backend, audit=audit) for backend, usual in AUDITED.items() for audit in (usual, not usual)]


def _each(case: str, subjects: list[Subject], steps: dict[str, Step], rounds: int, hold: float) -> Rows:
    """Every subject against the one baseline; what users do not have by default is shown and not held."""
    taken = alternate(steps, rounds)
    for subject in subjects:
        held = hold if subject.default else None
        yield compare(f"{case}, {subject.title}", taken[subject.title], taken["os"], hold=held)


def _turns(bench: Bench, subject: Subject, call: Call, names: Names) -> Step:
    """Turns of an async call: the loop is entered before the clock starts, the log is on disk before it stops."""

    async def turn() -> float:
        arguments = names()
        started = perf_counter()
        for argument in arguments:
            await call(argument)
        subject.drain()
        return (perf_counter() - started) / len(arguments)

    return lambda: bench.run(turn())


def _plain_turns(call: Callable[[str], object], names: Names, drain: Drain = nothing) -> Step:
    def turn() -> float:
        arguments = names()
        started = perf_counter()
        for argument in arguments:
            call(argument)
        drain()
        return (perf_counter() - started) / len(arguments)

    return turn


def _set_turns(bench: Bench, subject: Subject, tree: dict[str, list[str]]) -> Step:
    """Turns of `write_files`, each below a directory of its own."""
    numbers = count()

    async def turn() -> float:
        top = f"{WORKSPACE}/{next(numbers)}"
        contents: dict[str, str | bytes] = {f"{top}/{name}/{file}": SMALL for name in tree for file in tree[name]}
        started = perf_counter()
        await subject.sandbox.write_files(contents)
        subject.drain()
        return perf_counter() - started

    return lambda: bench.run(turn())


def _tree_turns(root: Path, tree: dict[str, list[str]], *, atomic: bool) -> Step:
    numbers = count()

    def turn() -> float:
        top = root / str(next(numbers))
        started = perf_counter()
        plain.write_tree(top, tree, SMALL, atomic=atomic)
        return perf_counter() - started

    return turn


def _writer(subject: Subject) -> Call:
    return lambda path: subject.sandbox.write(path, DATA)


def _tree(bench: Bench) -> dict[str, list[str]]:
    """Directories with the names of the files in them, of which half end in `.py`."""
    each = bench.scale.files // bench.scale.directories
    names = [f"file-{number}.{'py' if number % 2 else 'txt'}" for number in range(each)]
    return {f"directory-{number}": names for number in range(bench.scale.directories)}


def _same(name: str, calls: int) -> Names:
    names = [name] * calls
    return lambda: names


def _fresh(name: str, calls: int) -> Names:
    numbers = count()
    return lambda: [f"{name}-{next(numbers)}" for _ in range(calls)]


def _agree(ours: object, theirs: object) -> None:
    if ours != theirs:
        raise AssertionError("both sides of a comparison have to do the same")
