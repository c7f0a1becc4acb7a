"""`paddock agent` and `paddock agents`, as people and as scripts use them."""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from paddock import Sandbox
from paddock.cli.app import program
from paddock.cli.liveview import OnTerminal
from paddock.cli.telling import WIDEST, Written, end_of, inert, short, summary
from paddock.cli.views import AsText
from paddock.cli.ways import chosen, how_to_use
from paddock.runners import Done, Text, ToolCall, agents
from paddock.runners.events import KINDS
from paddock.runners.registry import load
from paddock.state import sweep
from paddock.testing import FakeModel, Say, Shell
from runners.conftest import installed
from test_cli_review import CTRL_C, PROGRAM, kept_id, names, talk

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202egnp.exe\u2066 gone"
SEEN = "\\x1b[31mred\\x1b]0;title\\x07 \\u202egnp.exe\\u2066 gone"
QUESTION = "[d]iscard? "
Paddock = Callable[..., SimpleNamespace]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a file."""
    path = tmp_path / "project"
    path.mkdir()
    (path / "a.txt").write_text("a\n")
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def paddock(project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Paddock:
    """The program in this process, which is faster; its exit code, and both streams."""

    def call(*arguments: str, stdin: bytes = b"") -> SimpleNamespace:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = program(arguments[0])(arguments, prog_name="paddock", standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - what click would show
            code, shown = 2, str(error)
        else:
            shown = ""
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err + shown)

    return call


# As text


def test_what_it_says_and_what_it_does(paddock: Paddock, project: Path) -> None:
    script = "say Looking at it.\nrun cat a.txt\nrun echo oh no; false\nwrite b.txt new\nsay Done\twith it."
    script += "\nrun seq 200; echo why; false"
    done = paddock("agent", "scripted", script)
    assert (done.code, done.out) == (0, "Looking at it.\nDone\twith it.\n")
    assert "tool    run: cat a.txt\n" in done.err
    assert "ok      run: cat a.txt (" in done.err
    assert "failed  run: echo oh no; false (" in done.err
    assert "): oh no\n" in done.err
    assert re.search(r"\): …[\d ]+ 199 200 why\n", done.err), "a command says in the end why it failed"
    assert "done after " in done.err
    assert names(project) == ["a.txt"], "by default nothing is written"
    assert "/workspace/b.txt" in done.err
    assert kept_id(done.err)


async def test_a_line_that_never_ends_is_not_held(capfd: pytest.CaptureFixture[str]) -> None:
    """It is written as it comes, and still is one line; what comes in between begins another, as ever."""
    view = AsText(quiet=True)
    for _ in range(2):
        await view.show(Text("a" * 70_000))
        assert capfd.readouterr().out == "a" * 70_000
    await view.show(Text("b"))
    assert capfd.readouterr().out == ""
    await view.show(ToolCall("1", "n"))
    await view.show(Done())
    assert capfd.readouterr().out == "b\n"


def test_long_lines_are_given_before_their_end() -> None:
    written = Written()
    assert (written.feed("x" * 65_000), written.overflow()) == ([], "")
    assert (written.feed("y" * 1000), written.overflow()) == ([], "x" * 65_000 + "y" * 1000)
    assert (written.rest, written.cut(), written.cut()) == ("", [""], [])
    assert (written.feed("\nz" + "x" * 65_536), written.overflow()) == ([], "z" + "x" * 65_536)
    assert (written.feed("end\nnext"), written.rest, written.cut()) == (["end"], "next", ["next"])


def test_prompts_that_are_no_text(paddock: Paddock) -> None:
    done = paddock("agent", "scripted", "say \udcff")
    assert done.code != 0
    assert "characters that are none" in done.err


def test_quiet(paddock: Paddock) -> None:
    done = paddock("agent", "scripted", "-q", "say x\nrun false")
    assert (done.code, done.out, done.err) == (0, "x\n", "")


def test_a_directory_that_it_may_write_to(paddock: Paddock, project: Path) -> None:
    done = paddock("agent", "scripted", "--workspace", ".", "write b.txt new")
    assert done.code == 0
    assert (project / "b.txt").read_text() == "new"
    assert "kept" not in done.err
    assert paddock("agent", "scripted", "--workspace", "missing", "say x").code == 125


def test_a_program_that_is_inside(paddock: Paddock, project: Path) -> None:
    """It is called as it is named, and found by nobody."""
    done = paddock("agent", "scripted", "--program", "echo not JSON", "x")
    assert done.code == 1
    assert "log     not JSON" in done.err
    missing = paddock("agent", "scripted", "--program", "/no/such/program", "x")
    assert missing.code == 1
    assert "cannot be started" in missing.err
    assert ". Show it to the sandbox with --mount, or use an --image that has it" in missing.err


def test_a_private_workspace(paddock: Paddock, project: Path) -> None:
    done = paddock("agent", "scripted", "--no-review", "write b.txt x\nrun ls; false")
    assert "): b.txt\n" in done.err, "and there is nothing else"
    assert names(project) == ["a.txt"]


@pytest.mark.parametrize("given", [("-",), ()])
def test_the_prompt_by_standard_input(paddock: Paddock, given: tuple[str, ...]) -> None:
    assert paddock("agent", "scripted", *given, stdin=b"say by stdin").out == "by stdin\n"


def test_prompts_that_are_none(paddock: Paddock) -> None:
    assert "The prompt is empty." in paddock("agent", "scripted", stdin=b" ").err
    assert "The prompt is empty." in paddock("agent", "scripted", "").err
    assert "not UTF-8" in paddock("agent", "scripted", stdin=b"\xff").err


def test_one_that_fails(paddock: Paddock) -> None:
    done = paddock("agent", "scripted", "write b.txt x\nfail oh no")
    assert done.code == 1
    assert "AGENT_ERROR: The program of scripted ended with 1 and no result: oh no." in done.err
    assert kept_id(done.err), "what it did until then is not lost"


def test_one_that_takes_too_long(paddock: Paddock) -> None:
    done = paddock("agent", "scripted", "--timeout", "0.5", "say x\nrun sleep 60")
    assert done.code == 1
    assert "ended after 0.5 seconds. Give it more with --timeout." in done.err
    assert "cut     run: sleep 60 (" in done.err


def test_hostile_words(paddock: Paddock) -> None:
    script = (
        f"say {HOSTILE}\nuse {HOSTILE.split()[0]} " + json.dumps({"path": HOSTILE}) + f"\nrun echo '{HOSTILE}'; false"
    )
    done = paddock("agent", "scripted", script)
    assert done.code == 0
    assert SEEN in done.out
    assert "tool    \\x1b[31mred\\x1b]0;title\\x07: \\x1b[31m" in done.err
    assert not set(done.out + done.err) & set("\x1b\x07\u202e\u2066")


# As JSON


def test_json(paddock: Paddock, project: Path) -> None:
    done = paddock("agent", "scripted", "--json", f"think hm\nsay {HOSTILE}\nrun cat a.txt\nwrite b.txt x")
    assert done.code == 0
    assert done.out.isascii()
    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = [event["kind"] for event in events]
    assert kinds[:3] == ["progress", "started", "thinking"]
    assert kinds[-2:] == ["done", "review"]
    assert set(kinds[:-1]) <= set(KINDS)
    assert "".join(event["text"] for event in events if event["kind"] == "text") == f"{HOSTILE}\n"
    assert [event["output"] for event in events if event["kind"] == "tool_result"] == ["a\n", "wrote b.txt"]
    assert [change["path"] for change in events[-1]["changes"]] == ["/workspace/b.txt"]
    assert paddock("review", "show", events[-1]["kept"]).code in (0, None)
    assert names(project) == ["a.txt"]


def test_json_of_what_fails(paddock: Paddock) -> None:
    done = paddock("agent", "scripted", "--json", "--no-review", "fail oh no")
    end = json.loads(done.out.splitlines()[-1])
    assert (done.code, end["kind"], end["error"]["kind"]) == (1, "failed", "exited")
    refused = paddock("agent", "nobody", "--json", "x")
    assert (refused.code, json.loads(refused.out)["error"]["code"]) == (125, "INVALID_CONFIG")


# What is wrong is said before anything is started


def test_what_cannot_be(paddock: Paddock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        done = paddock("agent", *arguments)
        assert done.code == 125, done
        return str(done.err)

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(Sandbox, "create", lambda *_, **__: pytest.fail("a sandbox was begun"))
    assert "There is no agent 'nobody'. Known: acp, claude, " in refused("nobody", "x")
    assert "Claude Code was not found on this host. Install it: npm install" in refused("claude", "x")
    assert "CONFIG: --permission='sudo' is no permission" in refused("scripted", "--permission", "sudo", "x")
    assert "CONFIG: --max-turns=0 is no number" in refused("scripted", "--max-turns", "0", "x")
    assert "acp needs --program COMMAND." in refused("acp", "x")
    assert "acp needs --program COMMAND." in refused("acp", "--image", "x", "x")
    assert "cannot --resume" in refused("acp", "--program", "agent", "--resume", "x")
    assert "no word for --max-turns=3" in refused("acp", "--program", "agent", "--max-turns", "3", "x")
    assert "--patience" in refused("scripted", "--patience", "soon", "x")
    assert "contradict" in refused("scripted", "--system", "x", "--system-file", "y", "x")
    assert "cannot be read" in refused("scripted", "--system-file", "missing", "x")
    assert "There is no connector 'nix'" in refused("scripted", "--connector", "nix", "x")
    assert "no variable that is set here" in refused("scripted", "--key", "NOT_SET", "x")
    assert "is no command" in refused("acp", "--program", " ", "x")
    assert "key" in refused("cursor", "--program", "agent", "x")
    monkeypatch.setenv("SOME_KEY", "a-secret-value")
    assert "a-secret-value" not in refused("scripted", "--key", "SOME_KEY", "x")
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    words = refused("claude", "x")
    assert "no connector leads to one" in words
    assert 'key = "$ENV.OPENAI_API_KEY"' in words
    assert "not-a-key" not in words


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes connectors, by name and provider; agents of all names are there, and nothing is begun."""
    for name in ("claude", "codex", "gemini", "opencode"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PADDOCK_CONFIG", str(tmp_path / "paddock.toml"))

    def write(**providers: str) -> None:
        blocks = (
            f'[connectors.{name}]\nbase_url = "https://example.org"\nprovider = "{provider}"\n'
            for name, provider in providers.items()
        )
        (tmp_path / "paddock.toml").write_text("\n".join(blocks))

    return write


def test_a_connector_that_fits(
    paddock: Paddock, configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gemini's wire is not translated: who speaks it needs a connector that does, and nobody else can use that."""
    monkeypatch.setattr(Sandbox, "create", lambda *_, **__: pytest.fail("a sandbox was begun"))
    configured()
    for name, key in (("gemini", "GEMINI"), ("codex", "OPENAI"), ("claude", "ANTHROPIC")):
        assert f"$ENV.{key}_API_KEY" in paddock("agent", name, "x").err
    configured(one="anthropic")
    assert "$ENV.GEMINI_API_KEY" in paddock("agent", "gemini", "x").err
    configured(one="anthropic", other="gemini")
    assert "Give --connector: other." in paddock("agent", "gemini", "--connector", "one", "x").err
    assert "Give --connector: one." in paddock("agent", "claude", "--connector", "other", "x").err
    assert chosen(load("gemini"), None).name == "other"  # type: ignore[union-attr]
    assert chosen(load("codex"), None).name == "one"  # type: ignore[union-attr]
    assert chosen(load("acp"), None) is None
    assert chosen(load("acp"), "other").name == "other"  # type: ignore[union-attr]
    refused = paddock("agent", "codex", "--permission", "plan", "x")
    assert (refused.code, "no word for --permission='plan'" in refused.err) == (125, True)


def test_acp_with_a_key_of_its_own(paddock: Paddock, configured: Callable[..., None]) -> None:
    configured()
    done = paddock("agent", "acp", "--program", "cat", "x")
    assert done.code == 1
    assert "does not speak the Agent Client Protocol" in done.err
    done = paddock("agent", "acp", "--program", "true", "x")
    assert "Look whether it speaks the Agent Client Protocol" in done.err


def test_how_to_use_one_that_is_here(paddock: Paddock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    assert how_to_use() is None, "there is no agent"
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    words = how_to_use()
    assert words is not None
    assert "[connectors.claude]" in words
    assert "paddock agent claude 'fix" in words
    assert words in paddock("agents").err.replace("\n", "")
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert how_to_use() is None, "there is no way to a model"


# Conversations


def test_going_on(paddock: Paddock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = paddock("agent", "scripted", "--resume", "recall")
    assert (nothing.code, nothing.out) == (125, "")
    assert "has had no conversation about this directory. Leave out --resume." in nothing.err
    assert paddock("agent", "scripted", "say one").code == 0
    assert paddock("agent", "scripted", "--resume", "recall").out == "say one\n\n"
    assert paddock("agent", "scripted", "--resume", "--profile", "other", "recall").code == 125
    assert paddock("agent", "scripted", "recall").out == "nothing\n", "a new one"
    assert "recall" in paddock("agent", "scripted", "--resume", "recall").out, "and that is the last now"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert paddock("agent", "scripted", "--resume", "recall").code == 125


# On a terminal


def test_watching_it(project: Path) -> None:
    script = f"say {HOSTILE}\nrun sleep 0.3\nwrite b.txt new\nsay All is done."
    code, shown = talk(["agent", "scripted", script], (QUESTION, "a"))
    assert code == 0
    assert SEEN in shown
    assert "\x1b]0" not in shown
    assert "run: sleep 0.3 (" in shown
    assert "write: b.txt" in shown
    assert "All is done." in shown
    assert "done after" in shown
    assert (project / "b.txt").read_text() == "new"


async def test_ctrl_c_is_heard_whatever_it_says(capfd: pytest.CaptureFixture[str]) -> None:
    """What is shown at once is little; others have their turn in between, and all of it is shown."""
    view, turns = OnTerminal("x", quiet=True), 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.ensure_future(take_turns())
    await view.show(Text("a\n" * 100_000))
    others.cancel()
    await view.show(Done())
    assert turns > 5
    assert capfd.readouterr().out.count("a") == 100_000


async def test_words_stay_apart_however_they_come(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a blank comes last, and at the end of a row."""
    monkeypatch.setenv("COLUMNS", "20")
    view = OnTerminal("x", quiet=True)
    words = [f"{'w' * (number % 7)}{number}" for number in range(100)]
    for word in words:
        await view.show(Text(f"{word} "))
    await view.show(Done())
    shown = capfd.readouterr().out
    assert shown.split() == words
    assert max(map(len, shown.splitlines())) <= 20


@pytest.mark.parametrize("nothing", ["\u0301", "\u200b", "\x1b"])
async def test_what_takes_no_room_is_not_held(
    nothing: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or each piece would have all that came before to be looked at again, and nobody would hear Ctrl-C."""
    monkeypatch.setenv("COLUMNS", "20")
    view = OnTerminal("x", quiet=True)
    await view.show(Text(nothing * 100_000))
    await view.show(Done())
    shown = capfd.readouterr().out
    assert shown.count(inert(nothing)) == 100_000
    assert len(shown.splitlines()) > 5, "rows, and no line that only grows"


def test_one_ctrl_c(project: Path) -> None:
    """It is interrupted, and what it did until then is seen and decided about."""
    script = "write b.txt new\nrun sleep 61"
    code, shown = talk(["agent", "scripted", script], ("run: sleep 61 (", CTRL_C), (QUESTION, "d"))
    assert code == 130
    assert "The agent was interrupted." in shown
    assert "/workspace/b.txt" in shown
    assert "forgotten" in shown
    assert names(project) == ["a.txt"]


def test_two_of_them(project: Path) -> None:
    """Whatever it was at, it is ended, and its work is kept."""
    script = "write b.txt new\nrun trap '' INT; sleep 62"
    code, shown = talk(["agent", "scripted", script], ("sleep 62 (", CTRL_C), ("interrupting", CTRL_C))
    assert code == 130
    assert f"paddock review apply {kept_id(shown)}" in shown
    assert shown.rstrip().endswith(kept_id(shown))
    assert names(project) == ["a.txt"]
    assert "sleep 62" not in _running()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_whoever_kills_it_kills_all(number: signal.Signals, code: int, project: Path) -> None:
    arguments = [*PROGRAM, "agent", "scripted", "--json", f"run setsid sleep 6{number:04} & sleep 6{number:04}"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        while b"tool_call" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(30) == code
    until = time.monotonic() + 10
    while f"sleep 6{number:04}" in _running():
        assert time.monotonic() < until
        time.sleep(0.05)
    sweep()  # as the next sandbox does: who was killed could not put away what is empty now


def _running() -> str:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return "\n".join(found)


# A real one


def test_claude(paddock: Paddock, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the file of connectors to the change on the disk; with its program in the project itself, as npm puts it."""
    found = installed("claude", monkeypatch).found
    assert found is not None
    package = project / "node_modules" / "@anthropic-ai" / "claude-code-linux-x64"
    package.mkdir(parents=True)
    os.link(found, package / "claude")
    with FakeModel([Shell("echo fixed > a.txt"), Say("It is fixed.")]) as model:
        config = tmp_path / "paddock.toml"
        config.write_text(f'[connectors.fake]\nbase_url = "{model.url}"\nkey = "$ENV.FAKE"\nprovider = "anthropic"\n')
        monkeypatch.setenv("PADDOCK_CONFIG", str(config))
        monkeypatch.setenv("FAKE", model.key)
        listed = paddock("agents")
        assert "paddock agent claude 'fix" in listed.err
        done = paddock("agent", "claude", "fix it")
    assert (done.code, done.out) == (0, "It is fixed.\n"), done.err
    assert "Bash: echo fixed > a.txt" in done.err
    assert "tokens in" in done.err
    assert "2 turns" in done.err
    assert (project / "a.txt").read_text() == "a\n"
    assert "/workspace/a.txt" in done.err
    assert model.key not in done.err


# The list


def test_agents(paddock: Paddock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    lines = paddock("agents").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", *agents()]
    told = {agent["name"]: agent for agent in json.loads(paddock("agents", "--json").out)["agents"]}
    assert set(told) == set(agents())
    assert told["scripted"]["found"]
    assert not told["claude"]["found"]
    assert "npm install" in next(line for line in lines if line.startswith("claude"))
    assert "Claude Code" in paddock("agents", "claude").out
    assert json.loads(paddock("agents", "scripted", "--json").out)["mounts"]
    assert "write PATH TEXT" in paddock("agents", "scripted").out
    assert paddock("agents", "nobody").code == 125


def test_versions_without_a_platform(paddock: Paddock, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    package = project / "node_modules" / "@anthropic-ai" / "claude-code-linux-x64"
    package.mkdir(parents=True)
    (package / "claude").write_text("#!/bin/sh\n")
    (package / "package.json").write_text('{"version": "0.166.0-linux-x64"}')
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert "0.166.0\n" in paddock("agents", "claude").out


def test_the_version_of_a_plain_program(paddock: Paddock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked where it can reach nothing; one that gives no answer has none."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    scripts = {
        "codex": f"touch {tmp_path}/ran; [ -e {tmp_path} ] || echo codex-cli 0.166.0 \\(x\\)",
        "claude": "exit 1; echo 1.2.3",
        "opencode": "exec sleep 60",
    }
    for name, script in scripts.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    told = {agent["name"]: agent["version"] for agent in json.loads(paddock("agents", "--json").out)["agents"]}
    assert (told["codex"], told["claude"], told["opencode"]) == ("0.166.0", None, None)
    assert told["scripted"] is None
    assert "0.166.0\n" in paddock("agents", "codex").out
    assert not (tmp_path / "ran").exists()


# Words


def test_summaries_are_short_and_inert() -> None:
    calls = [
        ToolCall("1", "Bash", {"command": "make\n  test", "description": "run it"}),
        ToolCall("2", "shell", {"command": ["sh", "-c", "ls"]}),
        ToolCall("3", "Write", {"file_path": "/workspace/a", "content": "x" * 1_000_000}),
        ToolCall("4", HOSTILE * 1000, {HOSTILE: [1, {}], "b": {}}),
        ToolCall("5", "Task", {"depth": {"a": 1}, "list": [1, 2], "flag": False}),
        ToolCall("6", "none", {}),
    ]
    told = [summary(call) for call in calls]
    assert told[0] == "Bash: make test"
    assert told[1] == "shell: sh -c ls"
    assert told[2] == "Write: /workspace/a"
    assert told[4] == "Task: depth={1}, list=[2], flag=False"
    assert told[5] == "none"
    assert all(len(words) <= WIDEST and words.isprintable() for words in told)
    assert short("x" * 500) == "x" * (WIDEST - 1) + "…"
    assert end_of("x" * 500) == "…" + "x" * (WIDEST - 1)
    assert end_of(f"{HOSTILE * 1000}a\nb").endswith("a b")
    assert end_of(HOSTILE * 1000).isprintable()
    assert inert("a\tb\nc\x1b") == "a\tb\nc\\x1b"


def test_pieces_become_lines() -> None:
    written = Written()
    assert written.feed("one\ntw") == ["one"]
    assert written.cut() == ["tw"]
    assert written.feed("\n\nthree") == [""], "the line was ended already"
    assert written.cut() == ["three"]
    assert written.cut() == []
