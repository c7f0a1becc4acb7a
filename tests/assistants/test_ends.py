"""A request that ends badly at each of its steps: by an error, by being cancelled, interrupted, left alone, or killed."""

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import detached
from assistants.conftest import PROMPTS, Stage, Staged
from assistants.folders import written
from paddock import Manager, Sandbox, UnavailableError
from paddock.assistants import Assistants
from paddock.assistants.history import History
from paddock.manager import Lease
from paddock.manager.leasing import Leases
from paddock.manager.manager import Leasing
from paddock.runners import Done, Event, Failed, Log, Progress, Started, ToolResult

STEPS = ("history", "sandbox", "prepare", "create", "agent", "next", "keep")
"""Where a request is held up, or fails."""

YML = """
    sandbox:
      agent: scripted
      policy: session
      prepare:
        - {exec: 'echo prepare; test ! -e fail-prepare && while [ -e hold-prepare ]; do sleep 0.05; done', once: true}
"""
HOOKS = """
    import asyncio

    async def create(ctx, messages):
        await step(ctx, "create")

    async def next(ctx, reply):
        await step(ctx, "next")

    async def step(ctx, name):
        ctx.log(name)
        if ctx.messages[-1].text.endswith(f"fail {name}"):
            raise ValueError(f"the {name} hook fails")
        if ctx.messages[-1].text.endswith(f"hold {name}"):
            await asyncio.sleep(1000)
"""
FILES = {
    "assistant_yml": YML + "    tools: [tools.py:echo]\n",
    "prompts_yml": PROMPTS,
    "hooks_py": HOOKS,
    "tools_py": "def echo() -> str:\n    return 'echo'\n",
}


class Trouble:
    """Makes one step fail, or never end."""

    def __init__(self, stage: Stage, step: str, how: str) -> None:
        self.stage, self.step, self.how = stage, step, how
        self.monkeypatch = pytest.MonkeyPatch()
        self.begun = asyncio.Event()

    async def begin(self) -> str:
        """What is said to the assistant so that it comes to that."""
        if self.step == "prepare":
            await _changed(self.stage.manager, f"touch {self.how}-prepare")
        if self.step in ("create", "next"):
            return f"say ok\nthink {self.how} {self.step}"
        if self.step == "agent":
            return "fail on purpose" if self.how == "fail" else "say so\nrun sleep 1000"
        patched = {
            "history": (History, "read"),
            "sandbox": (Leasing, "__aenter__"),
            "keep": (History, "add"),
        }
        if self.step in patched:
            owner, name = patched[self.step]
            self.monkeypatch.setattr(owner, name, self._instead(getattr(owner, name)))
        return "say ok"

    def _instead(self, real: Callable[..., Any]) -> Callable[..., Any]:
        async def instead(*given: Any, **more: Any) -> Any:
            self.begun.set()
            if self.how == "fail":
                raise UnavailableError(f"The {self.step} fails.")
            if self.step == "sandbox":
                await real(*given, **more)  # it ends while one is being made
            await asyncio.sleep(1000)

        return instead

    def is_reached(self, event: Event | None) -> bool:
        """Whether the request is at that step."""
        if self.begun.is_set():
            return True
        return {
            "prepare": isinstance(event, Progress) and event.text.startswith("echo prepare"),
            "create": event == Log("create", "hook"),
            "agent": getattr(event, "kind", "") == "tool_call",
            "next": event == Log("next", "hook"),
        }.get(self.step, False)

    async def end(self) -> None:
        """From now on all is well."""
        self.monkeypatch.undo()
        if self.step == "prepare":
            await _changed(self.stage.manager, f"rm -f {self.how}-prepare")


async def _is_well(stage: Stage) -> None:
    """Nothing is held, nothing of the request runs, no half turn is kept, and the next request goes well."""
    others = [task for task in asyncio.all_tasks() if "Hooks" in repr(task.get_coro()) or "settle_in" in repr(task)]
    assert others == []
    assert await stage.put_away()
    assert stage.service._desks._locks == {}
    assert await stage.service.messages("a", user="ann", chat="1") == []
    for info in await stage.manager.list():
        async with Sandbox.connect(str(info.sandbox)) as sb:
            running = [process.command for process in await sb.processes()]
            assert not any("sleep 1000" in str(command) or "play.py" in str(command) for command in running), running
    assert await stage.done("use echo\nsay fine") == "fine"
    assert [message.text for message in await stage.service.messages("a", user="ann", chat="1")][1:] == ["fine"]


@pytest.mark.parametrize("step", STEPS)
async def test_an_error(staged: Staged, step: str, caplog: pytest.LogCaptureFixture) -> None:
    async with staged(a=FILES) as stage:
        trouble = Trouble(stage, step, "fail")
        error = await stage.failed(await trouble.begin())
        assert error.kind == {"create": "hook", "next": "hook", "agent": "exited"}.get(step, "sandbox")
        if step in ("create", "next"):
            assert error.message == f"The hook {step} of a failed: ValueError."
            assert f"hooks.py, line 13: {step}: ValueError: the {step} hook fails" in caplog.text
        if step in ("history", "sandbox", "keep"):
            assert error.message == "The request to a failed: UnavailableError."
            assert f"The {step} fails." in caplog.text
        if step in ("sandbox", "prepare"):
            assert [event.state for event in stage.of(Progress) if event.state] == ["creating", "failed"]
        assert bool(stage.of(Started)) is (step in ("agent", "next", "keep"))
        await trouble.end()
        await _is_well(stage)


@pytest.mark.parametrize("step", STEPS[:-1])
async def test_cancelled(staged: Staged, step: str) -> None:
    async with staged(a=FILES) as stage:
        trouble = Trouble(stage, step, "hold")
        text = await trouble.begin()
        reached = asyncio.Event()

        async def follow() -> None:
            async with stage.service.request("a", text, user="ann", chat="1") as run:
                async for event in run:
                    if trouble.is_reached(event):
                        reached.set()

        task = asyncio.ensure_future(follow())
        waiting = [asyncio.ensure_future(reached.wait()), asyncio.ensure_future(trouble.begun.wait())]
        await asyncio.wait([task, *waiting], return_when=asyncio.FIRST_COMPLETED)
        assert not task.done()
        task.cancel()
        for one in (task, *waiting):
            one.cancel()
            with suppress(asyncio.CancelledError):
                await one
        await trouble.end()
        await _is_well(stage)


async def test_cancelled_when_it_is_kept(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has begun to be kept is kept whole."""
    begun, real = asyncio.Event(), History.add

    async def slowly(*given: Any, **more: Any) -> None:
        begun.set()
        await asyncio.sleep(0.3)
        await real(*given, **more)

    monkeypatch.setattr(History, "add", slowly)
    async with staged(a=FILES) as stage:
        task = asyncio.ensure_future(stage.service.execute("a", "say ok", user="ann", chat="1"))
        await begun.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        said = await stage.service.messages("a", user="ann", chat="1")
        assert [message.text for message in said] == ["say ok", "ok"]
        assert await stage.put_away()


class SlowLeases:
    """Leases that are given back when they are told to, and may say that something went wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        real = Leases.give_back

        async def give_back(leases: Leases, lease: Lease) -> None:
            self.begun.set()
            await self.go_on.wait()
            await real(leases, lease)
            if error is not None:
                raise error

        monkeypatch.setattr(Leases, "give_back", give_back)


async def test_an_error_in_the_clean_up(
    staged: Staged, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The request itself went well; whoever looks after the host hears of it."""
    async with staged(a=FILES) as stage:
        with monkeypatch.context() as patch:
            SlowLeases(patch, UnavailableError("The clean-up fails.")).go_on.set()
            assert await stage.done("say ok") == "ok"
        assert "something was not put away" in caplog.text
        assert "The clean-up fails." in caplog.text
        assert await stage.put_away()
        assert await stage.done("use echo\nsay fine") == "fine"
        assert len(await stage.service.messages("a", user="ann", chat="1")) == 4


async def test_cancelled_in_the_clean_up(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done to its end all the same."""
    async with staged(a=FILES) as stage:
        with monkeypatch.context() as patch:
            leases = SlowLeases(patch)
            task = asyncio.ensure_future(stage.service.execute("a", "say ok", user="ann", chat="1"))
            await leases.begun.wait()
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
            leases.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await stage.put_away()
        said = await stage.service.messages("a", user="ann", chat="1")
        assert [message.text for message in said] == ["say ok", "ok"]
        assert await stage.done("use echo\nsay fine") == "fine"


@pytest.mark.parametrize("step", ["prepare", "create", "agent", "next"])
@pytest.mark.parametrize("way", ["interrupt", "leave"])
async def test_interrupted_or_left(staged: Staged, step: str, way: str) -> None:
    async with staged(a=FILES) as stage:
        trouble = Trouble(stage, step, "hold")
        run = stage.service.request("a", await trouble.begin(), user="ann", chat="1")
        async with run:
            async for event in run:
                if trouble.is_reached(event):
                    if way == "leave":
                        break
                    run.interrupt()
            if way == "interrupt":
                assert isinstance(event, Failed), event
                assert event.error.kind == "interrupted"
        await trouble.end()
        await _is_well(stage)


async def test_a_hook_that_takes_too_long(staged: Staged) -> None:
    """Async or not, and also if it does not care for being cancelled."""
    hooks = """
        import asyncio, time

        async def create(ctx, messages):
            if "deaf" in messages[-1].text:
                while True:
                    try:
                        await asyncio.sleep(3)
                        return
                    except asyncio.CancelledError:
                        pass

        def next(ctx, reply):
            if "next" in reply.text:
                time.sleep(3)
    """
    yml = "hooks: {timeout: 0.2s}\nsandbox: {agent: scripted, policy: session}"
    async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS, "hooks_py": hooks}) as stage:
        for text, name in (("say deaf", "create"), ("say next", "next")):
            error = await stage.failed(text)
            assert (error.kind, f"{name} of a failed: it took longer than 0.2 seconds" in str(error)) == ("hook", True)
            assert await stage.put_away()
        assert await stage.done("say ok") == "ok"
        await asyncio.sleep(3)  # the deaf one ends by itself; a test leaves nothing


@pytest.mark.parametrize(("seconds", "kind"), [("0.5s", "hook"), ("1h", "interrupted")])
async def test_a_hook_that_tells_without_end(staged: Staged, tmp_path: Path, seconds: str, kind: str) -> None:
    """Faster than anybody listens: its time is over all the same, an interrupt is heard, and nothing piles up."""
    enough = tmp_path / "enough"
    hooks = f"""
        import os

        def create(ctx, messages):
            while not os.path.exists({str(enough)!r}):
                ctx.log("and")
    """
    yml = f"hooks: {{timeout: {seconds}}}"
    async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS, "hooks_py": hooks}) as stage:
        run = stage.service.request("a", "say hi", user="ann", chat="1")
        if kind == "interrupted":
            asyncio.get_running_loop().call_later(0.8, run.interrupt)
        last: Event | None = None
        try:
            async with asyncio.timeout(30):
                async for event in run:
                    last = event
        finally:
            enough.touch()
        assert isinstance(last, Failed)
        assert last.error.kind == kind


async def test_a_thread_that_nobody_waits_for_ends(staged: Staged) -> None:
    """What a hook waits for is ended with its request, however often it tries again."""
    hooks = """
        import asyncio

        def create(ctx, messages):
            for _ in range(3):
                try:
                    ctx.wait(asyncio.sleep(1000, "never"))
                except Exception:
                    pass
    """
    yml = "hooks: {timeout: 0.2s}\nsandbox: {agent: scripted, policy: session}"
    async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS, "hooks_py": hooks}) as stage:
        assert (await stage.failed("say hi")).kind == "hook"

        async def is_clear() -> bool:
            return not any(thread.name == "paddock-tool" for thread in threading.enumerate())

        await detached.until(is_clear, "a thread of a hook is left")
        assert not any("sleep" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def test_closing_the_service_interrupts(staged: Staged) -> None:
    async with staged(a=FILES) as stage:
        run = stage.service.request("a", "say so\nrun sleep 1000", user="ann", chat="1")
        async for event in run:
            if getattr(event, "kind", "") == "tool_call":
                await stage.service.close()
        assert isinstance(event, Failed)
        assert event.error.kind == "interrupted"
        assert await stage.put_away()


KILLED = """
import time

from paddock.assistants import Assistants, history
from paddock.manager.leasing import Leases

def say_held(*_):
    print("held", flush=True)

def hold(*_):  # in the middle of what is written to the database
    say_held()
    time.sleep(1000)

async def wait(*_):
    say_held()
    await asyncio.sleep(1000)

held = {
    "history": (history, "_read", hold),
    "keep": (history, "_trim", hold),
    "clean-up": (Leases, "give_back", wait),
}
if sys.argv[3] in held:
    setattr(*held[sys.argv[3]])
async with Manager(backend="namespaces") as manager, Assistants(sys.argv[1], manager=manager) as service:
    async with service.request("a", sys.argv[2], user="ann", chat="1") as run:
        async for event in run:
            text = getattr(event, "text", "")
            print(event.kind, text.split(";")[0], flush=True)
"""


@pytest.mark.parametrize(
    ("step", "text", "line"),
    [
        ("history", "say ok", "held"),
        ("sandbox", "say ok", "progress creating the sandbox"),
        ("prepare", "say ok", "progress echo prepare"),
        ("create", "say ok\nthink hold create", "log create"),
        ("agent", "say so\nrun sleep 1000", "tool_call"),
        ("next", "say ok\nthink hold next", "log next"),
        ("keep", "say ok", "held"),
        ("clean-up", "say ok", "held"),
    ],
    ids=[*STEPS, "clean-up"],
)
async def test_killed(tmp_path: Path, step: str, text: str, line: str) -> None:
    """kill -9: no half turn is kept, the sandbox is adopted or gone, and the next request goes well and sees the files."""
    folder = written(tmp_path / "a", **{**FILES, "assistant_yml": YML})  # tools take their time to be loaded
    async with Manager(backend="namespaces") as manager:
        await _changed(manager, f"echo before > seed.txt; {'touch hold-prepare' if step == 'prepare' else ''}")
    worker = detached.program(KILLED, str(folder), text, step)
    assert worker.stdout is not None
    while not (said := worker.stdout.readline()).startswith(line):
        assert said, worker.communicate()[1]
    worker.kill()
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    async with Manager(backend="namespaces") as manager, Assistants(folder, manager=manager) as service:
        kept = [message.text for message in await service.messages("a", user="ann", chat="1")]
        assert kept == (["say ok", "ok"] if step == "clean-up" else [])
        assert len(await Sandbox.find()) <= 1
        await _changed(manager, "rm -f hold-prepare")
        run = service.request("a", "run cat seed.txt\nsay fine", user="ann", chat="1")
        events = [event async for event in run]
        assert [event.output for event in events if isinstance(event, ToolResult)] == ["before\n"]
        assert isinstance(events[-1], Done), events[-1]
        (info,) = await manager.list()
        assert (info.leases, info.assistant) == (0, "a")
        await manager.remove("ann", "1", assistant="a")
        assert await Sandbox.find() == []


async def _changed(manager: Manager, command: str) -> None:
    """Do something in the workspace of the chat, from a sandbox that is no assistant's."""
    async with manager.get_or_create("ann", "1", assistant="other") as lease:
        await lease.sandbox.exec(command, check=True)
    await manager.remove("ann", "1", assistant="other")
