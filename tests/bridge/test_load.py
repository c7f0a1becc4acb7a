"""Many at once: everybody gets their own answer, and nothing grows."""

import asyncio
import gc
import resource
import time
import tracemalloc
from contextlib import AsyncExitStack

from bridge.conftest import official
from paddock import Namespaces, Sandbox
from paddock.bridge import ToolContext

CONNECTIONS, CALLS = 20, 500


async def slow(number: int, context: ToolContext) -> str:
    """An answer that is asked for."""
    await asyncio.sleep(0.01)
    context.report_progress(1)
    return f"{number}"


def in_a_thread(number: int) -> str:
    """The same, not async."""
    time.sleep(0.01)
    return f"{number}"


async def test_500_calls_from_20_connections() -> None:
    async with Sandbox.create(Namespaces(), tools=[slow, in_a_thread]) as sb, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(official(sb, mode="legacy")) for _ in range(CONNECTIONS)]

        async def round_of_calls(tool: str) -> None:
            calls = (clients[n % CONNECTIONS].call_tool(tool, {"number": n}) for n in range(CALLS))
            answers = await asyncio.gather(*calls)
            assert [one.content[0].text for one in answers] == [str(n) for n in range(CALLS)]  # type: ignore[union-attr]

        tracemalloc.start()  # before anything is kept that is only replaced later
        for tool in ("slow", "in_a_thread") * 2:
            await round_of_calls(tool)
        gc.collect()
        before, peak = tracemalloc.get_traced_memory()[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for tool in ("slow", "in_a_thread") * 2:
            await round_of_calls(tool)
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert after - before < 3 << 20
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 64 << 10
