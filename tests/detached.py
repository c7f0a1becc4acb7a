"""Detached sandboxes in tests: programs that make and use them, and seeing that nothing of them is left."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from paddock import Sandbox, cgroups, records, state
from paddock.errors import SandboxError
from paddock.records import SandboxRecord

SECONDS = 60.0


def program(code: str, *arguments: str) -> "subprocess.Popen[str]":
    """A Python program with `Sandbox`, the code being the body of an async function."""
    body = "\n".join(f"    {line}" for line in code.strip().splitlines())
    text = f"import asyncio, os, sys\nfrom paddock import *\nasync def main():\n{body}\nasyncio.run(main())"
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ran(code: str, *arguments: str) -> str:
    """What such a program prints; it has to end well."""
    started = program(code, *arguments)
    output, errors = started.communicate(timeout=SECONDS)
    assert started.returncode == 0, errors
    return output


def first_line(started: "subprocess.Popen[str]") -> str:
    """What a program prints first; it goes on."""
    assert started.stdout is not None
    line = started.stdout.readline().strip()
    assert line, started.communicate()[1]
    return line


def record(name: str) -> SandboxRecord:
    return records.find(name)


def traces(found: SandboxRecord) -> list[str]:
    """What there is of a sandbox on this host: processes, cgroups, files and its socket."""
    sandbox, left = found.info.id, [found.held["socket"], f"/proc/{found.held['pid']}"]
    left += map(str, (state.state_directory() / "sandboxes").glob(f"*{sandbox}*"))
    parent = cgroups.parent()
    left += [] if parent is None else [os.path.join(parent, f"{cgroups.NAME}{sandbox}")]
    return [path for path in left if os.path.exists(path) and not is_dead(path)]


def seeing(directory: str) -> list[str]:
    """Processes that have something below this directory mounted."""
    found = []
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            if directory in path.read_text():
                found.append(str(path))
        except OSError:  # it has ended
            continue
    return found


def is_dead(path: str) -> bool:
    """Whether it is a process that is only still to be collected."""
    try:
        return path.startswith("/proc/") and Path(path, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for something that comes sooner or later."""
    deadline = time.monotonic() + SECONDS
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def no_traces(found: SandboxRecord) -> None:
    """Wait until nothing of it is there: the kernel may still be at its last process."""

    async def are_gone() -> bool:
        return traces(found) == []

    await until(are_gone, "something is left")


async def ended(name: str) -> None:
    """Wait until a sandbox has come to its end by itself."""

    async def is_gone() -> bool:
        return all(name not in (info.id, info.name) for info in await Sandbox.find())

    await until(is_gone, f"{name} still runs")


def remove_all() -> None:
    async def remove() -> None:
        for info in await Sandbox.find():
            try:
                await Sandbox.remove(info.id)
            except SandboxError as error:
                print(error, file=sys.stderr)

    asyncio.run(remove())


def left() -> list[str]:
    """What the records' own place still holds, and sockets."""
    places = [state.state_directory() / "sandboxes", state.runtime_directory()]
    return [str(path) for place in places if place.is_dir() for path in place.iterdir() if path.name != ".records"]
