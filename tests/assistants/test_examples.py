"""The three example assistants, with the real Claude and a model that does what it is told."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assistants.conftest import EXAMPLES, Staged
from assistants.folders import made
from paddock import Sandbox
from paddock.assistants import Assistant, Assistants, Upload, load_assistants
from paddock.runners import Done, Log, Started, ToolCall, ToolResult
from paddock.testing import FakeModel, Say, Shell, Use
from runners.conftest import installed

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def claude(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found as it is by people who have it on their PATH."""
    program = installed("claude", monkeypatch)
    assert program.found is not None
    directory = str(Path(program.found).parent)
    monkeypatch.setenv("PATH", f"{directory}:/usr/local/bin:/usr/bin:/bin")


def example(name: str) -> Assistant:
    return Assistant.load(EXAMPLES / name)


async def test_e2e_load_configuration() -> None:
    """LoadConfiguration: what the folders say is what there is."""
    found = {one.name: one for one in load_assistants(EXAMPLES)}
    assert list(found) == ["basic", "full", "hooks"]
    full = found["full"]
    assert (full.has_sandbox, full.sandbox.agent, full.sandbox.options.timeout) == (True, "claude", 600)
    assert full.sandbox.options.disallowed_tools == ("WebFetch", "WebSearch")
    assert ([skill.name for skill in full.skills], [tool.called for tool in full.tools]) == (
        ["release-notes"],
        ["next_version"],
    )
    assert [server.name for server in full.servers] == ["echo"]
    assert full.hooks.before is not None
    assert full.hooks.after is not None
    assert found["basic"].hooks.before is None


async def test_e2e_basic(staged: Staged) -> None:
    """Basic: a chat with files, that goes on."""
    script = [Shell("echo hello > hello.txt; pwd"), Say("Done."), Shell("cat hello.txt"), Say("It says hello.")]
    async with staged(script, basic=example("basic")) as stage:
        assert await stage.done("write a file", assistant="basic", locale="pt-BR") == "Done."
        (started,) = stage.of(Started)
        assert (started.agent, started.resumed) == ("claude", False)
        (result,) = stage.of(ToolResult)
        assert result.output.strip() == "/workspace"
        assert await stage.done("and now read it", assistant="basic") == "It says hello."
        (started,) = stage.of(Started)
        assert started.resumed
        assert stage.of(ToolResult)[0].output.strip() == "hello"
        asked = json.dumps(stage.model.requests[0].body)
        assert "You help ann. Today is" in asked
        assert "Your working directory is /workspace" in asked
        assert "What the user sends along is in /workspace/.attachments." in asked
        assert "use no interactive programs" in asked
        assert "Answer in this language: pt-BR." in asked
        assert "write a file" in json.dumps(stage.model.requests[-1].body)
        assert stage.model.complaints == []
        assert await stage.put_away()


async def test_e2e_hooks(staged: Staged) -> None:
    """Hooks: the one before and the one after share their state, and the sandbox."""
    script = [Shell("wc -w < text.txt > count.txt"), Say("Three."), Shell("echo 7 > count.txt"), Say("Seven.")]
    async with staged(script, hooks=example("hooks")) as stage:
        assert await stage.done("one two three", assistant="hooks") == "3 words, which is right."
        assert Log("a text of 13 characters", "hook") in stage.events
        assert await stage.done("one two", assistant="hooks") == "7 words, which is wrong, it has 2."
        assert "Count the words of text.txt." in json.dumps(stage.model.requests[0].body)


async def test_e2e_full(staged: Staged) -> None:
    """Full: a skill, a tool of its own, an MCP server, preparation, an attachment and hooks in one request."""
    script = [
        Use("Skill", {"skill": "release-notes"}),
        Shell("~/.claude/skills/release-notes/scripts/sort.sh changes.txt > RELEASE.md"),
        Use("next_version", {"version": "1.4.2"}, server="paddock"),
        Use("echo__echo", {"text": "hi"}, server="paddock"),
        Shell("cat .attachments/extra.txt >> RELEASE.md"),
        Say("released"),
    ]
    async with staged(script, full=example("full")) as stage:
        content = [{"type": "text", "text": "release, and SHOUT"}, Upload("extra.txt", b"extra\n", "text/plain").part]
        assert await stage.done([{"role": "user", "content": content}], assistant="full") == "RELEASED"
        outputs = [result.output for result in stage.of(ToolResult)]
        assert outputs[2:4] == ["1.4.3 (asked by ann)", f"hi (from {Path.home()})"]
        logs = [event.text for event in stage.of(Log) if event.source in ("hook", "paddock")]
        assert logs == [
            "full for ann in /workspace",
            "Loaded 2 tools: next_version, echo__echo",
            "new files: RELEASE.md",
        ]
        async with stage.manager.get_or_create("ann", "1", assistant="full") as lease:
            assert await lease.sandbox.read("RELEASE.md") == "feat: dark mode\nfix: the login page\nextra\n"
            assert await lease.sandbox.read("NOTES.md") == "# Notes\n"
            assert set(await lease.sandbox.list(".")) == {
                ".attachments",
                "NOTES.md",
                "RELEASE.md",
                "changes.txt",
                ".git",
            } - (set() if await lease.sandbox.exists(".git") else {".git"})
        assert stage.model.complaints == []


async def test_e2e_context_access(staged: Staged, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """ContextAccess: what a hook can do with the sandbox, and what it is told when it does it wrongly."""
    hooks = """
        async def create(ctx, messages):
            await ctx.sandbox.write("a.txt", "one")
            assert await ctx.sandbox.read("a.txt") == "one"
            assert [(one.path, one.size) for one in await ctx.sandbox.scan(".")] == [("/workspace/a.txt", 3)]
            assert (await ctx.sandbox.exec(["cat", "a.txt"])).stdout == "one"
            assert ctx.sandbox.workdir == "/workspace"
            if messages[-1].text == "fail":
                await ctx.sandbox.exec(["cat", "missing"], check=True)
            if messages[-1].text == "nothing":
                await ctx.sandbox.exec()

        async def next(ctx, reply):
            return await ctx.sandbox.read("a.txt")
    """
    yml = "sandbox: {agent: claude}"
    async with staged(
        a={"assistant_yml": yml, "hooks_py": hooks},
        b={"hooks_py": "def create(ctx, messages):\n    assert ctx.sandbox is None"},
    ) as stage:
        assert await stage.done("go") == "one"
        error = await stage.failed("fail", chat="2")
        assert (error.kind, error.message) == ("hook", "The hook create of a failed: CommandFailedError.")
        assert "hooks.py, line 9: create: CommandFailedError" in caplog.text
        error = await stage.failed("nothing", chat="3")
        assert error.message == "The hook create of a failed: TypeError."
        assert "exec() missing 1 required positional argument: 'command'" in caplog.text
        assert await stage.done("hi", assistant="b") == "Hello."
        assert await stage.manager.list() == []


async def test_e2e_mcp_tool_call(staged: Staged) -> None:
    """MCPToolCall: the model calls a tool of an MCP server through the agent; it runs on the host."""
    script = [Use("echo__echo", {"text": "ping"}, server="paddock"), Say("pong")]
    async with staged(script, full=example("full")) as stage:
        assert await stage.done("use it", assistant="full") == "pong"
        (call,) = stage.of(ToolCall)
        assert (call.name, dict(call.input)) == ("mcp__paddock__echo__echo", {"text": "ping"})


async def test_e2e_mcp_echo_tool(staged: Staged) -> None:
    """MCPEchoTool: requests at once in one chat have their tools each."""
    async with staged(_echoing, full=example("full")) as stage:

        async def one(number: int) -> Any:
            run = stage.service.request("full", f"say {number}", user="ann", chat="1")
            return [event async for event in run]

        for number, events in enumerate(await asyncio.gather(*(one(number) for number in range(2)))):
            assert isinstance(events[-1], Done), events[-1]
            (result,) = [event for event in events if isinstance(event, ToolResult)]
            assert result.output == f"echo {number} (from {Path.home()})"
        assert await stage.put_away()


def _echoing(asked: Any) -> Any:
    text = json.dumps(asked.body)
    if f"(from {Path.home()})" in text:
        return Say("ok")
    number = "1" if "say 1" in text else "0"
    return Use("echo__echo", {"text": f"echo {number}"}, server="paddock")


async def test_build_mcp_config_for_sandbox(staged: Staged) -> None:
    """TestBuildMCPConfigForSandbox: the agent is told of one server, the bridge, and of nothing of the host."""
    script = [Shell("cat ~/.paddock/claude/mcp.json; env"), Say("ok")]
    async with staged(script, full=example("full")) as stage:
        await stage.done("look", assistant="full")
        (result,) = stage.of(ToolResult)
        config, _ = json.JSONDecoder().raw_decode(result.output)
        (server,) = config["mcpServers"].values()
        assert server["command"].endswith("/paddock-bridge")
        assert "echo_server" not in result.output
        assert f"GREETING={Path.home()}" not in result.output
        assert stage.model.key not in result.output


async def test_claude_executor_ipc_socket_mount(staged: Staged) -> None:
    """TestClaudeExecutorIPCSocketMount: tools come by a socket that nothing is mounted for, while the request lasts."""
    look = 'echo "$PADDOCK_BRIDGE"; stat -c %F "$PADDOCK_BRIDGE"; grep -c "$PADDOCK_BRIDGE" /proc/self/mountinfo'
    script = [Shell(look), Use("next_version", {"version": "1.0.0"}, server="paddock"), Say("ok")]
    async with staged(script, full=example("full")) as stage:
        await stage.done("look", assistant="full")
        looked, used = stage.of(ToolResult)
        socket, kind, mounts = looked.output.split("\n")[:3]
        assert (kind, mounts, used.output) == ("socket", "0", "1.0.1 (asked by ann)")
        async with stage.manager.get_or_create("ann", "1", assistant="full") as lease:
            assert (await lease.sandbox.exec(["test", "-S", socket])).exit_code == 1


async def test_users_at_once(staged: Staged) -> None:
    """Each model that is asked for somebody hears of nobody else."""

    def answer(asked: Any) -> Any:
        text = json.dumps(asked.body)
        (user,) = {user for user in ("ann", "bob", "eve") if f"You help {user}." in text}
        done = f"{user} has it" in text
        return Say(f"{user} is done") if done else Shell(f"echo {user} has it >> it; cat it")

    async with staged(answer, basic=example("basic")) as stage:
        users = ("ann", "bob", "eve")
        replies = await asyncio.gather(
            *(stage.service.execute("basic", f"do it for {user}", user=user, chat="1") for user in users)
        )
        assert [reply.text for reply in replies] == [f"{user} is done" for user in users]
        for asked in stage.model.requests:
            text = json.dumps(asked.body)
            assert sum(f"do it for {user}" in text for user in users) == 1
            assert sum(f"{user} has it" in text for user in users) <= 1


async def test_sandbox_mcp_and_skills_options(staged: Staged, tmp_path: Path) -> None:
    """TestSandboxMCPAndSkillsOptions: skills and tools are each assistant's own, in a workspace that they share."""
    other = made(
        tmp_path / "other",
        assistant_yml="sandbox: {agent: claude, policy: session}",
        prompts_yml="system: You are another.\n",
        skills__poems__SKILL_md="---\nname: poems\ndescription: Writes poems.\n---\n",
    )
    async with staged([Say("ok")], full=example("full"), other=other) as stage:
        for name in ("full", "other", "full"):
            await stage.done("look", assistant=name)
            request = json.dumps(stage.model.requests[-1].body)
            assert [word in request for word in ("release-notes:", "poems:")] == [name == "full", name == "other"]
            assert ("mcp__paddock__next_version" in request) is (name == "full")
            assert ("You are another." in request) is (name == "other")


async def test_a_service_of_its_own_for_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a manager and a gateway it has those of the configuration."""
    async with FakeModel([Say("hello")]) as model:
        config = tmp_path / "config" / "paddock" / "config.toml"
        monkeypatch.setenv("MY_KEY", "k")
        monkeypatch.setenv("PADDOCK_CONFIG", str(config))
        config.parent.mkdir(parents=True)
        config.write_text(
            f'[connectors.one]\nbase_url = "{model.url}"\nkey = "$ENV.MY_KEY"\nwire = "anthropic"\nprovider = "custom"\n'
        )
        async with Assistants(EXAMPLES / "basic") as service:
            reply = await service.execute("basic", "hi", user="ann", chat="1")
        assert reply.text == "hello"
    (left,) = await Sandbox.find()  # as its policy says: the next service goes on with it
    await Sandbox.remove(left.id)
