"""What the system says within a conversation, for servers of Anthropic's API that know no such messages."""

from typing import Any

import pytest

from paddock.gateway.translate import BadRequest, plain_system

from .judges import check_request
from .samples import CLAUDE


def turn(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def test_nothing_changes_without() -> None:
    body = {"model": "m", "messages": [turn("user", text("x")), turn("user", text("y"))]}
    assert plain_system(body) is body


def test_claude() -> None:
    before = str(CLAUDE)
    body = plain_system(CLAUDE)
    assert str(CLAUDE) == before
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][0]["content"][1]["text"] == "<system-reminder>\ncwd is /work\n</system-reminder>"
    last = body["messages"][2]["content"]
    assert [block["type"] for block in last] == ["tool_result", "tool_result", "text", "text", "text"]
    assert last[2]["text"].startswith("<system-reminder>\nA hook")
    assert {key: body[key] for key in body if key != "messages"} == {k: CLAUDE[k] for k in CLAUDE if k != "messages"}
    check_request("anthropic", body)


def test_at_the_beginning_it_joins_the_rest() -> None:
    messages = [{"role": "system", "content": "b"}, turn("user", text("x"))]
    body = plain_system({"system": "a", "messages": messages})
    assert body == {"system": [text("a"), text("b")], "messages": [turn("user", text("x"))]}
    assert plain_system({"messages": messages})["system"] == [text("b")]


def test_marks_and_caching_are_kept() -> None:
    marked = text("<system-reminder>\nx\n</system-reminder>", cache_control={"type": "ephemeral"})
    body = plain_system({"messages": [turn("assistant", text("a")), turn("system", marked)]})
    assert body["messages"][1] == turn("user", marked)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(BadRequest, match=r"\$\.messages\[0\]\.content\[0\]: has to be an object"):
        plain_system({"messages": [turn("system", 3), turn("user", text("x"))]})
