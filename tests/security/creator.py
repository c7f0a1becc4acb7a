"""A host process that tests kill: it makes a sandbox, starts a command in it, says so, and waits.

`creator.py BACKEND WAY NAME=VALUE [PART…]`; the pair is for the command, the parts are taken away. The ways: `plain`;
`forked`, where a child of its own holds all descriptors; `child`, where the one who makes the sandbox is itself a child that
was forked; `thread`, where the thread that made the sandbox ends before it says so, and the loop goes on in another.
"""

import asyncio
import os
import sys
import threading
import time

from paddock import Sandbox


async def make(backend: str, env: dict[str, str]) -> Sandbox:
    sb = await Sandbox.create(backend)
    await sb.write("f", "x")
    await sb.start(["sleep", "100"], env=env)
    return sb


def in_a_thread(backend: str, env: dict[str, str]) -> None:
    """Whoever holds the loop holds the sandbox, and that is another thread now: what becomes of a command?"""
    loop = asyncio.new_event_loop()
    made: list[Sandbox] = []
    thread = threading.Thread(target=lambda: made.append(loop.run_until_complete(make(backend, env))))
    thread.start()
    thread.join()
    time.sleep(0.5)
    print("started", os.getpid(), loop.run_until_complete(made[0].exec("echo lives")).stdout, end="", flush=True)
    time.sleep(100)


def take_away(parts: tuple[str, ...]) -> None:
    """Parts of the boundary that this sandbox is to do without."""
    import pytest

    from security.mutations import MUTATIONS

    for part in parts:
        MUTATIONS[part].remove(pytest.MonkeyPatch())


def main(backend: str, way: str, pair: str, *removed: str) -> None:
    env = dict([pair.split("=")])
    if removed:
        take_away(removed)
    if way == "child" and (child := os.fork()):
        os.waitpid(child, 0)
        return
    if way == "thread":
        in_a_thread(backend, env)
        return

    async def run() -> None:
        async with await make(backend, env):
            if way == "forked" and os.fork() == 0:
                time.sleep(100)  # noqa: ASYNC251 - there is no loop in it
                os._exit(0)
            print("started", os.getpid(), flush=True)
            await asyncio.sleep(100)

    asyncio.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])
