"""What `import paddock` costs, in programs that do nothing else."""

import os
import subprocess
import sys
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.measure import Check, Rows, alternate, compare

HOLD = 0.5
_PROGRAMS = {
    "nothing": "pass",
    "asyncio": "import asyncio",
    "paddock": "import paddock",
    "Sandbox": "from paddock import Sandbox",
}
_LOADED = "import sys; before = set(sys.modules); import paddock; print(*sorted(set(sys.modules) - before))"


def imports(bench: Bench) -> Rows:
    """The time of a program that imports, less that of one that does not; and which modules come along."""
    rounds = bench.scale.rounds
    taken = alternate({name: lambda code=code: _spawn(bench, code)[0] for name, code in _PROGRAMS.items()}, rounds)  # type: ignore[misc]
    cost = {
        name: [one - nothing for one, nothing in zip(times, taken["nothing"], strict=True)]
        for name, times in taken.items()
    }
    yield compare("import paddock", cost["paddock"], cost["asyncio"], against="import asyncio", hold=HOLD)
    yield compare("from paddock import Sandbox", cost["Sandbox"], cost["asyncio"], against="import asyncio")
    yield _loads(bench)


def _loads(bench: Bench) -> Check:
    modules = _spawn(bench, _LOADED)[1].split()
    ours = [name for name in modules if name.split(".")[0] == "paddock"]
    foreign = [name for name in modules if name not in ours and name.split(".")[0] not in sys.stdlib_module_names]
    unwanted = foreign + [name for name in modules if name.split(".")[0] == "asyncio"]
    words = f"loads {len(modules)} modules more, of which {len(ours)} of its own"
    if unwanted:
        words += f"; unwanted: {', '.join(unwanted)}"
    return Check("import paddock: only the standard library, no asyncio", words, not unwanted)


def _spawn(bench: Bench, code: str) -> tuple[float, str]:
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(bench.directory / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is imported is compiled once, as for any user
    started = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=bench.directory,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        timeout=60,
        text=True,
    )
    return perf_counter() - started, done.stdout
