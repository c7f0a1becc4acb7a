"""The life of a request: history, sandbox, create, agent, next, clean-up; with the scripted agent, in real sandboxes."""

import asyncio
import os
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from assistants.conftest import PROMPTS, SCRIPTED, Staged
from paddock import ClosedError, ConfigError, Connector, LimitReachedError
from paddock.assistants import Assistant, Upload
from paddock.assistants.folding import folded
from paddock.assistants.place import Place
from paddock.assistants.preparing import Preparation
from paddock.runners import Done, Log, Message, Progress, Started, Text, ToolCall, ToolResult
from paddock.testing import Say, Use
from paddock.types.consent import ApprovalRequest

HOOKS = """
    async def create(ctx, messages):
        ctx.log("create")
        ctx.state["from create"] = 7
        await ctx.sandbox.write("made.txt", "by create")
        assert [message.text for message in messages] == [message.text for message in ctx.messages]

    def next(ctx, reply):
        ctx.log("next")
        assert ctx.state["from create"] == 7
        assert ctx.wait(ctx.sandbox.read("made.txt")) == "by create, and the agent"
        names = (ctx.user, ctx.chat, ctx.assistant, ctx.variables["user"], ctx.sandbox.workdir)
        return f"{reply.text} {names}"
"""


async def test_the_order_of_things(staged: Staged) -> None:
    async with staged(a={"assistant_yml": SCRIPTED, "prompts_yml": PROMPTS, "hooks_py": HOOKS}) as stage:
        reply = await stage.done("run printf ', and the agent' >> made.txt\nsay Fine.")
        assert reply == "Fine. ('ann', '1', 'a', 'ann', '/workspace')"
        kinds: list[str] = []
        for event in stage.events:
            if isinstance(event, Progress) and event.state:
                kinds.append(event.state)
            elif isinstance(event, (Log, Done, Started)):
                kinds.append(getattr(event, "text", "Started"))
        assert kinds == ["creating", "ready", "create", "Started", "next", reply]
        assert [message.text for message in await stage.service.messages("a", user="ann", chat="1")][1] == reply
        assert await stage.put_away()


async def test_a_conversation_goes_on(staged: Staged) -> None:
    """In the agent's own session, also where the sandbox is another one; and from the history where there is none."""
    for policy in ("session", "oneshot"):
        yml = f"sandbox: {{agent: scripted, policy: {policy}}}\n"
        async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS}) as stage:
            assert await stage.done("say one", chat=policy) == "one"
            assert await stage.done("recall", chat=policy) == "say one"
            said = await stage.service.messages("a", user="ann", chat=policy)
            assert [(message.role, message.text) for message in said] == [
                ("user", "say one"),
                ("assistant", "one"),
                ("user", "recall"),
                ("assistant", "say one"),
            ]
            assert await stage.service.forget(user="ann", chat=policy) == 1
            assert await stage.done("recall", chat=policy) == "nothing"
            assert await stage.done("recall", chat=policy, history=False) == "nothing"


async def test_the_files_of_a_chat_stay_and_are_nobody_elses(staged: Staged) -> None:
    files = {"assistant_yml": SCRIPTED, "prompts_yml": PROMPTS}
    async with staged(a=files, b=files) as stage:
        await stage.done("write mine.txt secret of ann\nsay ok")
        for who in ({"user": "bob"}, {"chat": "2"}):
            await stage.done("run ls -a; cat mine.txt\nsay ok", **who)
            (result,) = stage.of(ToolResult)
            assert "secret" not in result.output
        for assistant in ("a", "b"):  # which share the workspace of the chat
            await stage.done("run cat mine.txt\nsay ok", assistant=assistant)
            (result,) = stage.of(ToolResult)
            assert result.output == "secret of ann"


async def test_several_assistants_keep_what_is_theirs(staged: Staged) -> None:
    a = {
        "assistant_yml": SCRIPTED + "tools: [t.py:echo]",
        "prompts_yml": PROMPTS,
        "t_py": "def echo() -> str: return 'a'\n",
    }
    b = {
        "assistant_yml": SCRIPTED + "tools: [t.py:echo]",
        "prompts_yml": PROMPTS,
        "t_py": "def echo() -> str: return 'b'\n",
    }
    async with staged(a=a, b=b) as stage:
        for _ in range(2):
            for name in ("a", "b"):
                await stage.done("recall\nuse echo\nsay ok", assistant=name)
                assert [result.output for result in stage.of(ToolResult)] == [name]
        assert Log("Loaded 1 tools: echo", "paddock") in stage.events


async def test_requests_at_once_in_one_sandbox(staged: Staged) -> None:
    """One sandbox, a lease and a home for each. What was said aside is known to who comes next."""
    files = {"assistant_yml": SCRIPTED + "tools: [t.py:echo]", "prompts_yml": PROMPTS}
    tools = "def echo(text: str) -> str:\n    return text\n"
    async with staged(a=dict(files, t_py=tools)) as stage:

        async def one(number: int) -> Any:
            script = f'run echo $HOME > home{number}\nuse echo {{"text": "{number}"}}\nwait 0.5\nsay {number}'
            run = stage.service.request("a", script, user="ann", chat="1")
            return [event async for event in run]

        told = await asyncio.gather(*(one(number) for number in range(4)))
        assert [events[-1].text for events in told] == ["0", "1", "2", "3"]
        for number, events in enumerate(told):
            outputs = [event.output for event in events if isinstance(event, ToolResult)]
            assert outputs == ["", str(number)]
        assert len(await stage.manager.list()) == 1
        await stage.done("say now")
        assert [event.resumed for event in stage.of(Started)] == [False]  # none has heard all of it
        await stage.done("run cat home*; ls ~/..\nsay ok")
        (result,) = stage.of(ToolResult)
        homes = result.output.split("\n")
        assert len(set(homes[:4])) == 4
        assert homes[4:] == ["a", ""]
        assert {message.text for message in await stage.service.messages("a", user="ann", chat="1")} >= set("0123")
        assert await stage.put_away()


async def test_a_session_that_has_not_heard_all_begins_anew(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reply is kept between the time when another request reads the history and the time when it has its sandbox."""
    settle_in, has_read, go_on = Place.settle_in, asyncio.Event(), asyncio.Event()

    async def held_up(place: Place, said: Any) -> None:
        if said[0].pieces[0] == "say third":
            has_read.set()
            await go_on.wait()
        await settle_in(place, said)

    monkeypatch.setattr(Place, "settle_in", held_up)
    async with staged(a={"assistant_yml": SCRIPTED, "prompts_yml": PROMPTS}) as stage:
        first = stage.service.request("a", "run until [ -e go ]; do sleep 0.05; done\nsay first", user="ann", chat="1")
        while not isinstance(await anext(first), ToolCall):
            pass
        assert await stage.done("say second") == "second"  # aside: the first has its session
        third = asyncio.ensure_future(stage.service.execute("a", "say third", user="ann", chat="1"))
        await has_read.wait()
        (workspace,) = await stage.manager.workspaces("ann")
        Path(workspace.path, "go").touch()
        assert [event.text async for event in first if isinstance(event, Done)] == ["first"]
        go_on.set()
        assert (await third).text == "third"
        for resumed in (False, True):
            await stage.done("say more")
            assert [event.resumed for event in stage.of(Started)] == [resumed]


@pytest.mark.parametrize("files", [{}, {"prompts_yml": "greeting: hi\n"}])
async def test_an_agent_with_nothing_to_go_by_is_not_asked(staged: Staged, files: dict[str, str]) -> None:
    hooks = """
        async def create(ctx, messages):
            await ctx.sandbox.exec("echo made > made.txt", check=True)

        async def next(ctx, reply):
            assert reply.text == ""
            return "hooks alone: " + await ctx.sandbox.read("made.txt")
    """
    yml = "sandbox: {agent: claude, policy: session}"  # which is not even installed for this
    async with staged(a=dict(files, assistant_yml=yml, hooks_py=hooks)) as stage:
        assert await stage.done("do it") == "hooks alone: made\n"
        assert (stage.of(Started), stage.of(Text), stage.model.requests) == ([], [], [])
        assert str(stage.events[-1].session).startswith("skip-")  # type: ignore[union-attr]


@pytest.mark.parametrize("told", [False, True])
async def test_an_agent_that_is_told_something_by_its_options_is_asked(staged: Staged, told: bool) -> None:
    arguments = ", arguments: {system: You do what you are told.}" if told else ""
    async with staged(a={"assistant_yml": SCRIPTED.replace("}", f"{arguments}}}")}) as stage:
        assert await stage.done("say hi") == ("hi" if told else "")


async def test_all_that_is_said_at_once_is_heard(staged: Staged) -> None:
    """Also by an agent whose session goes on; and what it has heard before it is not told again."""
    hooks = """
        def create(ctx, messages):
            return [{"role": "user", "content": "think of cats"}, *messages[:-1], messages[-1]]
    """
    async with staged(a={"assistant_yml": SCRIPTED, "prompts_yml": PROMPTS, "hooks_py": hooks}) as stage:
        said = [
            [{"role": "user", "content": "say one"}],
            [
                {"role": "user", "content": [Upload("a.txt", b"x", "text/plain").part]},
                {"role": "user", "content": "say two"},
            ],
        ]
        for number, messages in enumerate(said):
            await stage.done(messages)
            assert [event.resumed for event in stage.of(Started)] == [number > 0]
        lines = [line for line in (await stage.done("recall")).split("\n") if line]
        attached = "[Attachment: .attachments/a.txt (text/plain, 1 B)]"
        assert lines == ["think of cats", "say one", "think of cats", attached, "say two"]


def test_what_is_new_is_one_message() -> None:
    def user(text: str) -> Message:
        return Message("user", text)

    known = [user("yes"), Message("assistant", "good")]
    system = Message("system", "s")
    for told, expected in (
        ([*known, user("yes")], [*known, user("yes")]),
        ([user("yes")], [user("yes")]),
        ([system, *known, user("a"), user("b")], [system, *known, user("a\n\nb")]),
        ([user("a"), known[1], user("b")], [known[1], user("a\n\nb")]),
    ):
        assert folded(told, known) == expected
    heard = folded([*known, user("a"), Message("assistant", "b"), user("c")], known)[-1].text
    assert heard.index("User: a") < heard.index("Assistant: b") < heard.index("Now the user says\n\nc")
    assert folded([], known)[-1].text == ""


async def test_an_assistant_without_a_past(staged: Staged) -> None:
    files = {"assistant_yml": SCRIPTED + "history: 0\n", "prompts_yml": PROMPTS}
    async with staged(a=files) as stage:
        for _ in range(2):
            assert await stage.done("recall") == "nothing"
        assert len(await stage.service.messages("a", user="ann", chat="1")) == 4


ASKING = {
    "assistant_yml": "tools: [{use: 't.py:pay', consent: ask}]\n",
    "prompts_yml": PROMPTS,
    "t_py": "def pay(sum: int) -> str:\n    return f'paid {sum}'\n",
}


@pytest.mark.parametrize("agent", [True, False])
async def test_somebody_is_asked_about_a_tool(staged: Staged, agent: bool) -> None:
    asked: list[str] = []

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request.summary)
        return "5" in request.summary

    yml = ASKING["assistant_yml"] + (SCRIPTED if agent else "")
    script = [Use("pay", {"sum": 5}), Use("pay", {"sum": 6}), Say("ok")]
    async with staged(script, approve=approve, a={**ASKING, "assistant_yml": yml}) as stage:
        await stage.done('use pay {"sum": 5}\nuse pay {"sum": 6}\nsay ok' if agent else "go")
        assert asked == [f'A model calls pay with {{"sum": {number}}}' for number in (5, 6)]
        paid, refused = stage.of(ToolResult)
        assert (paid.output, paid.failed) == ("paid 5", False)
        assert ("was not approved" in refused.output, refused.failed) == (True, True)
    async with staged(script[1:], a={**ASKING, "assistant_yml": yml}) as stage:
        await stage.done('use pay {"sum": 6}\nsay ok' if agent else "go", chat="2")
        assert stage.of(ToolResult)[0].failed  # nobody is there to ask


async def test_chats_that_share_a_sandbox_are_told_apart(staged: Staged) -> None:
    """By tools, and by whoever counts what models are asked."""
    files = {
        "assistant_yml": "sandbox: {agent: scripted, policy: longrunning, workspace: shared}\ntools: [t.py:who]\n",
        "prompts_yml": PROMPTS,
        "t_py": "from paddock import ToolContext\ndef who(ctx: ToolContext) -> str:\n    return f'{ctx.user} {ctx.chat}'\n",
        "hooks_py": """
            from paddock.bridge import Caller

            def create(ctx, messages):
                ctx.log(Caller.of(ctx.sandbox.id, ctx.sandbox.labels).chat)
        """,
    }
    async with staged(a=files) as stage:
        for chat in ("1", 'two "2"'):
            await stage.done("use who\nsay ok", chat=chat)
            assert [event.output for event in stage.of(ToolResult)] == [f"ann {chat}"]
            assert Log(chat, "hook") in stage.events
        assert len(await stage.manager.list()) == 1
        await stage.manager.remove("ann", "1", assistant="a", workspace="shared")


async def test_what_create_may_return(staged: Staged) -> None:
    hooks = """
        from paddock.assistants import Reply

        async def create(ctx, messages):
            kind = messages[-1].text
            if kind == "text":
                return "say from a text"
            if kind == "messages":
                return [{"role": "system", "content": "x"}, {"role": "user", "content": "say from messages"}]
            if kind == "reply":
                return Reply("at once")
            if kind == "wrong":
                return [3]
    """
    async with staged(a={"assistant_yml": SCRIPTED, "prompts_yml": PROMPTS, "hooks_py": hooks}) as stage:
        assert await stage.done("text") == "from a text"
        assert await stage.done("messages") == "from messages"
        assert await stage.done("say itself") == "itself"
        assert await stage.done("reply") == "at once"
        assert not stage.of(Started)
        error = await stage.failed("wrong")
        assert (error.kind, "create of a failed: it returned what is no message" in str(error)) == ("hook", True)
        said = [message.text for message in await stage.service.messages("a", user="ann", chat="1")]
        assert said == ["text", "from a text", "messages", "from messages", "say itself", "itself", "reply", "at once"]


async def test_prepare_steps(staged: Staged, tmp_path: Path) -> None:
    yml = """
        sandbox:
          agent: scripted
          policy: session
          prepare:
            - {file: config/app.ini, content: first}
            - {file: MEMORY.md, content: seed, keep: true}
            - {copy: seed, to: data}
            - {exec: echo once >> once.log, once: true}
            - {exec: [sh, -c, echo each >> each.log]}
            - {exec: exit 3, ignore_error: true}
            - {exec: "while :; do sleep 1; done", background: true}
    """
    files = {"assistant_yml": yml, "prompts_yml": PROMPTS, "seed__a_txt": "a\n"}
    show = "run cat once.log each.log MEMORY.md data/a.txt; ps -e -o args= | grep -c 'while :[;]'\nsay ok"
    async with staged(a=files) as stage:
        await stage.done("run echo changed > MEMORY.md; echo changed > config/app.ini\nsay ok")
        assert "make" not in [event.text for event in stage.of(Progress)]
        await stage.done(show + "\nrun cat config/app.ini")
        first, second = stage.of(ToolResult)
        assert first.output.split() == ["once", "each", "each", "changed", "a", "1"]
        assert second.output == "first"
        await stage.manager.remove("ann", "1", assistant="a")  # the workspace stays, and what was done once in it
        await stage.done(show)
        assert stage.of(ToolResult)[0].output.split() == ["once", "each", "each", "each", "changed", "a", "1"]
    changed = dict(files, assistant_yml=yml.replace("echo once >>", "echo once more >>"))
    async with staged(a=changed) as stage:
        await stage.done("run cat once.log\nsay ok")
        assert stage.of(ToolResult)[0].output == "once\nonce more\n"


async def test_what_is_copied_once_is_copied_again_when_it_changes(staged: Staged, tmp_path: Path) -> None:
    yml = SCRIPTED.replace("}", ", prepare: [{copy: seed, to: data, once: true}]}")
    files = {"assistant_yml": yml, "prompts_yml": PROMPTS, "seed__a_txt": "first\n"}
    async with staged(a=files) as stage:
        await stage.done("run echo mine > data/a.txt\nsay ok")
        for seed, expected in (("first\n", "mine\n"), ("second\n", "second\n")):
            (tmp_path / "assistants/a/seed/a.txt").write_text(seed)
            await stage.done("run cat data/a.txt\nsay ok")
            assert stage.of(ToolResult)[0].output == expected
        await stage.done("run echo mine > data/a.txt\nsay ok")
    moved = tmp_path / "elsewhere/a"
    shutil.copytree(tmp_path / "assistants/a", moved)
    async with staged(a=Assistant.load(moved)) as stage:  # the same, from another place
        await stage.done("run cat data/a.txt\nsay ok")
        assert stage.of(ToolResult)[0].output == "mine\n"
        (moved / os.fsdecode(b"seed/\xff.txt")).touch()
        await stage.done("run ls data | wc -l\nsay ok")
        assert stage.of(ToolResult)[0].output == "2\n"
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (moved / "assistant.yml").write_text(yml.replace("copy: seed", f"copy: {tmp_path}/link/a/seed"))
    async with staged(a=Assistant.load(moved)) as stage:  # its own, by another way
        await stage.done("run ls data | wc -l\nsay ok")
        assert stage.of(ToolResult)[0].output == "2\n"


async def test_a_pipe_in_what_is_copied_is_not_waited_for(staged: Staged, tmp_path: Path) -> None:
    yml = SCRIPTED.replace("}", ", prepare: [{copy: seed, to: data, once: true}]}")
    async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS, "seed__a_txt": "first\n"}) as stage:
        pipe = tmp_path / "assistants/a/seed/pipe"
        os.mkfifo(pipe)
        waiting = asyncio.ensure_future(stage.failed("say ok"))
        done, _ = await asyncio.wait([waiting], timeout=5)
        if not done:  # or the thread would have no end
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        error = await waiting
        assert (bool(done), error.kind) == (True, "sandbox")


async def test_a_workspace_is_prepared_by_one_at_a_time(staged: Staged) -> None:
    """By assistants that share it: what is done once is done once, and no attachment takes the name of another."""
    yml = SCRIPTED.replace("}", ", prepare: [{exec: 'sleep 0.3; echo $0 >> once.log', once: true}]}")
    files = {"assistant_yml": yml, "prompts_yml": PROMPTS}
    async with staged(a=files, b=files) as stage:

        async def one(number: int) -> None:
            content = [{"type": "text", "text": "say ok"}, Upload("a.txt", b"%d" % number, "text/plain").part]
            message = [{"role": "user", "content": content}]
            await stage.service.execute("ab"[number % 2], message, user="ann", chat="1")

        await asyncio.gather(*(one(number) for number in range(6)))
        await stage.done("run wc -l < once.log; cat .attachments/* | fold -w 1 | sort | tr -d '\\n'\nsay ok")
        assert stage.of(ToolResult)[0].output.split() == ["2", "012345"]


async def test_a_prepare_step_that_fails(staged: Staged) -> None:
    yml = "sandbox:\n  agent: scripted\n  prepare:\n    - {exec: 'echo no such luck >&2; exit 3', once: true}\n"
    async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS}) as stage:
        for _ in range(2):  # it was not done, so it is tried again
            error = await stage.failed("say hi")
            assert error.kind == "sandbox"
            assert "no such luck" in str(error)
            assert [event.state for event in stage.of(Progress) if event.state] == ["creating", "failed"]
            assert await stage.put_away()
            assert await stage.manager.list() == []


async def test_a_seed_that_cannot_be_read(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    yml = "sandbox: {agent: scripted, prepare: [{copy: seed, to: data, once: true}]}\n"

    def unreadable(*_: object) -> str:
        raise PermissionError(13, "Permission denied", "/srv/seed")

    async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS, "seed__a_txt": "a\n"}) as stage:
        with monkeypatch.context() as patch:
            patch.setattr(Preparation, "_hash", unreadable)
            error = await stage.failed("say hi")
        assert (error.kind, error.message) == ("internal", "The request to a failed: PermissionError.")
        assert [event.state for event in stage.of(Progress) if event.state] == ["creating", "failed"]
        assert await stage.put_away()
        await stage.done("run cat data/a.txt\nsay hi")
        assert stage.of(ToolResult)[0].output == "a\n"


async def test_attachments(staged: Staged) -> None:
    async with staged(a={"assistant_yml": SCRIPTED, "prompts_yml": PROMPTS}) as stage:
        upload = Upload("../../etc/report.txt", b"x" * 1500, "text/plain")
        parts = [
            {"type": "text", "text": "say ok"},
            upload.part,
            {"type": "file", "file": {"filename": "report.txt", "file_data": "data:text/plain;base64,aGk="}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "file", "file": {"url": "https://example.org/a.pdf"}},
            {"type": "image_url", "image_url": {"url": "HTTPS://example.org/b.png"}},
            {"type": "file", "file": {"filename": "bad.bin", "file_data": "not base64!"}},
            {
                "type": "document",
                "title": "t.txt",
                "source": {"type": "text", "media_type": "text/plain", "data": "abcd"},
            },
        ]
        last = await stage.run([{"role": "user", "content": parts}])
        assert isinstance(last, Done)
        (asked, _) = await stage.service.messages("a", user="ann", chat="1")
        assert asked.text.split("\n") == [
            "say ok",
            "[Attachment: .attachments/report.txt (text/plain, 1.5 KB)]",
            "[Attachment: .attachments/report_1.txt (text/plain, 2 B)]",
            "[Attachment: .attachments/attachment.png (image/png, 2 B)]",
            "[Image: https://example.org/a.png]",
            "[File: https://example.org/a.pdf]",
            "[Image: HTTPS://example.org/b.png]",
            "[The attachment bad.bin could not be read]",
            "[Attachment: .attachments/t.txt (text/plain, 4 B)]",
        ]
        look = "run ls .attachments; cat .attachments/report_1.txt; echo; cat .attachments/t.txt"
        await stage.done([{"role": "user", "content": [{"text": look}]}])
        names = ["attachment.png", "report.txt", "report_1.txt", "t.txt", "hi", "abcd"]
        assert stage.of(ToolResult)[0].output.split() == names


async def test_an_attachment_without_a_name_is_called_by_its_id(staged: Staged) -> None:
    part = {"type": "file", "id": "../42", "file": {"file_data": "data:application/pdf;base64,aGk="}}
    named = {"type": "file", "id": "42", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}}
    async with staged(a={"assistant_yml": SCRIPTED, "prompts_yml": PROMPTS}) as stage:
        await stage.done([{"role": "user", "content": [{"type": "text", "text": "say ok"}, part, named]}])
        (asked, _) = await stage.service.messages("a", user="ann", chat="1")
        names = ["42.pdf", "a.pdf"]
        assert asked.text.split("\n")[1:] == [f"[Attachment: .attachments/{n} (application/pdf, 2 B)]" for n in names]


async def test_attachments_within_the_rules(staged: Staged) -> None:
    yml = SCRIPTED + "attachments: {max: 2, max_bytes: 1k, allowed: [txt, exe], denied: [exe]}\n"
    async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS}) as stage:

        async def send(*uploads: Upload) -> Any:
            content = [{"type": "text", "text": "say ok"}, *(upload.part for upload in uploads)]
            return await stage.run([{"role": "user", "content": content}])

        small = Upload("a.txt", b"x" * 500)
        assert isinstance(await send(small, small), Done)
        for wrong, words in (
            ([small] * 3, "3 attachments are more"),
            ([Upload("a.txt", b"x" * 600)] * 2, "too large together"),
            ([Upload("a.exe", b"x")], "kind '.exe' may not"),
            ([Upload("a.pdf", b"x")], "kind '.pdf' may not"),
        ):
            last = await send(*wrong)
            assert words in str(last.error)
            assert not stage.of(Progress)  # no sandbox was made for it


async def test_what_cannot_be_asked(staged: Staged) -> None:
    yml = SCRIPTED + "variables: {project: null}"
    files = {"assistant_yml": yml, "prompts_yml": "system: On {{project}}.\n"}
    async with staged(a=files, b={"assistant_yml": "connector: other"}) as stage:
        service = stage.service
        wrong: dict[str, dict[str, Any]] = {
            "no assistant 'c'": {"assistant": "c"},
            "'project' has to be given": {"assistant": "a"},
            "no variable 'x'": {"assistant": "a", "variables": {"x": "y"}},
            "wants 'other', and the gateway has fake": {"assistant": "b"},
        }
        for words, call in wrong.items():
            with pytest.raises(ConfigError, match=words) as told:
                service.request(**{"messages": "hi", "user": "ann", "chat": "1", **call})
        named = re.findall(r"(\w+)=", str(told.value.hint))
        assert named == ["base_url", "key"]
        assert set(named) <= {one.name for one in fields(Connector)}
        blank = [{"role": "user", "content": [{"type": "text", "text": " "}]}]
        for messages in ("", " \n", [], [{"role": "assistant", "content": "hi"}], blank):
            with pytest.raises(ConfigError, match="no message of the user"):
                service.request("a", messages, user="ann", chat="1", variables={"project": "x"})
        with pytest.raises(ConfigError, match="characters that are none"):
            service.request("a", "say \ud800", user="ann", chat="1", variables={"project": "x"})
        with pytest.raises(ConfigError, match="user="):
            service.request("a", "hi", user="", chat="1", variables={"project": "x"})
        assert await stage.done("say hi", variables={"project": "x"}) == "hi"
    with pytest.raises(ClosedError):
        service.request("a", "hi", user="ann", chat="1", variables={"project": "x"})


async def test_a_limit_of_the_manager_is_told(staged: Staged) -> None:
    async with staged(a={"assistant_yml": SCRIPTED, "prompts_yml": PROMPTS}, manager={"max_total": 1}) as stage:
        async with stage.manager.get_or_create("bob", "x"):
            error = await stage.failed("say hi")
            assert (error.kind, type(error.__cause__)) == ("sandbox", LimitReachedError)
            assert [event.state for event in stage.of(Progress)] == ["creating", "failed"]
        assert await stage.done("say hi") == "hi"


async def test_a_request_has_its_own_copy_of_everything(staged: Staged) -> None:
    hooks = """
        async def create(ctx, messages):
            ctx.variables["project"] = "changed"
            ctx.messages.append("rubbish")
            messages.clear()
            ctx.state["x"] = 1

        async def next(ctx, reply):
            return f"{reply.text} {sorted(ctx.state)}"
    """
    yml = SCRIPTED + "variables: {project: apollo}"
    async with staged(a={"assistant_yml": yml, "prompts_yml": PROMPTS, "hooks_py": hooks}) as stage:
        given = [{"role": "user", "content": [{"type": "text", "text": "say hi"}]}]
        for _ in range(2):
            assert await stage.done(given) == "hi ['x']"
        assert dict(stage.service.assistants["a"].variables) == {"project": "apollo"}
        assert given == [{"role": "user", "content": [{"type": "text", "text": "say hi"}]}]
        run = stage.service.request("a", given, user="ann", chat="1")
        given[0]["content"][0]["text"] = "say something else"  # type: ignore[index]
        assert [event async for event in run][-1].text == "hi ['x']"  # type: ignore[union-attr]
