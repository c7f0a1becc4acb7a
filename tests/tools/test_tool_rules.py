"""Who is asked, what is never a model's to do, and what is recorded."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock import ApprovalPolicy, ApprovalRequest, ConfigError, Memory, NotAuthorizedError, Sandbox
from paddock.consent import Answer, initiator
from paddock.sync import Sandbox as BlockingSandbox
from paddock.testing import COMMANDS, plant_link
from paddock.tools import ModelTool, ToolResult, ToolRules, Tools, asking, sandbox_tools
from paddock.tools.schemas import parameters


class Person:
    """Answers as told, and remembers what was asked."""

    def __init__(self, answer: Answer = True) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> Answer:
        self.asked.append(request)
        return self.answer


def write(path: str, content: str = "x") -> dict[str, str]:
    return {"path": path, "content": content}


async def test_asked_about_and_agreed_to() -> None:
    person = Person()
    async with Sandbox.create("memory", approve=person) as sb:
        tools = sandbox_tools(sb, rules=ToolRules())
        assert (await tools.call("write_file", write("a"))).success
        assert (await tools.call("read_file", {"path": "a"})).success
        (asked,) = person.asked
        assert (asked.action, asked.subject, asked.initiator) == ("write", "/workspace/a", "model")
        person.answer = False
        refused = await tools.call("delete_file", {"path": "a"})
        assert (refused.success, refused.data["code"]) == (False, "NOT_AUTHORIZED")
        assert await sb.exists("a")
        assert (await sandbox_tools(sb).call("delete_file", {"path": "a"})).success  # without rules nothing is asked


async def test_blocked_is_refused_before_anybody_is_asked() -> None:
    person = Person()
    rules = ToolRules(
        write="allowed", paths={"/workspace/locked": "blocked", "/workspace/locked/in": {"delete": "ask"}}
    )
    async with Sandbox.create("memory", approve=person) as sb:
        await sb.write_files({"locked/a": "1", "locked/in/b": "2"})
        tools = sandbox_tools(sb, rules=rules)
        for path in ("locked/a", "./x/../locked/a", "/workspace/locked/new", "locked/in/b"):
            refused = await tools.call("write_file", write(path))
            assert (refused.success, refused.data["code"]) == (False, "NOT_AUTHORIZED"), path
        assert person.asked == []
        assert (await tools.call("write_file", write("lockedup/a"))).success  # another name that begins so
        assert (await tools.call("delete_file", {"path": "locked/in/b"})).success
        assert [request.subject for request in person.asked] == ["/workspace/locked/in/b"]
        assert await sb.read("locked/a") == "1"


async def test_links_do_not_lead_around_a_rule() -> None:
    async with Sandbox.create("memory") as sb:
        await sb.write("locked/a", "1")
        plant_link(sb, "way", "locked")
        plant_link(sb, "file", "locked/a")
        tools = sandbox_tools(
            sb, rules=ToolRules(write="allowed", delete="allowed", paths={"/workspace/locked": "blocked"})
        )
        for path in ("way/a", "way/new", "file"):
            assert not (await tools.call("write_file", write(path))).success, path
        assert not (await tools.call("delete_file", {"path": "way/a"})).success
        assert (await tools.call("delete_file", {"path": "file"})).success  # the link itself, which is elsewhere
        assert (await sb.read("locked/a"), await sb.exists("file")) == ("1", False)


async def test_a_rule_holds_for_a_path_that_is_a_link() -> None:
    async with Sandbox.create("memory") as sb:
        await sb.write_files({"real/a": "1", "other/a": "1"})
        plant_link(sb, "keys", "real")
        plant_link(sb, "free", "other")
        rules = ToolRules(
            write="allowed", delete="allowed", paths={"/workspace/keys": "blocked", "/workspace/other": "allowed"}
        )
        tools = sandbox_tools(sb, rules=rules)
        assert not (await tools.call("write_file", write("keys/c"))).success
        assert not (await tools.call("delete_file", {"path": "keys/a"})).success
        assert await sb.list("real") == ["a"]
        assert (await tools.call("write_file", write("free/c"))).success


async def test_a_yes_for_the_session_is_for_the_same_call() -> None:
    person = Person("session")
    async with Sandbox.create("memory", approve=person) as sb:
        tools = sandbox_tools(sb, rules=ToolRules())
        for content in ("x", "x", "other"):
            assert (await tools.call("write_file", write("a", content))).success
        assert len(person.asked) == 2
        edit = {"path": "a", "old_text": "other", "new_text": "x"}
        assert (await tools.call("edit_file", edit)).success
        assert len(person.asked) == 3


async def test_without_a_policy_nobody_agrees(memory: Sandbox) -> None:
    tools = sandbox_tools(memory, rules=ToolRules(write="allowed"))
    assert (await tools.call("write_file", write("a"))).success
    assert not (await tools.call("delete_file", {"path": "a"})).success
    assert not (await tools.call("run_command", {"command": "touch b"})).success
    assert await memory.list() == ["a"]


async def test_every_way_to_a_tool_asks() -> None:
    """By name, by the tool itself, by a provider's call, under another name, and many at once."""
    person = Person(False)
    async with Sandbox.create("memory", approve=person) as sb:
        tools = sandbox_tools(sb, rules=ToolRules())
        other = tools.only("write_file").renamed({"write_file": "put"})
        use = {"type": "tool_use", "id": "1", "name": "write_file", "input": write("a")}
        await tools.call("write_file", write("a"))
        await tools["write_file"].call(write("b"))
        await tools.handle(use)
        await tools.handle([use | {"input": write(f"{n}")} for n in range(20)])
        await other.call("put", write("c"))
        assert len(person.asked) == 24
        assert await sb.list() == []


async def test_what_a_model_never_begins(tmp_path: Path) -> None:
    """A tool of one's own can lead to apply, and is refused whatever the policy says."""
    place = tmp_path / "project"
    place.mkdir()
    async with Sandbox.create(workspace=place, review=True, approve="approve-all") as sb:
        await sb.write("a.txt", "x")

        async def leave(arguments: object, context: object) -> ToolResult:
            assert initiator() == "model"
            return ToolResult({"applied": (await (await sb.changes()).apply()).to_dict()})

        tools = sandbox_tools(sb) + Tools([ModelTool("leave", "", parameters(), leave)])
        assert (await tools.call("leave")).data["code"] == "NOT_AUTHORIZED"
        assert not (place / "a.txt").exists()
        await (await sb.changes()).apply()
        assert (place / "a.txt").exists()


async def test_what_is_recorded(memory: Sandbox) -> None:
    """The call, and what it did in the sandbox, both as begun by a model."""
    async with memory.events() as events:
        await sandbox_tools(memory).call("write_file", write("a"))
        await sandbox_tools(memory).call("read_file", {"path": "none"})
        await memory.write("b", "by the host")
        seen = [await anext(events) for _ in range(6)]
    assert [(one.kind, one.operation, one.outcome, one.initiator) for one in seen] == [
        ("file", "read", "NOT_FOUND", "model"),
        ("file", "write", "ok", "model"),
        ("tool", "call", "ok", "model"),
        ("file", "read", "NOT_FOUND", "model"),
        ("tool", "call", "NOT_FOUND", "model"),
        ("file", "write", "ok", "host"),
    ]


async def test_narrowed_and_renamed(memory: Sandbox) -> None:
    tools = sandbox_tools(memory)
    few = tools.only("read_file", "list_files")
    assert few.names == ("read_file", "list_files")
    assert (await few.call("write_file", write("a"))).data["error"] == "There is no tool 'write_file'."
    assert "run_command" not in tools.without("run_command")
    cat = tools.renamed({"read_file": "cat"})
    await memory.write("a", "text")
    assert (await cat.call("cat", {"path": "a"})).text == "text"
    with pytest.raises(ConfigError):
        tools.only("nothing")
    with pytest.raises(ConfigError):
        tools.renamed({"read_file": "a b"})
    for name in ("read.file", "1read", "r" * 65, "lesen_ä", "", 5):  # some provider takes none of these
        with pytest.raises(ConfigError, match="every provider"):
            tools.renamed({"read_file": name})  # type: ignore[dict-item]
    with pytest.raises(ConfigError):
        tools + few  # type: ignore[unused-ignore]


def test_rules_that_are_none() -> None:
    wrong: list[dict[str, object]] = [{"write": "maybe"}, {"paths": {"rel": "ask"}}, {"paths": {"/a": {"run": "ask"}}}]
    for given in wrong:
        with pytest.raises(ConfigError):
            ToolRules(**given)  # type: ignore[arg-type]
    assert ToolRules(paths={"/": "blocked", "/a/b": "allowed"}).of("write", "/a/b/c") == "allowed"


@pytest.mark.parametrize("rules", ["ask", True, 5, {"run": "blocked"}])
def test_what_is_no_rules(memory: Sandbox, rules: Any) -> None:
    """It is said at once, and not by the first call of a model."""
    with pytest.raises(ConfigError, match=r'ToolRules\(run="blocked"\)'):
        sandbox_tools(memory, rules=rules)


async def test_a_failure_of_ours_names_nothing_of_the_host(memory: Sandbox) -> None:
    async def broken(arguments: object, context: object) -> ToolResult:
        raise OSError(2, "no such file", "/home/someone/secret")

    result = await ModelTool("broken", "", parameters(), broken).call({})
    assert (result.success, "secret" in result.text) == (False, False)


def test_a_blocking_sandbox_is_refused_at_once() -> None:
    with BlockingSandbox.create("memory") as sb, pytest.raises(ConfigError, match=r"paddock\.Sandbox"):
        sandbox_tools(sb)  # type: ignore[arg-type]


async def test_asked_together(memory: Sandbox) -> None:
    """Whoever is cancelled while a person thinks has done nothing."""
    thinking = asyncio.Event()

    async def never(request: ApprovalRequest) -> bool:
        thinking.set()
        await asyncio.Event().wait()
        return True

    async with Sandbox.create("memory", approve=never) as sb:
        tools = sandbox_tools(sb).wrapped(asking(sb, ToolRules()))
        call = asyncio.create_task(tools.call("write_file", write("a")))
        await thinking.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await sb.list() == []


async def test_asking_by_hand(memory: Sandbox) -> None:
    await memory.ask("write", "/workspace/a", "00", "a host's call is its own consent")
    async with Sandbox.create("memory", approve="deny-all") as sb:
        with pytest.raises(NotAuthorizedError):
            await sb.ask("write", "/workspace/a", "00", "nobody agrees")


async def test_what_the_sandbox_blocks_is_blocked_without_rules_too() -> None:
    policy = ApprovalPolicy("approve-all", rules={"delete": "blocked", "run": "blocked"})
    async with Sandbox.create(Memory(commands=COMMANDS), approve=policy) as sb:
        await sb.write("a", "x")
        for found in (sandbox_tools(sb), sandbox_tools(sb, rules=ToolRules())):
            refused = [
                await found.call("delete_file", {"path": "a"}),
                await found.call("run_command", {"command": "ls"}),
            ]
            assert [(one.success, "blocked" in one.text) for one in refused] == [(False, True)] * 2
            assert (await found.call("write_file", {"path": "b", "content": "x"})).success
        assert await sb.list() == ["a", "b"]
