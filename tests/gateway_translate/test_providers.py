"""Streams as providers really send them, each with its habits."""

from typing import Any

import pytest

from paddock.gateway.translate import (
    AnswerReader,
    Began,
    Delta,
    Ended,
    Failed,
    PartEnded,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Translated,
    Usage,
    Used,
    dump_json,
)
from paddock.gateway.translate.model import Seal


def read(wire: Translated, *events: Any) -> list[Delta]:
    stream = b"".join(
        event if isinstance(event, bytes) else b"data: " + dump_json(event) + b"\n\n"  # names are not needed
        for event in events
    )
    reader = AnswerReader(wire)
    return reader.feed(stream) + reader.end()


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}


def call(index: int, name: str | None = None, arguments: str | None = None, id: str | None = None) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "tool_calls": [{"index": index, "id": id, "function": {k: v for k, v in function.items() if v is not None}}]
    }


DONE = b"data: [DONE]\n\n"


def test_openai() -> None:
    deltas = read(
        "chat",
        chunk({"role": "assistant", "content": "", "refusal": None}, usage=None, obfuscation="x"),
        chunk({"content": "Hi"}, usage=None),
        chunk({}, "stop", usage=None),
        chunk(usage={"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}),
        DONE,
    )
    usage = Usage(9, 2, 4)
    assert deltas == [Began("c", "m"), TextDelta("Hi"), PartEnded(), Used(usage), Ended("end")]


def test_deepseek() -> None:
    deltas = read(
        "chat",
        b": keep-alive\n\n",
        chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
        chunk({"content": None, "reasoning_content": "hm"}),
        chunk({"content": "Hi", "reasoning_content": None}),
        chunk(
            {"content": "", "reasoning_content": None},
            "stop",
            usage={
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "prompt_cache_hit_tokens": 3,
                "prompt_cache_miss_tokens": 6,
            },
        ),
        DONE,
    )
    assert deltas == [
        *(Began("c", "m"), ThinkingDelta("hm"), ThinkingSealed(Seal("chat")), PartEnded()),
        *(TextDelta("Hi"), PartEnded(), Used(Usage(9, 5, 3)), Ended("end")),
    ]


def test_calls_one_after_another() -> None:
    deltas = read(
        "chat",
        chunk(call(0, "f", "", "a")),
        chunk(call(0, None, "{")),
        chunk(call(0, None, "}")),
        chunk(call(1, "g", "{}", "b")),
        chunk({}, "tool_calls"),
    )
    assert deltas[1:] == [
        *(ToolBegan("a", "f"), ToolArguments("{"), ToolArguments("}"), PartEnded()),
        *(ToolBegan("b", "g"), ToolArguments("{}"), PartEnded(), Ended("tool")),
    ]


def test_calls_that_are_all_numbered_0_and_end_with_stop() -> None:
    deltas = read("chat", chunk(call(0, "f", "{}", "a")), chunk(call(0, "g", "{}", "b")), chunk({}, "stop"), DONE)
    assert [delta.id for delta in deltas if isinstance(delta, ToolBegan)] == ["a", "b"]
    assert deltas[-1] == Ended("tool")


def test_an_id_that_is_repeated_and_one_that_is_missing() -> None:
    deltas = read("chat", chunk(call(0, "f", "{", "a")), chunk(call(0, None, "}", "a")), chunk({}, "tool_calls"))
    assert deltas[1:4] == [ToolBegan("a", "f"), ToolArguments("{"), ToolArguments("}")]
    deltas = read("chat", chunk(call(0, "f", "{}")), chunk(call(1, "g", "{}")), chunk({}, "tool_calls"))
    first, second = [delta.id for delta in deltas if isinstance(delta, ToolBegan)]
    assert first.startswith("call_")
    assert first != second


def test_arguments_that_are_mixed_are_a_failure_and_not_another_call() -> None:
    deltas = read("chat", chunk(call(0, "f", "{", "a")), chunk(call(1, "g", "{}", "b")), chunk(call(0, None, "}")))
    assert isinstance(deltas[-1], Failed)
    deltas = read("chat", chunk(call(0, "f", "{", "a")), chunk(call(1, "g", "{}", "b")), chunk(call(0, None, "}", "a")))
    assert isinstance(deltas[-1], Failed)


def test_a_refusal_of_openai() -> None:
    deltas = read("chat", chunk({"refusal": "No."}), chunk({}, "stop"), DONE)
    assert deltas[1:] == [TextDelta("No."), PartEnded(), Ended("refusal")]


def test_an_error_in_chunks() -> None:
    deltas = read("chat", chunk({"content": "Hi"}), {"error": {"message": "busy", "type": "x", "code": 529}})
    assert deltas[-1] == Failed(529, "overloaded_error", "busy")
    assert read("chat", {"error": {"message": "m", "code": "rate_limit_exceeded"}}) == [
        Failed(429, "rate_limit_error", "m")
    ]


def block(index: int, content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def test_anthropic() -> None:
    start = {"id": "msg", "model": "m", "usage": {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1}}
    deltas = read(
        "anthropic",
        {"type": "message_start", "message": start},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_stop", "index": 0},
        block(1, {"type": "redacted_thinking", "data": "zzz"}),
        {"type": "content_block_stop", "index": 1},
        block(2, {"type": "text", "text": ""}),
        {"type": "content_block_stop", "index": 2},
        {
            "type": "content_block_start",
            "index": 3,
            "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        },
        {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_stop", "index": 3},
        {
            "type": "content_block_start",
            "index": 4,
            "content_block": {"type": "tool_use", "id": "u", "name": "g", "input": {"a": 1}},
        },
        {"type": "content_block_stop", "index": 4},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 12}},
        {"type": "message_stop"},
    )
    assert deltas == [
        Began("msg", "m", Usage(10, 1, 7)),
        *(ThinkingDelta("hm"), ThinkingSealed(Seal("anthropic", "", "sig")), PartEnded()),
        *(ThinkingSealed(Seal("anthropic", "redacted", "zzz")), PartEnded()),
        *(ToolBegan("t", "f"), ToolArguments("{}"), PartEnded()),
        *(ToolBegan("u", "g"), ToolArguments('{"a":1}'), PartEnded()),
        *(Used(Usage(10, 12, 7)), Ended("tool")),
    ]


def test_an_error_of_anthropic() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert read("anthropic", error) == [Failed(529, "overloaded_error", "Overloaded")]


def item(kind: str, index: int, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": fields}


def test_responses_without_deltas() -> None:
    end = {"id": "r", "model": "m", "status": "completed", "usage": {"input_tokens": 4, "output_tokens": 3}}
    deltas = read(
        "responses",
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        item("added", 0, type="reasoning", id="rs_1", summary=[]),
        item("done", 0, type="reasoning", id="rs_1", summary=[], encrypted_content="gA"),
        item("added", 1, type="message", content=[]),
        item("done", 1, type="message", content=[{"type": "output_text", "text": "Hi"}]),
        item("added", 2, type="custom_tool_call", call_id="c", name="p", input=""),
        item("done", 2, type="custom_tool_call", call_id="c", name="p", input="x"),
        item("added", 3, type="web_search_call", id="ws"),
        item("done", 3, type="web_search_call", id="ws"),
        {"type": "response.completed", "response": end},
    )
    assert deltas == [
        *(Began("r", "m"), ThinkingSealed(Seal("responses", "rs_1", "gA")), PartEnded()),
        *(TextDelta("Hi"), PartEnded()),
        *(ToolBegan("c", "p", custom=True), ToolArguments('{"input":"x"}'), PartEnded()),
        *(Used(Usage(4, 3)), Ended("tool")),
    ]


def test_a_summary_in_parts() -> None:
    def part(kind: str, index: int, **fields: Any) -> dict[str, Any]:
        return {"type": f"response.reasoning_summary_{kind}", "output_index": 0, "summary_index": index, **fields}

    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    deltas = read(
        "responses",
        item("added", 0, type="reasoning", id="rs_1", summary=[]),
        part("part.added", 0),
        part("text.delta", 0, delta="a"),
        part("part.added", 1),
        part("text.delta", 1, delta="b"),
        item("done", 0, type="reasoning", id="rs_1", summary=summary),
    )
    assert deltas[:3] == [ThinkingDelta("a"), ThinkingDelta("\n\n"), ThinkingDelta("b")]


def test_failures_of_responses() -> None:
    error = {"code": "rate_limit_exceeded", "message": "slow"}
    failed = {"type": "response.failed", "response": {"id": "r", "error": error}}
    assert read("responses", failed)[-1] == Failed(429, "rate_limit_error", "slow")
    assert read("responses", {"type": "error", **error})[-1] == Failed(429, "rate_limit_error", "slow")
    delta = {"type": "response.output_text.delta", "output_index": 5, "delta": "x"}
    assert isinstance(read("responses", delta)[-1], Failed)


@pytest.mark.parametrize("wire", ["anthropic", "chat", "responses"])
def test_nothing_comes_after_the_end(wire: Translated) -> None:
    reader = AnswerReader(wire)
    error = b'data: {"type":"error","error":{"message":"x"}}\n\n'
    assert len(reader.feed(error * 3)) == 1
    assert reader.done
    assert reader.feed(error) == []
    assert reader.end() == []


def test_too_long() -> None:
    reader = AnswerReader("chat", max_event=100)
    *_, last = reader.feed(b"data: " + b"x" * 200)
    assert isinstance(last, Failed)
    assert "too long" in last.message
    reader = AnswerReader("chat", max_answer=1000)
    assert reader.feed(b": ping\n\n" * 10) == []
    assert isinstance(reader.feed(b": ping\n\n" * 10)[0], Failed)
    assert reader.feed(b"x" * 1000) == []
