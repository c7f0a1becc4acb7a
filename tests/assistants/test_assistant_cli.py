"""`paddock assistant`, as people and as scripts use it."""

import asyncio
import json
import os
import resource
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assistants.conftest import PROMPTS
from assistants.folders import made, written
from assistants.test_requests import ASKING
from paddock import Manager
from paddock.assistants import Assistant
from paddock.assistants.making import new_assistant
from paddock.cli import chatting, files
from paddock.cli.app import program
from paddock.cli.files import listed
from paddock.errors import ExistsError, UnavailableError
from paddock.runners.events import KINDS
from paddock.testing import FakeModel, Say, Use
from paddock.types.consent import ApprovalRequest
from test_cli_review import PROGRAM, talk


@pytest.fixture
def paddock(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program in this process; its exit code, and both streams."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout", sys.stdout)  # which is lent to hooks

    def call(*arguments: str, stdin: bytes = b"") -> SimpleNamespace:
        (tmp_path / "stdin").write_bytes(stdin)
        with (tmp_path / "stdin").open(encoding="utf-8") as file, monkeypatch.context() as patch:
            patch.setattr("sys.stdin", file)
            code = program("assistant")(("assistant", *arguments), prog_name="paddock", standalone_mode=False)
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return call


@pytest.fixture
def scripted(tmp_path: Path) -> str:
    hooks = """
        def next(ctx, reply):
            print("printed by a hook")
            return reply.text + "!" if "loud" in reply.text else None
    """
    yml = "sandbox: {agent: scripted}\nvariables: {team: apollo}\ndescription: Does as it is told."
    return made(
        tmp_path / "echo", assistant_yml=yml, prompts_yml=PROMPTS + "greeting: Hi {{user}}.\n", hooks_py=hooks
    ).path


def test_new_makes_one_that_works(paddock: Any, tmp_path: Path) -> None:
    done = paddock("new", "editor")
    names = ["assistant.yml", "hooks.py", "prompts.yml", "skills/house-style/SKILL.md", "tools.py"]
    assert (done.code or 0, done.out.split()) == (0, [f"editor/{name}" for name in names])
    found = Assistant.load(tmp_path / "editor")
    assert (found.sandbox.agent, found.sandbox.policy, len(found.tools), len(found.skills)) == (
        "claude",
        "session",
        1,
        1,
    )
    assert paddock("check", "editor").out == "editor: ok\n"
    assert paddock("new", "editor").code == 125
    assert not new_assistant(tmp_path / "direct", "").has_sandbox
    (tmp_path / "empty").mkdir()
    made = new_assistant(tmp_path / "empty", "scripted")
    assert (made.sandbox.agent, made.skills) == ("scripted", ())
    with pytest.raises(ExistsError):
        new_assistant(tmp_path / "editor")
    done = paddock("new", "wrong", "--agent", "nobody")
    assert (done.code, (tmp_path / "wrong").exists()) == (125, False)
    assert "There is no agent 'nobody'" in done.err
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # as on a disk that is full
    try:
        with pytest.raises(UnavailableError, match=r"cannot be written: .*File too large"):
            new_assistant(tmp_path / "half")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "half").exists()
    done = paddock("new", "my editor")  # it could not be loaded
    assert (done.code, (tmp_path / "my editor").exists()) == (125, False)
    assert "cannot be an assistant's name" in done.err


@pytest.mark.parametrize("agent", ["claude", "scripted", "opencode", ""])
def test_comments_of_a_new_one_stand_below_each_other(tmp_path: Path, agent: str) -> None:
    new_assistant(tmp_path / "a", agent)
    lines = (tmp_path / "a/assistant.yml").read_text().splitlines()
    places = {line.index("  #") for line in lines if line.startswith("  ") and "  #" in line.strip()}
    assert len(places) == 1, lines


def test_check_tells_what_is_for_nothing_or_not_here(
    paddock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text("[connectors.one]\nbase_url = 'https://x.example'\n")
    monkeypatch.setenv("PADDOCK_CONFIG", str(config))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("TOKEN", raising=False)
    fine = tmp_path / "fine"
    made(fine, assistant_yml="tools: [tools.py:f]", tools_py="def f() -> str: return ''", prompts_yml="system: Hi.")
    assert paddock("check", "fine") == SimpleNamespace(code=None, out="fine: ok\n", err="")
    agent = "sandbox: {agent: codex}\nconnector: two\nnetwork: [a.org]\nsecrets: {TOKEN: {hosts: [a.org]}}"
    written(tmp_path / "much", assistant_yml=agent, prompt_yml="system: Hi.", tools_py="", skill="")
    (tmp_path / "much/mcp").mkdir()
    (tmp_path / "much/mcp/a.yml").write_text("command: nowhere-to-be-found\n")
    (tmp_path / "much/mcp/b.yml").write_text("command: sh\nenv: {A: $ENV.NOT_SET_HERE}\n")
    (tmp_path / "much/mcp/c.yml").write_text("command: sh\n")
    done = paddock("check", "much")
    assert (done.code, done.out) == (None, "much: ok\n")
    told = [line.removeprefix("much: ") for line in done.err.splitlines()]
    for words in (
        "'prompt.yml' is not read. Did you mean 'prompts.yml'?",
        "Codex is not on this host: `paddock agents` says how to get it.",
        "The assistant 'much' wants 'two', and the gateway has one.",
        "the secret TOKEN has no value: the variable TOKEN is not set here.",
        "the program 'nowhere-to-be-found' of the server a is not on this host.",
        f"{tmp_path}/much/mcp/b.yml, line 2: env.A: the variable NOT_SET_HERE is not set",
    ):
        assert [line for line in told if line.startswith(words)], words
    assert len(told) == 6
    alone = "sandbox: {memory: 4g, image: debian:12, timeout: 10m}\nnetwork: [pypi.org]"
    made(tmp_path / "alone", assistant_yml=alone)
    (found,) = json.loads(paddock("check", "alone", "--json").out)["assistants"]
    assert found["error"] is None
    assert found["remarks"] == [
        "without an agent there is no sandbox, and image, memory, cpu or pids, network are for nothing."
    ]


def test_new_without_an_agent(paddock: Any, tmp_path: Path) -> None:
    paddock("new", "plain", "--agent", "")
    found = Assistant.load(tmp_path / "plain")
    assert not found.has_sandbox
    assert "drafts/" not in found.prompts.system
    assert "agent: claude" in (tmp_path / "plain/assistant.yml").read_text()  # as a remark: how to have one


def test_check_and_list(paddock: Any, tmp_path: Path) -> None:
    written(tmp_path / "all" / "a", assistant_yml="description: One.\n")
    written(tmp_path / "all" / "b", assistant_yml="sandbox: {agent: scripted}\n")
    done = paddock("check", "all")
    assert (done.code or 0, done.out) == (0, "all/a: ok\nall/b: ok\n")
    assert "all/b: its agent has no prompt, skill or tool, and is never asked." in done.err
    done = paddock("list", "all")
    assert [line.split() for line in done.out.splitlines()] == [
        ["NAME", "AGENT", "DESCRIPTION"],
        ["a", "-", "One."],
        ["b", "scripted"],
    ]
    assert [one["name"] for one in json.loads(paddock("list", "all", "--json").out)["assistants"]] == ["a", "b"]
    written(tmp_path / "all" / "c", assistant_yml="sandbox:\n  timeout: soon\n")
    done = paddock("check", "all", "--json")
    assert done.code == 1
    assert "line 2: sandbox.timeout: invalid timeout" in json.loads(done.out)["assistants"][2]["error"]
    done = paddock("list", "all")
    assert [line.split()[0] for line in done.out.splitlines()] == ["NAME", "a", "b", "c"]
    assert "line 2: sandbox.timeout: invalid timeout" in done.out
    listed = json.loads(paddock("list", "all", "--json").out)["assistants"]
    assert [(one["name"], bool(one["error"])) for one in listed] == [("a", False), ("b", False), ("c", True)]
    assert paddock("list", "nowhere").code == 125
    assert json.loads(paddock("schema", "prompts").out)["properties"]["system"]
    assert paddock("schema", "other").code == 125


def test_run(paddock: Any, scripted: str, tmp_path: Path) -> None:
    done = paddock("run", scripted, "say hello\nrun echo hi > hi.txt")
    assert (done.code, done.out) == (0, "hello\n")
    assert "creating the sandbox" in done.err
    assert "printed by a hook" in done.err
    done = paddock("run", scripted, "-q", "-", stdin=b"recall")
    assert (done.code, done.out.strip()) == (0, "say hello\nrun echo hi > hi.txt")
    assert paddock("run", scripted, "-q", "--new", "recall").out == "nothing\n"
    assert paddock("run", scripted, "-q", "--chat", "other", "recall").out == "nothing\n"
    assert paddock("run", scripted, "-q", "say loud").out == "loud!\n"
    done = paddock("run", scripted, "--json", "say x\nrun cat hi.txt")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert {line["kind"] for line in lines} <= set(KINDS)
    assert (lines[-1]["kind"], lines[-1]["text"]) == ("done", "x")
    assert [line["output"] for line in lines if line["kind"] == "tool_result"] == ["hi\n"]
    done = paddock("run", scripted, "fail on purpose")
    assert (done.code, "on purpose" in done.err) == (1, True)
    assert "has no variable 'x'" in paddock("run", scripted, "--var", "x=1", "say x").err
    (tmp_path / "note.txt").write_text("attached")
    done = paddock("run", scripted, "-q", "--attach", "note.txt", "run cat .attachments/note.txt > out.txt")
    assert done.code == 0


async def test_run_without_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a connector of the configuration, and with a tool that runs here."""
    folder = tmp_path / "editor"
    new_assistant(folder, "")
    async with FakeModel([Use("word_count", {"text": "a b a", "unique": True}), Say("2 words")]) as model:
        config = tmp_path / "paddock.toml"
        lines = [
            f'base_url = "{model.url}"',
            'key = "$ENV.MY_KEY"',
            'provider = "custom"',
            'wire = "chat"',
            'model = "m"',
        ]
        config.write_text("\n".join(["[connectors.one]", *lines]))
        monkeypatch.setenv("MY_KEY", "k")
        monkeypatch.setenv("PADDOCK_CONFIG", str(config))
        command = [*PROGRAM, "assistant", "run", str(folder), "how many?"]
        process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
        out, err = await process.communicate()
    assert (process.returncode, out.decode()) == (0, "2 words\n"), err.decode()
    assert "ok      word_count: text=a b a, unique=True" in err.decode()
    assert "log     2 words in answer to 2" in err.decode()


def test_why_there_is_no_sandbox(paddock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who types this runs the host, and is told what its users are not."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere")
    yml = "sandbox: {agent: scripted, backend: docker}\n"
    done = paddock("run", made(tmp_path / "b", assistant_yml=yml, prompts_yml=PROMPTS).path, "say hi")
    assert (done.code, done.err.splitlines()[-1].partition(": ")[0]) == (1, "UNAVAILABLE")
    assert "UnavailableError" not in done.err


def test_chat_in_a_pipe(paddock: Any, scripted: str) -> None:
    done = paddock("chat", scripted, "-q", stdin=b"say one\n\nrecall\n/new\nrecall\n/exit\nsay never\n")
    assert (done.code, done.out.split("\n")) == (0, ["one", "say one", "", "nothing", ""])


def test_what_a_chat_survives(paddock: Any, scripted: str) -> None:
    lines = [
        b"/attach ~nobody-of-this-name/x",
        b"/attach a\0b",
        b"/attach nowhere",
        b"/files",
        b"/fiels",
        b"say \xff one",
        b"say two",
    ]
    done = paddock("chat", scripted, "-q", stdin=b"\n".join(lines))
    assert (done.code, done.out) == (0, "\ufffd one\ntwo\n")
    for words in ("whose home '~nobody-of-this-name/x' is in", "'a\\x00b' cannot be read", "there are none yet"):
        assert words in done.err
    assert "there is no /fiels here, only:\n/attach FILE" in done.err


def test_what_cannot_be_sent_along_is_not_read(paddock: Any, tmp_path: Path) -> None:
    """A device has no end, a pipe nobody at its other one, and a file may be larger than the memory."""
    yml = "sandbox: {agent: scripted}\nattachments: {max_bytes: 1k}\n"
    folder = made(tmp_path / "b", assistant_yml=yml, prompts_yml=PROMPTS).path
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "small").write_bytes(b"x" * 1024)
    lines = [f"/attach {name}" for name in ("/dev/zero", "pipe", ".", "large", "small")]
    done = paddock("chat", folder, "-q", stdin="\n".join([*lines, "run wc -c < .attachments/small > n"]).encode())
    assert (done.code, done.err.count("it is no regular file")) == (0, 3), done.err
    assert "'large' is too large to send along." in done.err
    done = paddock("run", folder, "--attach", "large", "say x")
    assert (done.code, "too large" in done.err) == (125, True)


def test_a_chat_that_ends_badly_says_so(paddock: Any, tmp_path: Path) -> None:
    yml = "sandbox: {agent: scripted}\nvariables: {project: null}\n"
    folder = made(tmp_path / "b", assistant_yml=yml, prompts_yml="system: On {{project}}.\n").path
    done = paddock("chat", folder, "-q", stdin=b"say one\n")
    assert (done.code, "'project' has to be given" in done.err) == (125, True)
    assert paddock("chat", folder, "-q", "--var", "project=x", stdin=b"fail x\n").code == 1
    assert paddock("chat", folder, "-q", "--var", "project=x", stdin=b"fail x\nsay one").code == 0


@pytest.mark.parametrize("workspace", ["", ", workspace: shared"])
def test_files_of_a_chat(paddock: Any, tmp_path: Path, workspace: str) -> None:
    """Whatever an agent has made of its directory, the conversation goes on."""
    yml = f"sandbox: {{agent: scripted{workspace}}}\n"
    folder = made(tmp_path / "b", assistant_yml=yml, prompts_yml=PROMPTS).path
    deep = "i=0; while [ $i -lt 1500 ]; do mkdir d && cd -P d && i=$((i+1)) || break; done"
    script = f"run mkdir a; echo x > a/b.txt; ln -s / root; mkfifo pipe; touch $(printf 'c\\033[31m'); {deep}"
    done = paddock("chat", folder, "-q", stdin=f"{script}\n/files\nsay one\nrun rm -rf d".encode())
    assert (done.code, done.out.split("\n")) == (0, ["a/b.txt", "c\\x1b[31m", "one", ""])
    assert "and more, which are not listed" in done.err


def test_files_are_listed_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / "d").mkdir(exist_ok=True)
        (tmp_path / "d" / name).touch()
    assert (listed(str(tmp_path)).names, listed(str(tmp_path)).complete) == (["d/a", "d/b", "d/c"], True)
    assert (listed(str(tmp_path), 2).names, listed(str(tmp_path), 2).complete) == (["d/a", "d/b"], False)
    monkeypatch.setattr(files, "_MOST_LOOKED_AT", 2)
    assert (len(listed(str(tmp_path)).names), listed(str(tmp_path)).complete) == (1, False)
    assert listed(str(tmp_path / "nowhere")).names == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_chat_that_waits_for_a_line_can_be_ended(scripted: str, number: int, code: int) -> None:
    command = [*PROGRAM, "assistant", "chat", scripted, "-q"]
    process = await asyncio.create_subprocess_exec(*command, stdin=-1, stdout=-1, stderr=-1)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"say one\n/help\n")
    await process.stderr.readuntil(b"/exit")  # what was said is done: a first Ctrl-C would end no more than that
    process.send_signal(number)
    out, err = await process.communicate()
    assert (process.returncode, out, b"Traceback" in err) == (code, b"one\n", False)


async def test_one_program_at_a_time(scripted: str) -> None:
    """The other one is told what it can do, in words that are options of this command."""
    command = [*PROGRAM, "assistant", "run", scripted, "say hi"]
    async with Manager():
        process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
        _, err = await process.communicate()
    assert process.returncode == 125
    assert b"Another manager has this state directory" in err
    assert b"set PADDOCK_STATE." in err


async def test_nothing_acts_in_what_is_logged(tmp_path: Path) -> None:
    hooks = "def create(ctx, messages):\n    raise ValueError(messages[-1].text)\n"
    folder = written(tmp_path / "a", assistant_yml="sandbox: {agent: scripted}", hooks_py=hooks)
    command = [*PROGRAM, "assistant", "run", str(folder), "\x1b]0;title\x07"]
    process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
    _, err = await process.communicate()
    assert b"\\x1b]0;title\\x07" in err
    assert b"\n  File " in err
    assert b"\x1b" not in err


async def test_one_question_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed is the answer to what stands there."""
    at_once: list[int] = []
    most = 0

    async def asked(_: ApprovalRequest) -> bool:
        nonlocal most
        at_once.append(1)
        most = max(most, len(at_once))
        await asyncio.sleep(0.01)
        at_once.pop()
        return True

    monkeypatch.setattr(chatting, "asked_at_terminal", asked)
    talking = chatting.Talk(Assistant("a", str(tmp_path)), "ann", "1", {})
    request = ApprovalRequest("tool", "pay", "x", "y", "z", "model", None)
    assert await asyncio.gather(*(talking.asked(request) for _ in range(3))) == [True] * 3
    assert most == 1


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("typed", ["y", "n"])
def test_somebody_at_the_terminal_is_asked_about_a_tool(tmp_path: Path, typed: str) -> None:
    asking = {**ASKING, "assistant_yml": ASKING["assistant_yml"] + "sandbox: {agent: scripted}\n"}
    folder = made(tmp_path / "a", **asking).path
    code, shown = talk(
        ["assistant", "chat", folder],
        ("\n> ", 'use pay {"sum": 5}'),
        ("tool pay? [y/N] ", typed),
        ("\n> ", "/exit"),
    )
    assert code == 0
    assert 'A model calls pay with {"sum": 5}' in shown
    assert "\x1b[2K" not in shown.partition("tool pay? ")[2]  # nothing is drawn over a question
    assert ("failed  pay" in shown) is (typed == "n")
    assert ("ok      pay" in shown) is (typed == "y")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that cannot move its cursor."""
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.usefixtures("plain")
def test_chat_on_a_terminal(scripted: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    code, shown = talk(
        ["assistant", "chat", scripted, "--user", "ann"],
        ("\n> ", "say hello"),
        ("\n> ", "/help"),
        ("\n> ", f"/attach {tmp_path}/a.txt"),
        ("\n> ", "run ls .attachments\nsay thanks"),
        ("\n> ", "/files"),
        ("\n> ", "/exit"),
    )
    assert code == 0
    shown = shown.replace("\r\n", "\n")
    assert shown.startswith("Hi ann.\n")
    assert "hello" in shown
    assert "[Attachment: a.txt (text/plain, 1 B)] goes with the next message" in shown
    assert ".attachments/a.txt" in shown
    assert "there is no" not in shown


@pytest.mark.usefixtures("plain")
def test_ctrl_c_where_a_line_is_typed(scripted: str) -> None:
    """It may have been meant for an assistant that was just done: the conversation goes on, unless it comes again."""
    code, shown = talk(
        ["assistant", "chat", scripted],
        ("\n> ", "say one"),
        ("\n> ", "\x03"),
        ("or Ctrl-D, ends it)\r\n\r\n> ", "say two"),
        ("\n> ", "\x03"),
        ("or Ctrl-D, ends it)\r\n\r\n> ", "\x03"),
    )
    assert code == 130
    assert shown.count("done after") == 2
    assert shown.endswith("^C\r\n")


@pytest.mark.usefixtures("plain")
def test_a_line_that_a_terminal_has_cut_is_not_sent(scripted: str) -> None:
    code, shown = talk(["assistant", "chat", scripted], ("\n> ", f"say {'x' * 5000}"), ("\n> ", "/exit"))
    assert (code, "was not sent" in shown, "done after" in shown) == (0, True, False)


_EDITED = "\x1b[0m>"
"""The prompt, as a terminal is told to draw it."""


def test_a_line_can_be_edited(scripted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrows move, earlier lines come back, what is pasted is one message, and Alt-Enter is a new line of it."""
    monkeypatch.setenv("TERM", "xterm")
    left, up = "\x1b[D", "\x1b[A"
    code, shown = talk(
        ["assistant", "chat", scripted],
        (_EDITED, f"say oe{left}n\r"),
        ("done after", None),
        (_EDITED, f"{up}{up} two\r"),
        ("done after", None),
        (_EDITED, f"\x1b[200~say {'x' * 5000}\nrun echo pasted > p\x1b[201~\r"),
        ("done after", None),
        (_EDITED, "say a\x1b\rrun cat p\r"),
        ("done after", None),
        (_EDITED, "half\x03"),
        ("or Ctrl-D, ends it)", None),
        (_EDITED, "\x04"),
    )
    assert code == 0
    assert [shown.count(words) for words in ("done after", "ok      run: echo pasted > p", "run: cat p (")] == [4, 1, 1]
    assert "one\r\n" in shown
    assert "one two\r\n" in shown  # as it is typed, the cursor goes back after it


def test_ctrl_c_twice_ends_what_is_edited(scripted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    code, shown = talk(["assistant", "chat", scripted], (_EDITED, "\x03"), ("ends it)", None), (_EDITED, "\x03"))
    assert (code, "Traceback" in shown) == (130, False)


@pytest.mark.parametrize("written", ["my file.txt", "'my file.txt'", '"my file.txt"', "my\\ file.txt"])
def test_names_of_files_as_a_shell_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my file.txt").touch()
    assert chatting._chosen(written) == Path("my file.txt")
    assert chatting._chosen("it's") == Path("it's")


async def test_who_develops_a_hook_is_told_where_it_fails(tmp_path: Path) -> None:
    hooks = "def create(ctx, messages):\n    raise ValueError('a detail')\n"
    folder = written(tmp_path / "a", assistant_yml="sandbox: {agent: scripted}", hooks_py=hooks)
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "assistant", "run", str(folder), "hi", stdout=-1, stderr=-1
    )
    _, err = await process.communicate()
    assert process.returncode == 1
    assert "hooks.py, line 2: create: ValueError: a detail" in err.decode()
    assert "The hook create of a failed: ValueError." in err.decode()
