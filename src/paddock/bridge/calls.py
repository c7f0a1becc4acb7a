"""One call of a tool: who agrees, how long, how much comes back, and what is told of it."""

import asyncio
import json
import logging
from dataclasses import dataclass
from hashlib import sha256
from time import perf_counter
from typing import Any

from mcp_types import CallToolResult

from paddock.audit import EventBus
from paddock.bridge.content import cut, failure, size
from paddock.bridge.context import ToolContext
from paddock.bridge.table import Entry
from paddock.consent import Consent, begun_by
from paddock.errors import BridgeError, ExecTimeoutError, NotAuthorizedError, SandboxError

MOST_AT_ONCE = 128
_FAILED, _CANCELLED = "FAILED", "CANCELLED"
_SHOWN = 4000
_PATIENCE = 1.0
_log = logging.getLogger("paddock.bridge")


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a call ended."""

    result: CallToolResult
    outcome: str


class Calls:
    """The calls of one sandbox."""

    def __init__(self, consent: Consent, bus: EventBus) -> None:
        self._consent = consent
        self._bus = bus
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    def refused(self, name: str, call: str) -> None:
        """Something was called that is not granted."""
        self._tell(name[:200], NotAuthorizedError.code, 0.0, 0, call)

    async def make(self, entry: Entry, arguments: dict[str, Any], context: ToolContext) -> CallToolResult:
        """Call it. Whatever goes wrong is a result that says so; only being cancelled is not."""
        started, given = perf_counter(), json.dumps(arguments)
        outcome, given_back = _CANCELLED, 0
        try:
            with begun_by("model"):
                ended = await self._made(entry, arguments, given, context)
            outcome, given_back = ended.outcome, size(ended.result)
            return ended.result
        finally:
            self._tell(context.tool, outcome, perf_counter() - started, len(given) + given_back, context.call)

    async def _made(self, entry: Entry, arguments: dict[str, Any], given: str, context: ToolContext) -> _Ended:
        try:
            if entry.grant.consent == "ask":
                await self._ask(entry, given)
            async with self._slots:
                if entry.revoked:
                    return _revoked()
                return await _run(entry, arguments, context)
        except SandboxError as error:
            return _Ended(failure(error.to_llm()), error.code)

    async def _ask(self, entry: Entry, given: str) -> None:
        grant = entry.grant
        digest = sha256(json.dumps([grant.name, grant.digest, given]).encode()).hexdigest()
        await self._consent.ask("tool", grant.name, digest, f"A model calls {grant.name} with {_shown(given)}")

    def _tell(self, tool: str, outcome: str, took: float, size: int, call: str) -> None:
        if not self._bus.quiet:
            self._bus.emit("tool", "call", tool, outcome, took, size, target=call, initiator="model")


def _shown(given: str) -> str:
    """What a person sees of the arguments. Whoever agrees to more than that has to know."""
    left_out = len(given) - _SHOWN
    return given if left_out <= 0 else f"{given[:_SHOWN]} … and {left_out} characters more that are not shown"


async def _run(entry: Entry, arguments: dict[str, Any], context: ToolContext) -> _Ended:
    """In a task of its own, which the time limit, revoking and the client can each end."""
    task = asyncio.ensure_future(_outcome(entry, arguments, context))
    ends: list[asyncio.Future[Any]] = [task, entry.ended]
    try:
        await asyncio.wait(ends, timeout=entry.grant.timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=_PATIENCE)
    if entry.revoked:
        return _revoked()
    if not task.done() or task.cancelled():
        words = f"{ExecTimeoutError.code}: the tool took longer than {entry.grant.timeout:g} seconds."
        return _Ended(failure(words), ExecTimeoutError.code)
    result = task.result()
    return _Ended(result, _FAILED if result.is_error else "ok")


async def _outcome(entry: Entry, arguments: dict[str, Any], context: ToolContext) -> CallToolResult:
    try:
        return cut(await entry.offer.call(arguments, context), entry.grant.max_output)
    except SandboxError as error:
        return failure(_for_the_model(error))
    except KeyboardInterrupt:  # of the program's own thread: somebody wants it to end
        raise
    except BaseException as error:  # a tool's trouble is the tool's: it is logged here, and named there
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise
        _log.warning("the tool %s failed", context.tool, exc_info=error)
        return failure(f"{_FAILED}: the tool failed ({type(error).__name__}). The host's log has more.")


def _for_the_model(error: SandboxError) -> str:
    """A tool's words as they are. What `BridgeError` advises unless it is given a hint is for whoever granted it."""
    is_own = isinstance(error, BridgeError) and error.hint == BridgeError.default_hint
    return f"{error.code}: {error.message}" if is_own else error.to_llm()


def _is_cancelled() -> bool:
    """Whether we are, and not only something that the tool waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _revoked() -> _Ended:
    return _Ended(failure(f"{NotAuthorizedError.code}: the tool was revoked."), NotAuthorizedError.code)
