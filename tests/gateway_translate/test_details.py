"""Smaller things that clients send, and what becomes of them."""

from typing import Any

import pytest

from paddock.gateway.translate import (
    AnswerWriter,
    Began,
    Delta,
    Ended,
    PartEnded,
    Target,
    TextDelta,
    ThinkingSealed,
    Translated,
    ping,
    read_request,
    write_answer,
    write_request,
)
from paddock.gateway.translate.model import Seal

from .judges import accumulated, check_stream
from .samples import PNG, WIRES, ask

HERE = Target("there", reasoning="effort")


def chat_content(block: Any) -> Any:
    """A block of Anthropic's, as Chat Completions has it."""
    body = {"model": "m", "messages": [{"role": "user", "content": [block]}]}
    return write_request("chat", read_request("anthropic", body), HERE).body["messages"][0]["content"]


BLOCKS: list[tuple[Any, Any]] = [
    (
        {"type": "image", "source": {"type": "url", "url": "http://x/a.png"}},
        [{"type": "image_url", "image_url": {"url": "http://x/a.png"}}],
    ),
    (
        {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
        "T\nwords",
    ),
    (
        {"type": "search_result", "title": "T", "source": "http://x", "content": [{"type": "text", "text": "found"}]},
        "T\nhttp://x\nfound",
    ),
    (
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        '{"type":"image","source":{"type":"file","file_id":"f"}}',
    ),
    (
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        '{"type":"document","source":{"type":"file","file_id":"f"}}',
    ),
    (
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}},
        [{"type": "file", "file": {"filename": "document.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}}],
    ),
    (
        {"type": "document", "source": {"type": "url", "url": "http://x/a.pdf"}},
        [{"type": "text", "text": "[file at http://x/a.pdf]"}],
    ),
]


@pytest.mark.parametrize(("block", "content"), BLOCKS)
def test_blocks_of_anthropic(block: Any, content: Any) -> None:
    assert chat_content(block) == content


CHAT: list[tuple[Any, Any]] = [
    (
        {"role": "user", "content": [{"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PNG}"}}]},
        "document",
    ),
    ({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]}, "text"),
    ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/a.png"}}]}, "image"),
    ({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, "text"),
    ({"role": "assistant", "content": None, "refusal": "No."}, "text"),
    ({"role": "assistant", "content": "x", "reasoning_content": "hm"}, "text"),
]


@pytest.mark.parametrize(("message", "kind"), CHAT)
def test_messages_of_chat(message: Any, kind: str) -> None:
    body = write_request("anthropic", read_request("chat", {"model": "m", "messages": [message]}), HERE).body
    assert [block["type"] for block in body["messages"][0]["content"]] == [kind]


LEFT_OUT: list[tuple[Translated, Any]] = [
    ("chat", {"tools": [{"type": "custom", "custom": {"name": "x"}}]}),
    ("chat", {"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}),
    ("chat", {"logprobs": True}),
    ("responses", {"tool_choice": {"type": "web_search"}}),
    ("responses", {"max_tool_calls": 3}),
    ("anthropic", {"mcp_servers": [{}]}),
    ("anthropic", {"stop_sequences": list("abcde")}),
]


@pytest.mark.parametrize(("wire", "fields"), LEFT_OUT)
def test_what_is_left_out_is_named(wire: Translated, fields: Any) -> None:
    messages = [{"role": "user", "content": "x"}]
    plain: dict[str, Any] = {"model": "m"} | ({"input": "x"} if wire == "responses" else {"messages": messages})
    assert write_request("chat", read_request(wire, plain), HERE).warnings == ()
    (warning,) = write_request("chat", read_request(wire, plain | fields), HERE).warnings
    assert warning.startswith(f"$.{next(iter(fields))}")


def test_a_file_and_a_refusal_of_responses() -> None:
    file = {"type": "input_file", "file_data": f"data:application/pdf;base64,{PNG}", "filename": "a.pdf"}
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    asked = read_request("responses", {"model": "m", "input": [{"role": "user", "content": [file]}, refusal]})
    user, assistant = write_request("anthropic", asked, HERE).body["messages"]
    assert user["content"][0]["title"] == "a.pdf"
    assert assistant["content"][0]["text"] == "No."


def test_a_choice_of_a_custom_tool_and_one_of_a_namespace() -> None:
    tools = [
        {"type": "custom", "name": "patch"},
        {
            "type": "namespace",
            "name": "n",
            "description": "d",
            "tools": [{"name": "f"}, {"type": "namespace", "name": "x"}],
        },
    ]
    choices: list[Any] = [{"type": "custom", "name": "patch"}, {"type": "function", "name": "f", "namespace": "n"}]
    for choice, name in zip(choices, ["patch", "n__f"], strict=True):
        asked = read_request("responses", {"model": "m", "input": "x", "tools": tools, "tool_choice": choice})
        assert len(asked.tools) == 2
        assert write_request("responses", asked, HERE).body["tool_choice"] == choice
        assert write_request("anthropic", asked, HERE).body["tool_choice"] == {"type": "tool", "name": name}


def test_a_temperature_and_top_p() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "top_p": 0.5}
    assert write_request("anthropic", read_request("chat", body), HERE).body["top_p"] == 0.5
    written = write_request("anthropic", read_request("chat", body | {"temperature": 0.1}), HERE)
    assert (written.body["temperature"], "top_p" in written.body) == (0.1, False)
    assert written.warnings[0].startswith("$.top_p")


def test_thinking_that_nobody_may_see() -> None:
    deltas: list[Delta] = [Began("i"), ThinkingSealed(Seal("anthropic", "redacted", "zzz")), PartEnded(), Ended("end")]
    stream = AnswerWriter("anthropic", ask("anthropic")).write(deltas)
    check_stream("anthropic", stream)
    block = {"type": "redacted_thinking", "data": "zzz"}
    assert accumulated("anthropic", stream)["content"] == [block]
    assert write_answer("anthropic", ask("anthropic"), deltas)["content"] == [block]
    item = write_answer("responses", ask("responses"), deltas)["output"][0]
    asked = read_request("responses", {"model": "m", "input": [item]})
    assert write_request("anthropic", asked, HERE).body["messages"][0]["content"] == [block]


@pytest.mark.parametrize("wire", WIRES)
def test_clients_wait(wire: Translated) -> None:
    writer = AnswerWriter(wire, ask("anthropic"))
    stream = ping(wire) + writer.write([Began("i"), TextDelta("x")]) + ping(wire) + writer.write([Ended("end")])
    assert accumulated(wire, stream)["id"] == "i"


def test_text_instead_of_blocks() -> None:
    body = {"model": "m", "system": "s", "messages": [{"role": "user", "content": "x"}]}
    asked = read_request("anthropic", body)
    assert asked.system == ("s",)
    assert read_request("chat", {"model": "m", "messages": [], "stop": "x"}).stop == ("x",)
    assert read_request("chat", {"model": "m", "messages": [], "stop": ["x", "y"]}).stop == ("x", "y")
