"""What `paddock demo` shows: one backend after the other, at work and under attack."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from paddock import Call, ExecTimeoutError, Memory, Sandbox, SandboxError
from paddock.driver import BackendSpec
from paddock.errors import visible


def show(backends: list[str]) -> None:
    """Everything, on these backends."""
    console = Console(highlight=False)
    for name in backends:
        asyncio.run(_Tour(console, name).run())


def _count_lines(call: Call) -> str:
    """A command for the memory backend: what `wc -l` would print."""
    lines = call.files.read(call.argv[-1]).count("\n")
    return f"{lines} {call.argv[-1]}\n"


class _Tour:
    """One backend's turn."""

    def __init__(self, console: Console, backend: str) -> None:
        self._console = console
        self._backend: str | BackendSpec = Memory(commands={"wc": _count_lines}) if backend == "memory" else backend
        self._name = backend

    async def run(self) -> None:
        """All the steps, in order."""
        self._console.rule(f"[bold]{self._name}")
        started = time.perf_counter()
        sb = await Sandbox.create(self._backend)
        try:
            self._done("create", f"{sb.id}, reaching {', '.join(await sb.list('/'))}", started)
            await self._files(sb)
            await self._commands(sb)
            await self._escapes(sb)
            await self._costs(sb)
            self._isolation(sb)
        finally:
            started = time.perf_counter()
            await sb.close()
        self._done("close", "everything private is gone", started)

    async def _files(self, sb: Sandbox) -> None:
        await self._step("write", "/workspace/notes/todo.md", sb.write("notes/todo.md", "- build it\n- prove it\n"))
        await self._step("write_files", "three files, all or nothing", sb.write_files(_PROJECT))
        found = await sb.grep(r"def \w+", glob="*.py")
        self._say("grep", f"{len(found)} match: {found[0].path}:{found[0].line}: {found[0].text}")
        view = sb.restrict("/workspace/notes")
        await self._refused("restrict", "a read-only view of /workspace/notes", view.write("/workspace/notes/x", ""))
        with tempfile.TemporaryDirectory() as host:
            copied = await sb.download("/workspace", Path(host) / "out")
            self._say("download", f"{sum(p.is_file() for p in Path(copied).rglob('*'))} files, to look at on the host")

    async def _commands(self, sb: Sandbox) -> None:
        if self._name == "memory":
            result = await sb.exec(["wc", "-l", "notes/todo.md"])
            self._say("exec", f"wc -l notes/todo.md → {result.stdout.strip()} (exit code {result.exit_code})")
            return
        await sb.write("build.sh", _BUILD)
        result = await sb.exec("sh build.sh 2 && ls project | wc -l", check=True)
        self._say(
            "exec", f"a file that was just written: exit code {result.exit_code}, {result.duration * 1000:.1f} ms"
        )
        await self._stream(sb)
        await self._timeout(sb)

    async def _stream(self, sb: Sandbox) -> None:
        """Output as it comes, as a bar on a terminal and as lines elsewhere."""
        async with await sb.start(["sh", "build.sh", str(_STEPS)]) as process:
            with Progress(console=self._console, transient=True, disable=not self._console.is_terminal) as bar:
                task = bar.add_task("  sh build.sh", total=_STEPS)
                async for chunk in process:
                    for line in chunk.text.splitlines():
                        bar.advance(task)
                        self._say("stream", visible(line))

    async def _timeout(self, sb: Sandbox) -> None:
        try:
            await sb.exec("trap '' TERM; setsid sleep 60 & (sleep 60 &) & wait", timeout=0.2)
        except ExecTimeoutError as error:
            self._say("timeout", f"three processes that hide: {error.message} Nothing of it is left.", style="green")

    async def _escapes(self, sb: Sandbox) -> None:
        await self._refused("escape", "read ../../etc/passwd", sb.read("../../etc/passwd"))
        await self._refused("escape", "write /etc/cron.d/evil", sb.write("/etc/cron.d/evil", ""))
        await self._refused("escape", "read /proc/self/root/etc/shadow", sb.read("/proc/self/root/etc/shadow"))

    async def _costs(self, sb: Sandbox) -> None:
        await sb.write("small", b"x" * 4096)
        write = await _per_call(lambda: sb.write("small", b"x" * 4096))
        read = await _per_call(lambda: sb.read_bytes("small"))
        self._say("cost", f"{write:.0f} µs to write 4 KiB, {read:.0f} µs to read it")
        if self._name != "memory":
            ours, plain = await _per_call(lambda: sb.exec("true"), 50), await _per_call(_subprocess, 50)
            self._say("cost", f"{ours / 1000:.2f} ms to run a command; {plain / 1000:.2f} ms by asyncio alone")

    def _isolation(self, sb: Sandbox) -> None:
        for part in ("files", "processes", "network", "syscalls"):
            held = getattr(sb.isolation, part)
            self._say("isolation", f"{part}: {held.by}", style="green" if held else "yellow")

    async def _step(self, name: str, words: str, action: Awaitable[object]) -> None:
        started = time.perf_counter()
        await action
        self._done(name, words, started)

    async def _refused(self, name: str, words: str, action: Awaitable[object]) -> None:
        try:
            await action
        except SandboxError as error:
            self._say(name, f"{words} → refused, {error.code}: {visible(str(error))}", style="green")
        else:
            raise AssertionError(f"{words} was not refused")

    def _done(self, name: str, words: str, started: float) -> None:
        self._say(name, f"{words} ({(time.perf_counter() - started) * 1000:.1f} ms)")

    def _say(self, name: str, words: str, style: str = "") -> None:
        self._console.print(Text(f"  {name:<12}", style="bold") + Text(words, style=style), soft_wrap=True)


_STEPS = 5
_BUILD = """i=0
while [ $i -lt $1 ]; do i=$((i+1)); echo "step $i of $1"; sleep 0.1; done
"""
_PROJECT = {
    "project/README.md": "# A small project\n",
    "project/app.py": "def main():\n    print('hello')\n",
    "project/data/numbers.csv": "1,2,3\n",
}


async def _subprocess() -> None:
    """The same command without a sandbox."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "true", stdin=nothing, stdout=pipe, stderr=pipe)
    await process.communicate()


async def _per_call(action: Callable[[], Awaitable[object]], count: int = 300) -> float:
    started = time.perf_counter()
    for _ in range(count):
        await action()
    return (time.perf_counter() - started) / count * 1e6
