"""The tools that search, run commands and use git."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock import ClosedError, Sandbox, ToolContext
from paddock.tools import ModelTool, ToolResult, Tools, sandbox_tools
from paddock.tools import searching as search_tools


async def test_glob_and_grep(tools: Tools, sb: Sandbox) -> None:
    """Paths come back as the other tools take them."""
    await sb.write_files(
        {"src/b.py": "import os\nX = 1\n", "src/a.py": "import re\n", "c.md": "Import\n", "/tmp/t.py": "import"}
    )
    assert (await tools.call("glob", {"pattern": "**/*.py"})).text == "src/a.py\nsrc/b.py"
    assert (await tools.call("glob", {"pattern": "*.py", "path": "/tmp"})).data["files"] == ["/tmp/t.py"]
    assert (await tools.call("glob", {"pattern": "*.rs"})).text == "[Nothing matches.]"
    found = await tools.call("grep", {"pattern": "^import", "glob": "*.py"})
    assert found.text == "src/a.py:1: import re\nsrc/b.py:1: import os"
    assert len((await tools.call("grep", {"pattern": "import", "ignore_case": True})).data["matches"]) == 3
    first = await tools.call("read_file", {"path": found.data["matches"][0]["path"]})
    assert first.text == "import re\n"
    assert (await tools.call("grep", {"pattern": "("})).data["code"] == "INVALID_CONFIG"


async def test_more_than_is_shown(memory: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_tools, "FILES", 2)
    tools = sandbox_tools(memory, max_chars=200)
    await memory.write_files({f"{number}.txt": "hit\n" * 50 for number in range(5)})
    assert "2 of 5 are shown. Use a narrower pattern" in (await tools.call("glob", {"pattern": "*"})).text
    few = await tools.call("grep", {"pattern": "hit", "limit": 3})
    assert (len(few.data["matches"]), few.data["truncated"]) == (3, True)
    many = await tools.call("grep", {"pattern": "hit"})
    assert len(many.text) < 400
    assert "narrower" in many.text
    exact = await tools.call("grep", {"pattern": "hit", "path": "1.txt", "limit": 50})
    assert "narrower" in exact.text  # by size
    assert not (await sandbox_tools(memory).call("grep", {"pattern": "hit", "path": "1.txt", "limit": 50})).data[
        "truncated"
    ]


async def test_commands(tools: Tools, sb: Sandbox) -> None:
    """A nonzero exit is a result."""
    assert (await tools.call("run_command", {"command": "echo hi"})).text == "hi"
    failed = await tools.call("run_command", {"command": "false"})
    assert (failed.success, failed.data["exit_code"]) == (True, 1)
    assert failed.text.endswith("[exit code 1]")
    assert (await tools.call("run_command", {"command": "touch made"})).text == "[no output]"
    assert await sb.exists("made")
    late = await tools.call("run_command", {"command": "sleep 30", "timeout": 1})
    assert (late.success, late.data["error"]) == (False, "The command took longer than 1 seconds and was ended.")
    long = await tools.call("run_command", {"command": "echo " + "x" * 131_067})
    assert (long.success, long.data.get("code")) == (False, "INVALID_CONFIG")
    assert (await tools.call("run_command", {"command": "echo " + "x " * 65_533})).success


async def test_the_time_that_a_command_has_may_be_given(memory: Sandbox) -> None:
    hours = sandbox_tools(memory, timeout=7200)
    given = await hours.call("run_command", {"command": "true", "timeout": 7200})
    assert "do not fit" not in given.text
    assert "at most 7200" in (await hours.call("run_command", {"command": "true", "timeout": 7201})).data["error"]
    usual = await sandbox_tools(memory).call("run_command", {"command": "true", "timeout": 7200})
    assert "at most 3600" in usual.data["error"]


async def test_long_output(real: Sandbox) -> None:
    """The beginning and the end are shown, and how to see all of it."""
    tools = sandbox_tools(real, max_chars=200)
    long = await tools.call("run_command", {"command": "seq 1 10000; echo oops >&2; exit 3"})
    assert long.text.startswith("1\n2\n3")
    assert "9999\n10000\n" in long.text
    assert "characters left out" in long.text
    assert "[stderr]\noops\n[exit code 3]" in long.text
    assert long.text.endswith("send it to a file, and read that.]")
    assert len(long.text) < 500
    late = await tools.call("run_command", {"command": "echo so far; sleep 30", "timeout": 1})
    assert late.data["stdout"] == "so far\n"
    assert "took longer than 1 seconds" in late.text
    flood = await tools.call("run_command", {"command": "cat /dev/zero", "timeout": 1})
    assert len(flood.text) < 700
    assert flood.text.endswith("send it to a file, and read that.]")


async def test_how_it_goes(real: Sandbox) -> None:
    """Whoever wants to hear of a command is told while it runs; the result is the same."""
    tools, heard = sandbox_tools(real), asyncio.Queue[str | None]()
    context = ToolContext(None, None, real.id, "run_command", "1", lambda _, __, words: heard.put_nowait(words))
    call = asyncio.create_task(
        tools.call("run_command", {"command": "echo first; until [ -e go ]; do sleep 0.05; done; exit 4"}, context)
    )
    async with asyncio.timeout(60):
        assert await heard.get() == "first"
        await real.write("go", "")
        result = await call
    assert (result.data["exit_code"], result.data["stdout"]) == (4, "first\n")
    late = await tools.call("run_command", {"command": "echo a; sleep 30", "timeout": 1}, context)
    assert (late.success, late.data["stdout"]) == (False, "a\n")


@pytest.mark.parametrize("told", [False, True])
async def test_who_is_cancelled_leaves_nothing(real: Sandbox, told: bool) -> None:
    tools = sandbox_tools(real)
    context = ToolContext(None, None, "", "", "", lambda *_: None) if told else None
    call = asyncio.create_task(
        tools.call("run_command", {"command": "setsid sleep 777 & echo > begun; sleep 777"}, context)
    )
    async with asyncio.timeout(60):
        while not await real.exists("begun"):
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while "sleep" in (await real.exec("cat /proc/[0-9]*/comm")).stdout:
            await asyncio.sleep(0.05)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one file."""
    place = tmp_path / "repo"
    subprocess.run(["git", "init", "-qb", "main", place], check=True)
    (place / "a.txt").write_text("one\n")
    subprocess.run(["git", "-C", place, "add", "."], check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", place, *author, "commit", "-qm", "first"], check=True)
    return place


async def test_git(memory: Sandbox, repo: Path) -> None:
    """Files come in and changes wait outside; there is no tool that pushes. What a model names has to be agreed to."""
    assert "pull_from_git" not in sandbox_tools(memory)
    pull = {"repo": str(repo), "paths": ["."]}
    assert (await sandbox_tools(memory, git=True).call("pull_from_git", pull)).data["code"] == "NOT_AUTHORIZED"
    async with Sandbox.create("memory", approve="approve-all") as sb:
        tools = sandbox_tools(sb, git=True)
        assert tools.names[-2:] == ("pull_from_git", "stage_for_push")
        assert (await tools.call("pull_from_git", pull)).data["pulled"] == ["a.txt"]
        await tools.call("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"})
        change = {"repo": str(repo), "files": ["a.txt"], "message": "second", "branch": "work"}
        staged = await tools.call("stage_for_push", change)
        assert staged.data["files"] == [{"path": "a.txt", "operation": "update"}], staged.text
        assert [commit.id for commit in await sb.git.staged()] == [staged.data["commit_id"]]
    assert [path.name for path in (repo / ".git/refs/heads").iterdir()] == ["main"]


async def test_schemas_that_were_made_elsewhere() -> None:
    """What is not known in one is not looked at, and nothing of it is an exception."""
    came: list[Any] = []

    async def work(arguments: dict[str, Any], context: object) -> ToolResult:
        came.append(arguments)
        return ToolResult({})

    kinds = {"a": {"type": ["string", "null"]}, "b": {"$ref": "#/x"}, "n": {"type": "number"}, "o": {"type": "object"}}
    for schema in ({"type": "object"}, {"type": "object", "properties": kinds}, {"properties": None, "required": None}):
        tool = ModelTool("t", "d", schema, work)
        assert (await tool.call({"a": None, "b": 1, "n": 1.5, "o": {"x": 1}})).success
        assert not (await tool.call(["x"])).success  # type: ignore[arg-type]
    assert not (await tool.call({}, None)).success or came[-1] == {}
    strict = ModelTool("t", "d", {"type": "object", "properties": kinds, "required": ["n"]}, work)
    for wrong in ({"n": "x"}, {"n": True}, {"n": 1, "o": []}, {}):
        assert not (await strict.call(wrong)).success
    assert not (await ModelTool("t", "d", {"properties": {"a": 7}}, work).call({"a": 1})).success
    assert not (await Tools([strict]).call(["x"])).success  # type: ignore[arg-type]


async def test_bad_patterns_keep_no_other_call_waiting() -> None:
    """Of this sandbox, or of another; and those that wait for their turn can be cancelled."""
    async with Sandbox.create("local") as sb, Sandbox.create("local") as other:
        await sb.write("f", "a" * 40 + "!\n")
        await other.write("large", b"x" * (1 << 20))
        searches = [asyncio.ensure_future(sb.grep("(a+)+$")) for _ in range(40)]
        await asyncio.sleep(0.2)
        assert len(await other.read_bytes("large")) == 1 << 20
        assert len(await other.glob("**/*")) == 1
        assert [found.text for found in await other.grep("x{3}")] == ["x" * 1000]
        assert not any(search.done() for search in searches)
        for search in searches:
            search.cancel()
        await asyncio.wait(searches)
        assert all(search.cancelled() for search in searches)
        waiting = [asyncio.ensure_future(sb.grep("(a+)+$")) for _ in range(4)]
        await asyncio.sleep(0.1)
        await sb.close()
        for search in waiting:
            with pytest.raises(ClosedError):
                await search
