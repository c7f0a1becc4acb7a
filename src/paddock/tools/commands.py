"""The tool that runs commands."""

from dataclasses import replace

from paddock.bridge.context import ToolContext
from paddock.errors import ExecTimeoutError, visible
from paddock.sandbox import Process, Sandbox
from paddock.tools import schemas
from paddock.tools.result import ToolResult, done, failed
from paddock.tools.text import shortened
from paddock.tools.tool import ModelTool
from paddock.types import ExecResult

SECONDS = 120
_LONGEST = 3600
_NO_OUTPUT = "[no output]"
_LAST_LINE = 200
_EVERY = 0.2


class CommandTools:
    """Over one sandbox."""

    def __init__(self, sb: Sandbox, most: int, seconds: int) -> None:
        self._sb = sb
        self._most = most
        self._seconds = seconds

    def tools(self) -> list[ModelTool]:
        """The one."""
        most = max(_LONGEST, self._seconds)  # what a command has by itself may also be said
        return [
            ModelTool(
                "run_command",
                "Run a shell command in the working directory, and wait for its end. It has no standard input, and with all "
                "that it started it is ended when the time is up. Of long output the beginning and the end are shown.",
                schemas.parameters(
                    command=schemas.text("The command, as for sh."),
                    timeout=schemas.number("How many seconds it may take.", self._seconds, most=most),
                ),
                lambda given, context: self.run(**given, context=context),
                "run",
            )
        ]

    async def run(self, command: str, timeout: int | None = None, context: ToolContext | None = None) -> ToolResult:
        """A nonzero exit is a result, as running it worked; running out of time is a failure."""
        limit = self._seconds if timeout is None else timeout
        try:
            if context is None or context.progress is None:
                result = await self._sb.exec(command, timeout=limit)
            else:
                result = await self._told(command, limit, context)
        except ExecTimeoutError as error:
            so_far = error.result if isinstance(error.result, ExecResult) else ExecResult(124)
            return self._late(limit, so_far)
        streams = self._streams(result)
        told = {"exit_code": result.exit_code, **streams, "duration": round(result.duration, 3), "limit": result.limit}
        return done(_in_words(result, streams["stdout"], streams["stderr"]), **told)

    def _late(self, limit: int, so_far: ExecResult) -> ToolResult:
        """What it printed is told as it always is: as JSON each byte of it could become six."""
        error = f"The command took longer than {limit} seconds and was ended."
        hint = "Give a larger timeout, or run it in the background with its output in a file."
        streams = self._streams(so_far)
        words = _in_words(so_far, streams["stdout"], streams["stderr"])
        return replace(failed(error, hint, **streams), text=f"{failed(error, hint).text}\n{words}")

    async def _told(self, command: str, limit: float, context: ToolContext) -> ExecResult:
        """The same, and somebody hears how it goes. Whoever cancels ends the command's whole tree."""
        import asyncio

        async with await self._sb.start(command) as process:
            try:
                async with asyncio.timeout(limit):
                    await _report(process, context)
                    return await process.wait()
            except TimeoutError:
                await process.kill()
                raise ExecTimeoutError("It took too long.", result=await process.wait()) from None

    def _streams(self, result: ExecResult) -> dict[str, str]:
        return {"stdout": shortened(result.stdout, self._most), "stderr": shortened(result.stderr, self._most // 2)}


async def _report(process: Process, context: ToolContext) -> None:
    """Tell how much it has printed, and the last of it, a few times a second at most."""
    import asyncio

    size, told, loop = 0, 0.0, asyncio.get_running_loop()
    async for chunk in process:
        size += len(chunk.data)
        if loop.time() - told > _EVERY:
            told = loop.time()
            context.report_progress(size, None, visible(chunk.text.strip()[-_LAST_LINE:]))


def _in_words(result: ExecResult, stdout: str, stderr: str) -> str:
    """What it printed, and how it ended if there is something to say about that."""
    parts = [stdout.rstrip("\n")] if stdout.strip() else []
    if stderr.strip():
        parts.append(f"[stderr]\n{stderr.rstrip()}")
    if result.exit_code or not parts:
        parts.append(f"[exit code {result.exit_code}]" if result.exit_code else _NO_OUTPUT)
    if result.limit is not None:
        parts.append(f"[the limit on {result.limit} ended it]")
    if result.truncated or len(stdout) < len(result.stdout) or len(stderr) < len(result.stderr):
        parts.append("[Some output is left out. To see all of it: send it to a file, and read that.]")
    return "\n".join(parts)
