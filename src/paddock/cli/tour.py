"""What `paddock demo` shows: a sandbox at work, and under attack."""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from paddock import Call, ExecTimeoutError, Limits, Memory, Sandbox, SandboxError, UnavailableError
from paddock.cli import story
from paddock.cli.escapes import SECRET, attempts
from paddock.driver import BackendSpec
from paddock.errors import visible
from paddock.registry import find

_NO_SUCH_PROGRAM = 127
_STEPS = 3
_BUILD = """i=0
while [ $i -lt $1 ]; do i=$((i+1)); echo "step $i of $1"; sleep 0.05; done
"""
_PROJECT = {
    "project/README.md": "# A small project\n",
    "project/app.py": "def main():\n    print('hello')\n",
    "project/data/numbers.csv": "1,2,3\n",
}
_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 10"


def show_default() -> None:
    """The backend that isolates, or why there is none and then the one that does not."""
    try:
        show("auto")
    except UnavailableError as error:
        console = Console(highlight=False)
        console.print(Text("No isolation can be had here: ", "bold red") + Text(visible(error.message)), soft_wrap=True)
        console.print(Text(f"{visible(error.hint)} `paddock doctor` shows all that was tried.\n"), soft_wrap=True)
        show("local")


def show(backend: str) -> None:
    """Everything, on this backend."""
    asyncio.run(_Tour(Console(highlight=False), backend).run())


def _program() -> str:
    """What to type for it, from anywhere."""
    if shutil.which("paddock"):
        return "paddock"
    path = os.path.abspath(sys.argv[0])
    return path if os.access(path, os.X_OK) else f"{sys.executable} -m paddock"


def _count_lines(call: Call) -> str:
    """A command for the memory backend: what `wc -l` would print."""
    lines = call.files.read(call.argv[-1]).count("\n")
    return f"{lines} {call.argv[-1]}\n"


class _Tour:
    """One backend's turn."""

    def __init__(self, console: Console, backend: str) -> None:
        spec = find(backend)
        self._console = console
        self._name = spec.name
        self._backend: BackendSpec = Memory(commands={"wc": _count_lines}) if self._name == "memory" else spec
        self._limits = Limits(pids=64) if "pids" in spec.capabilities.limits else Limits()

    async def run(self) -> None:
        """All the steps, in order."""
        os.environ[SECRET] = "a password of yours"
        started = time.perf_counter()
        sb = await Sandbox.create(self._backend, limits=self._limits)
        try:
            self._part(f"a sandbox on {self._name}")
            self._done("create", f"{sb.id}, reaching {', '.join(await sb.list('/'))}", started)
            self._isolation(sb)
            self._part("work")
            await self._files(sb)
            await self._commands(sb)
            self._part("ways out")
            await self._escapes(sb)
            await self._review()
            self._part("what it costs")
            await self._costs(sb)
        finally:
            started = time.perf_counter()
            await sb.close()
        self._done("close", "everything private is gone", started)
        self._say("try", f"{_program()} agent scripted 'write notes.txt hello', in any directory", style="green")

    async def _files(self, sb: Sandbox) -> None:
        await self._step("write", "/workspace/notes/todo.md", sb.write("notes/todo.md", "- build it\n- prove it\n"))
        await self._step("write_files", "three files, all or nothing", sb.write_files(_PROJECT))
        found = await sb.grep(r"def \w+", glob="*.py")
        self._say("grep", f"{len(found)} match: {found[0].path}:{found[0].line}: {found[0].text}")
        view = sb.restrict("/workspace/notes")
        await self._refused("restrict", "write to a read-only view", view.write("/workspace/notes/x", ""))
        with tempfile.TemporaryDirectory() as host:
            copied = await sb.download("/workspace", Path(host) / "out")
            self._say("download", f"{sum(p.is_file() for p in Path(copied).rglob('*'))} files, to look at on the host")

    async def _commands(self, sb: Sandbox) -> None:
        if self._name == "memory":
            result = await sb.exec(["wc", "-l", "notes/todo.md"])
            self._say("exec", f"wc -l notes/todo.md → {result.stdout.strip()} (exit code {result.exit_code})")
            return
        await sb.write("build.sh", _BUILD)
        result = await sb.exec("grep -c . notes/todo.md && whoami && hostname", check=True)
        shown = ", ".join(result.stdout.split())
        self._say("exec", f"lines, user and host name: {shown} ({result.duration * 1000:.1f} ms)")
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
            await sb.exec("trap '' TERM; setsid sleep 60 & (sleep 60 &) & wait", timeout=0.1)
        except ExecTimeoutError as error:
            self._say("timeout", f"three processes that hide: {error.message} Nothing of it is left.", style="green")

    async def _escapes(self, sb: Sandbox) -> None:
        await self._refused("file call", "read ../../etc/passwd", sb.read("../../etc/passwd"))
        await self._refused("file call", "write /etc/cron.d/evil", sb.write("/etc/cron.d/evil", ""))
        if self._name == "memory":
            return
        await sb.exec(["ln", "-s", "/etc/passwd", "link"], check=True)
        await self._refused("file call", "read a link to /etc/passwd", sb.read("link"))
        if sb.isolation.processes:
            await self._attempts(sb)
        else:
            self._say("commands", f"not tried: {sb.isolation.processes.by}", style="yellow")

    async def _attempts(self, sb: Sandbox) -> None:
        for attempt in attempts():
            result = await sb.exec(attempt.command, timeout=10)
            if result.exit_code == 0:
                raise AssertionError(f"{attempt.what} was not refused")
            reason = (result.stderr.strip().splitlines() or [f"exit code {result.exit_code}"])[0]
            style = "yellow" if result.exit_code == _NO_SUCH_PROGRAM else "green"
            self._say("command", f"{attempt.what} → {visible(reason)}", style=style)
        await self._bomb(sb)

    async def _bomb(self, sb: Sandbox) -> None:
        """As many processes as can be had, which is not many; and then none."""
        try:
            await sb.exec(_BOMB, timeout=0.3)
        except ExecTimeoutError as error:
            refused = error.result.stderr.count("fork") + error.result.stderr.count("Resource")
            words = f"start processes without end → no more than {self._limits.pids}"
            self._say("command", f"{words}, {'refused' if refused else 'held'}; all ended", style="green")

    async def _review(self) -> None:
        if self._backend.capabilities.review:
            self._part("nothing leaves unseen")
            await story.tell(self._backend, self._say)

    async def _costs(self, sb: Sandbox) -> None:
        await sb.write("small", b"x" * 4096)
        write = await _per_call(lambda: sb.write("small", b"x" * 4096), 200)
        read = await _per_call(lambda: sb.read_bytes("small"), 200)
        self._say("files", f"{write:.0f} µs to write 4 KiB, {read:.0f} µs to read it")
        if self._name == "memory":
            return
        ours, plain = await _per_call(lambda: sb.exec("true"), 50), await _per_call(_subprocess, 50)
        self._say("exec", f"{ours / 1000:.2f} ms to run a command; {plain / 1000:.2f} ms by asyncio without a sandbox")
        whole = await _per_call(self._whole, 5)
        self._say("create", f"{whole / 1000:.1f} ms for another sandbox, with a command, until it is gone")

    async def _whole(self) -> None:
        async with Sandbox.create(self._backend) as sb:
            await sb.exec("true")

    def _isolation(self, sb: Sandbox) -> None:
        for part in ("files", "processes", "network", "syscalls"):
            held = getattr(sb.isolation, part)
            self._say(part, held.by, style="green" if held else "yellow")

    async def _step(self, name: str, words: str, action: Awaitable[object]) -> None:
        started = time.perf_counter()
        await action
        self._done(name, words, started)

    async def _refused(self, name: str, words: str, action: Awaitable[object]) -> None:
        try:
            await action
        except SandboxError as error:
            self._say(name, f"{words} → {error.code}: {visible(error.message)}", style="green")
        else:
            raise AssertionError(f"{words} was not refused")

    def _part(self, title: str) -> None:
        self._console.print(Text(title, style="bold"))

    def _done(self, name: str, words: str, started: float) -> None:
        self._say(name, f"{words} ({(time.perf_counter() - started) * 1000:.1f} ms)")

    def _say(self, name: str, words: str, style: str = "") -> None:
        self._console.print(Text(f"  {name:<12}") + Text(words, style=style), soft_wrap=True)


async def _subprocess() -> None:
    """The same command without a sandbox."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "true", stdin=nothing, stdout=pipe, stderr=pipe)
    await process.communicate()


async def _per_call(action: Callable[[], Awaitable[object]], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        await action()
    return (time.perf_counter() - started) / count * 1e6
