"""The tools that search, run commands and use git."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from paddock import Sandbox, ToolContext
from paddock.tools import Tools, sandbox_tools
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
