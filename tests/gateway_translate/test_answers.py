"""Answers of every provider for every client, whole and as a stream."""

from dataclasses import replace
from typing import Any

import pytest

from paddock.gateway.translate import (
    AnswerReader,
    AnswerWriter,
    Ask,
    Began,
    Delta,
    Ended,
    Failed,
    PartEnded,
    TextDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Translated,
    Usage,
    UsageReader,
    Used,
    failure,
    read_answer,
    read_request,
    write_answer,
)
from paddock.gateway.translate.deltas import Reason, answer_of
from paddock.gateway.translate.names import sent_name

from .judges import accumulated, check_answer, check_stream, events_in
from .samples import CODEX, USAGE, WIRES, answer, ask

PAIRS = [(back, front) for back in WIRES for front in WIRES]


def read(wire: Translated, stream: bytes) -> list[Delta]:
    reader = AnswerReader(wire)
    return reader.feed(stream) + reader.end()


def from_provider(wire: Translated, deltas: list[Delta]) -> bytes:
    """The stream of a provider of `wire`, which always says what was used."""
    return AnswerWriter(wire, replace(ask("anthropic"), tools=()), created=1).write(deltas)


def texts(wire: Translated, whole: dict[str, Any]) -> tuple[str, str, list[tuple[str, str]]]:
    """Thinking, text, and calls as ids and names, of what a client has put together."""
    if wire == "anthropic":
        blocks = whole["content"]
        thought = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return thought, text, [(block["id"], block["name"]) for block in blocks if block["type"] == "tool_use"]
    if wire == "chat":
        message = whole["choices"][0]["message"]
        calls = [(call["id"], call["function"]["name"]) for call in message["tool_calls"] or ()]
        return message.get("reasoning_content", ""), message["content"] or "", calls
    items = whole["output"]
    thought = "".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["summary"])
    text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    return thought, text, [(item["call_id"], item["name"]) for item in items if item["type"] == "function_call"]


CALLS = [("call_1", "Bash"), ("call_2", "mcp__tiny__echo")]


@pytest.mark.parametrize(("back", "front"), PAIRS)
def test_a_stream_from_any_provider_to_any_client(back: Translated, front: Translated) -> None:
    deltas = read(back, from_provider(back, answer(back)))
    stream = AnswerWriter(front, ask("anthropic"), created=1).write(deltas)
    check_stream(front, stream)
    whole = accumulated(front, stream)
    assert texts(front, whole) == ("let me see", "Hällo wörld 🎉", CALLS)
    assert whole["model"] == "claude-opus-5-5"
    assert whole["id"] == "id_1"
    assert usage_in(front, stream) == USAGE


@pytest.mark.parametrize(("back", "front"), PAIRS)
def test_a_whole_answer_from_any_provider_to_any_client(back: Translated, front: Translated) -> None:
    body = write_answer(back, ask("anthropic"), answer(back), created=1)
    check_answer(back, body)
    whole = write_answer(front, ask("anthropic"), read_answer(back, body), created=1)
    check_answer(front, whole)
    assert texts(front, whole) == ("let me see", "Hällo wörld 🎉", CALLS)
    assert answer_of(read_answer(front, whole)).usage == USAGE


def usage_in(wire: Translated, stream: bytes) -> Usage | None:
    reader = UsageReader(wire)
    reader.feed(stream)
    reader.end()
    return reader.usage


@pytest.mark.parametrize("wire", WIRES)
def test_whole_and_streamed_are_the_same(wire: Translated) -> None:
    body = write_answer(wire, ask("anthropic"), answer(wire), created=1)
    streamed = read(wire, from_provider(wire, answer(wire)))
    whole = answer_of(read_answer(wire, body))
    assert replace(answer_of(streamed), model="", usage=USAGE) == replace(whole, model="")


REASONS: dict[Reason, tuple[str, str, str]] = {
    "end": ("end_turn", "stop", "completed"),
    "length": ("max_tokens", "length", "incomplete"),
    "tool": ("tool_use", "tool_calls", "completed"),
    "refusal": ("refusal", "content_filter", "incomplete"),
    "stop_sequence": ("stop_sequence", "stop", "completed"),
}


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("wire", WIRES)
def test_reasons_to_stop(wire: Translated, reason: Reason) -> None:
    said: list[Delta] = [TextDelta("x"), PartEnded()]
    if reason == "tool":
        said = [ToolBegan("c", "f"), PartEnded()]
    deltas: list[Delta] = [Began("i"), *said, Used(USAGE), Ended(reason)]
    whole = accumulated(wire, from_provider(wire, deltas))
    body = write_answer(wire, ask("anthropic"), deltas)
    for each in (whole, body):
        word = each["choices"][0]["finish_reason"] if wire == "chat" else each.get("stop_reason") or each.get("status")
        assert word == REASONS[reason][WIRES.index(wire)]
    expected = "end" if reason == "stop_sequence" and wire != "anthropic" else reason
    assert answer_of(read_answer(wire, body)).reason == expected
    assert read(wire, from_provider(wire, deltas))[-1] == Ended(expected)


def test_the_events_of_anthropic_are_in_their_order() -> None:
    stream = AnswerWriter("anthropic", ask("anthropic")).write(answer())
    assert [name for name, _ in events_in(stream)] == [
        "message_start",
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_delta"),
        "content_block_stop",
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]


def test_the_input_is_said_first_where_it_is_known() -> None:
    began = Began("i", "m", Usage(30, 1, 10, 5))
    stream = AnswerWriter("anthropic", ask("anthropic")).write([began, Used(USAGE), Ended("end")])
    (_, start), (_, delta), _ = events_in(stream)
    assert start["message"]["usage"] == {
        "input_tokens": 15,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 10,
        "output_tokens": 1,
    }
    assert delta["usage"]["input_tokens"] == 70
    assert delta["usage"]["output_tokens"] == 40


def test_the_events_of_responses_are_in_their_order() -> None:
    stream = AnswerWriter("responses", ask("anthropic")).write(answer())
    events = events_in(stream)
    assert [name.removeprefix("response.") for name, _ in events] == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done"),
        *("output_item.done", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
        "completed",
    ]
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))


def test_usage_in_chunks_only_if_asked_for() -> None:
    asked = read_request("chat", {"model": "m", "messages": [], "stream": True})
    quiet = AnswerWriter("chat", asked).write(answer())
    assert b'"usage"' not in quiet
    stream = AnswerWriter("chat", replace(asked, include_usage=True)).write(answer())
    chunks = [data for _, data in events_in(stream)]
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] == 140
    assert stream.endswith(b"data: [DONE]\n\n")
    assert quiet.endswith(b"data: [DONE]\n\n")


def test_names_are_as_the_client_knows_them() -> None:
    asked = read_request("responses", CODEX)
    calls: list[Delta] = [
        Began("i"),
        ToolBegan("c1", "mcp__tiny__echo"),
        ToolArguments("{}"),
        PartEnded(),
        ToolBegan("c2", "apply_patch"),
        ToolArguments('{"input": "*** Begin'),
        ToolArguments(' Patch\\n"}'),
        PartEnded(),
        Ended("tool"),
    ]
    stream = AnswerWriter("responses", asked).write(calls)
    check_stream("responses", stream)
    for output in (accumulated("responses", stream)["output"], write_answer("responses", asked, calls)["output"]):
        echo, patch = output
        assert (echo["type"], echo["name"], echo["namespace"]) == ("function_call", "echo", "mcp__tiny")
        assert (patch["type"], patch["call_id"], patch["input"]) == ("custom_tool_call", "c2", "*** Begin Patch\n")
    long = {"type": "function", "function": {"name": "a.b" * 30}}
    asked = read_request("chat", {"model": "m", "messages": [], "tools": [long]})
    body = write_answer("chat", asked, [Began("i"), ToolBegan("c", sent_name("a.b" * 30)), PartEnded(), Ended("tool")])
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "a.b" * 30


def test_a_custom_tool_called_wrongly_gets_what_was_said() -> None:
    asked = read_request("responses", CODEX)
    for arguments in ("raw text", '{"patch": 1}', "[]"):
        calls: list[Delta] = [Began("i"), ToolBegan("c", "apply_patch"), ToolArguments(arguments), Ended("tool")]
        assert write_answer("responses", asked, calls)["output"][0]["input"] == arguments


@pytest.mark.parametrize("origin", WIRES)
@pytest.mark.parametrize("front", ["anthropic", "responses"])
def test_thinking_keeps_what_makes_it_valid(front: Translated, origin: Translated) -> None:
    body = write_answer(front, ask("anthropic"), answer(origin))
    content = body["content"] if front == "anthropic" else body["output"]
    again = read_answer(front, body)
    sealed = next(delta for delta in again if isinstance(delta, ThinkingSealed))
    assert sealed.seal.origin == origin
    assert sealed.seal.signature == ("" if origin == "chat" else "c2ln")
    asked: Ask
    if front == "anthropic":
        asked = read_request(front, {"model": "m", "messages": [{"role": "assistant", "content": content}]})
    else:
        asked = read_request(front, {"model": "m", "input": content})
    assert asked.turns[0].parts[0].seal.origin == origin  # type: ignore[union-attr]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 502, 503, 529])
def test_failures_within_a_stream(wire: Translated, status: int) -> None:
    begun: list[Delta] = [Began("i"), TextDelta("x")]
    for deltas in ([failure(status, "no")], [*begun, failure(status, "no")]):
        stream = AnswerWriter(wire, ask("anthropic")).write(deltas)
        last = read(wire, stream)[-1]
        assert isinstance(last, Failed)
        assert last.message == "no"
        assert last.status == status or last.status // 100 == status // 100
        if wire == "responses":
            assert accumulated(wire, stream)["status"] == "failed"
        else:
            with pytest.raises(Exception, match="no"):
                accumulated(wire, stream)


CUT: list[tuple[Translated, bytes]] = [(wire, b"") for wire in WIRES] + [
    (wire, from_provider(wire, answer(wire))[:-at]) for wire in WIRES for at in (600, 900)
]


@pytest.mark.parametrize(("wire", "stream"), CUT)
def test_a_stream_that_is_cut_is_a_failure(wire: Translated, stream: bytes) -> None:
    *_, last = read(wire, stream)
    assert isinstance(last, Failed)
    assert last.status == 502
    assert "before it was complete" in last.message or "cannot be understood" in last.message


def test_arguments_that_are_no_json() -> None:
    calls: list[Delta] = [Began("i"), ToolBegan("c", "f"), ToolArguments("{broken"), PartEnded(), Ended("tool")]
    assert write_answer("anthropic", ask("chat"), calls)["content"][0]["input"] == {"arguments": "{broken"}
    assert write_answer("chat", ask("chat"), calls)["choices"][0]["message"]["tool_calls"][0]["function"] == {
        "name": "f",
        "arguments": "{broken",
    }
    assert b"{broken" in AnswerWriter("anthropic", ask("chat")).write(calls)


@pytest.mark.parametrize("wire", WIRES)
def test_an_empty_answer(wire: Translated) -> None:
    deltas: list[Delta] = [Began("i"), Used(Usage(3, 0)), Ended("end")]
    assert texts(wire, accumulated(wire, from_provider(wire, deltas)))[1:] == ("", [])
    body = write_answer(wire, ask("anthropic"), deltas)
    check_answer(wire, body)
    assert answer_of(read_answer(wire, body)).parts == ()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "body",
    [
        [],
        None,
        "x",
        {},
        {"error": {"message": "no", "code": 429}},
        {"content": [{"type": "tool_use"}], "output": [{"type": "function_call"}], "choices": []},
    ],
)
def test_whole_answers_that_are_none_never_raise(wire: Translated, body: Any) -> None:
    assert isinstance(read_answer(wire, body)[-1], Ended | Failed)
