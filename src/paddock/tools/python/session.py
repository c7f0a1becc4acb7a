"""`PythonSession`: the host's side of an interpreter that runs in a sandbox."""

import json
import math
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from time import perf_counter
from typing import Any, Literal

from paddock.errors import ClosedError, ConfigError, ExecTimeoutError, SandboxError, UnavailableError, visible
from paddock.finishing import to_the_end
from paddock.sandbox import Process, Sandbox
from paddock.sandbox.commands import Environment, named
from paddock.tools.python.program import BOOT, program
from paddock.tools.python.reading import Message, Messages, Run
from paddock.tools.python.result import PythonError, PythonResult, RichOutput
from paddock.types import Chunk

KernelName = Literal["auto", "jupyter", "builtin"]
OnOutput = Callable[[Chunk | RichOutput], object]
"""Is told of output as it comes."""

RUN_SECONDS = 300.0
MOST_CHARS = 1 << 20
_STARTING = 120.0
_PATIENCE = (1.5, 1.0, 0.5)
_LAST_WORDS = 0.5
_KEPT = 16 << 10


class PythonSession:
    """A Python in a sandbox that keeps its state: variables, imports, what is open. It starts when it is first used.

    It is a Jupyter kernel where the sandbox has `ipykernel`, and else a small one of Paddock's. One run at a time.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        python: str = "python3",
        kernel: KernelName = "auto",
        env: Environment | None = None,
        timeout: float = RUN_SECONDS,
        max_output: int = MOST_CHARS,
    ) -> None:
        import asyncio

        if kernel not in ("auto", "jupyter", "builtin"):
            raise ConfigError(f"kernel={kernel!r} is unknown.", hint="Give 'auto', 'jupyter' or 'builtin'.")
        if type(max_output) is not int or max_output < 1:
            raise ConfigError(f"max_output={max_output!r} is not a number of characters.", hint="Give 1 or more.")
        if not isinstance(python, str) or not python:
            raise ConfigError(f"python={python!r} is not a program.", hint="Such as 'python3'.")
        self._sandbox = sandbox
        self._command = [python, "-c", BOOT, kernel]
        self._env = None if env is None else named(env)
        self._timeout = _time(timeout)
        self._max_output = max_output
        self._process: Process | None = None
        self._messages: Messages | None = None
        self._kind: str | None = None
        self._turn = asyncio.Lock()
        self._running: Run | None = None
        self._closed = False
        self._resets = 0

    @property
    def kernel(self) -> str | None:
        """Which one it is, `jupyter` or `builtin`; None before the first run."""
        return self._kind

    @property
    def alive(self) -> bool:
        """Whether its Python still runs. If not, the next run has a new one, which knows nothing of what was run before."""
        return self._process is not None and self._process.exit_code is None

    async def run(self, code: str, *, timeout: float | None = None, on_output: OnOutput | None = None) -> PythonResult:
        """Run code and wait for its end. What it raises is a result; running out of time is an `ExecTimeoutError`.

        It may `await`, and the value of a last expression is the result's `text`. `on_output` is told of output as it comes.
        Code that is out of time, or whose caller is cancelled, is interrupted; if it does not mind, its interpreter is ended.
        """

        limit = self._timeout if timeout is None else _time(timeout)
        if not isinstance(code, str):
            raise ConfigError("Code is a text.", hint="Pass a str.")
        async with self._turn:
            run = Run(self._max_output, on_output)
            started = perf_counter()
            resets = self._resets
            process, messages = await self._started()
            if self._resets != resets:  # somebody wanted it to end while it started
                await to_the_end(process.kill())
            self._running = run
            try:
                kept = await self._within(limit, run, process, messages, code)
            except BaseException:
                run.told = None
                await to_the_end(self._stopped(run, messages))
                raise
            finally:
                self._running = None
                run.begun.set()  # whoever waits to interrupt it need not any more
            result = run.result(perf_counter() - started)
            if kept is not None:
                raise _out_of_time(limit, kept, result)
            return result

    async def interrupt(self) -> None:
        """Raise `KeyboardInterrupt` in what runs, as Ctrl-C does. Nothing happens if nothing does."""
        run = self._running
        if run is None:
            return
        await run.begun.wait()
        if self._running is run:
            await self._signal()

    async def reset(self) -> None:
        """Forget everything: the interpreter is ended with all that it started, and the next run has a new one."""
        self._resets += 1
        if self._process is not None:
            await to_the_end(self._process.kill())
        async with self._turn:
            await to_the_end(self._end())

    async def close(self) -> None:
        """End the interpreter and all that it started. Running code again is a `ClosedError`; closing again is not."""
        self._closed = True
        await self.reset()

    async def __aenter__(self) -> "PythonSession":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def _started(self) -> tuple[Process, Messages]:
        """The interpreter that is there, or a new one."""
        if self._closed:
            raise ClosedError("The session is closed.", hint="Make a new PythonSession.")
        if not self.alive or self._messages is None:
            await to_the_end(self._end())
            try:
                await self._begin()
            except BaseException:
                await to_the_end(self._end())
                raise
        if self._process is None or self._messages is None:
            raise AssertionError("it has just begun")
        return self._process, self._messages

    async def _begin(self) -> None:
        import asyncio

        there = await self._sandbox.exec([self._command[0], "-c", ""], env=self._env)
        if there.exit_code:
            raise self._not_started(there.stderr)
        self._process = await self._sandbox.start(self._command, env=self._env, stdin=True, max_output=_KEPT)
        self._messages = Messages(aiter(self._process))
        with suppress(BrokenPipeError):  # why, it says itself
            await self._process.write(program())
        try:
            async with asyncio.timeout(_STARTING):
                ready = await self._messages.next()
        except TimeoutError:
            ready = None
        if ready is None or ready.kind != "ready":
            await self._process.kill()
            raise self._not_started((await self._process.wait()).stderr)
        self._kind = "jupyter" if ready.text("kernel") == "jupyter" else "builtin"

    def _not_started(self, said: str) -> UnavailableError:
        words = visible(said.strip()[-500:])
        return UnavailableError(
            f"No interpreter could be started with '{visible(self._command[0])}'.",
            hint=f"It said: {words}" if words else "Name another one with python=.",
        )

    async def _within(self, limit: float, run: Run, process: Process, messages: Messages, code: str) -> bool | None:
        """None if it was done in time; else it was stopped, and this says whether its state is kept."""
        import asyncio

        try:
            async with asyncio.timeout(None if limit == math.inf else limit):
                with suppress(BrokenPipeError):  # it ended meanwhile, as is seen at once
                    await process.write(json.dumps({"code": code, "run": run.name}).encode() + b"\n")
                await self._heard(run, messages)
        except TimeoutError:
            return await to_the_end(self._stopped(run, messages))
        return None

    async def _heard(self, run: Run, messages: Messages) -> None:
        """Until it has said that it is done. An interpreter that ends is one that has raised."""
        async for message in _until_done(messages, run.name):
            run.take(message)
        run.over = not messages.ended
        if messages.ended:
            run.error = PythonError("InterpreterEnded", await self._ended())
            run.begun.set()

    async def _ended(self) -> str:
        """How it ended, in words. One that says what it should not is ended here."""
        import asyncio

        process = self._process
        if process is not None and process.exit_code is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
                    await process.wait()
        status = None if process is None else process.exit_code
        await self._end()
        how = " with what no interpreter says" if status is None else f" with status {status}"
        return f"The interpreter ended{how}. Its state is lost; the next run begins anew."

    async def _stopped(self, run: Run, messages: Messages) -> bool:
        """Interrupt what runs, unless it is over; whether that was enough. If not, the interpreter is ended."""
        import asyncio

        if run.over:
            return True
        for seconds in _PATIENCE:  # a signal may come before the code has begun
            with suppress(SandboxError, TimeoutError):
                await self._signal()
                async with asyncio.timeout(seconds):
                    await self._heard(run, messages)
                    return not messages.ended
        await self._end()
        return False

    async def _signal(self) -> None:
        if self._process is not None:
            with suppress(SandboxError, ProcessLookupError):  # it has just ended
                await self._process.signal(signal.SIGINT)

    async def _end(self) -> None:
        process, self._process, self._messages = self._process, None, None
        if process is not None:
            with suppress(SandboxError):
                if process.exit_code is None:
                    await process.kill()
                await process.wait()


async def _until_done(messages: Messages, name: str) -> AsyncIterator[Message]:
    """All that is said of a run. Another one's end is not its own: then each run would be told what the one before said."""
    while (message := await messages.next()) is not None:
        if message.kind == "done" and message.text("run") == name:
            return
        yield message


def _time(timeout: float) -> float:
    if type(timeout) not in (int, float) or not timeout > 0:
        raise ConfigError(f"timeout={timeout!r} is not a time.", hint="Give seconds above 0, or math.inf.")
    return timeout


def _out_of_time(limit: float, kept: bool, result: PythonResult) -> ExecTimeoutError:
    state = "It was interrupted, and its state is kept." if kept else "It had to be ended, and its state is lost."
    return ExecTimeoutError(
        f"The code took longer than {limit:g} seconds. {state}", result=result, hint="Give it more."
    )
