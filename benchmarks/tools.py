"""What a tool adds to the same call on the sandbox."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.measure import Rows, compare
from paddock import Namespaces, Sandbox
from paddock.tools import sandbox_tools

HOLD = 1.1
_COMMANDS, _FILES = 40, 200

Call = Callable[[], Awaitable[object]]


def tools(bench: Bench) -> Rows:
    """Commands are held to a tenth. File calls take microseconds, and so does what is made of them; these are shown."""
    taken = asyncio.run(_turns(bench.scale.rounds))
    for case, (ours, plain, hold) in taken.items():
        yield compare(f"the tool {case}", ours, plain, against="the sandbox's own call", hold=hold)


async def _turns(rounds: int) -> dict[str, tuple[list[float], list[float], float | None]]:
    async with Sandbox.create(Namespaces()) as sb:
        offered = sandbox_tools(sb)
        text = "a line of text\n" * 270
        await sb.write("f.txt", text)
        cases: dict[str, tuple[Call, Call, int, float | None]] = {
            "run_command": (
                lambda: offered.call("run_command", {"command": "true"}),
                lambda: sb.exec("true"),
                _COMMANDS,
                HOLD,
            ),
            "grep": (
                lambda: offered.call("grep", {"pattern": "line"}),
                lambda: sb.grep("line"),
                _COMMANDS,
                None,
            ),
            "read_file": (lambda: offered.call("read_file", {"path": "f.txt"}), lambda: sb.read("f.txt"), _FILES, None),
            "write_file": (
                lambda: offered.call("write_file", {"path": "g.txt", "content": text}),
                lambda: sb.write("g.txt", text),
                _FILES,
                None,
            ),
        }
        found: dict[str, tuple[list[float], list[float], float | None]] = {n: ([], [], c[3]) for n, c in cases.items()}
        for number in range(rounds + 1):
            for name, (tool, plain, count, _) in cases.items():
                ours, theirs = await _timed(tool, count), await _timed(plain, count)
                if number:
                    found[name][0].append(ours)
                    found[name][1].append(theirs)
        return found


async def _timed(call: Call, count: int) -> float:
    started = perf_counter()
    for _ in range(count):
        await call()
    return (perf_counter() - started) / count
