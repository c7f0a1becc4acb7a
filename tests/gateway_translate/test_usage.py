"""Tokens in what is passed through."""

from typing import Any

import pytest

from paddock.gateway.translate import Usage, UsageReader, Wire, dump_json

ANTHROPIC = {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 7}
CHAT = {
    "prompt_tokens": 10,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
RESPONSES = {
    "input_tokens": 10,
    "output_tokens": 7,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    "output_tokens_details": {"reasoning_tokens": 4},
}
GEMINI = {
    "promptTokenCount": 8,
    "toolUsePromptTokenCount": 2,
    "cachedContentTokenCount": 3,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 4,
    "totalTokenCount": 17,
}
LONG = "x" * 400_000


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + dump_json(event) + b"\n\n" for event in events)


CASES: list[tuple[Wire, bytes, Usage]] = [
    ("anthropic", dump_json({"content": [], "usage": ANTHROPIC}), Usage(10, 7, 3, 2)),
    (
        "anthropic",
        sse(
            {"message": {"usage": ANTHROPIC | {"output_tokens": 1}}}, {"type": "ping"}, {"usage": {"output_tokens": 7}}
        ),
        Usage(10, 7, 3, 2),
    ),
    (
        "anthropic",
        sse({"message": {"usage": {"input_tokens": 0, "output_tokens": 0}}}, {"usage": ANTHROPIC}),
        Usage(10, 7, 3, 2),
    ),
    ("anthropic", dump_json({"content": LONG, "usage": ANTHROPIC}), Usage(10, 7, 3, 2)),
    ("chat", dump_json({"choices": [], "usage": CHAT}), Usage(10, 7, 3, 2, 4)),
    ("chat", sse({"usage": None}, {"choices": [], "usage": CHAT}) + b"data: [DONE]\n\n", Usage(10, 7, 3, 2, 4)),
    ("chat", dump_json({"choices": LONG, "usage": CHAT, "service_tier": None}), Usage(10, 7, 3, 2, 4)),
    ("responses", dump_json({"output": [], "usage": RESPONSES}), Usage(10, 7, 3, 2, 4)),
    ("responses", sse({"response": {"usage": None}}, {"response": {"usage": RESPONSES}}), Usage(10, 7, 3, 2, 4)),
    ("responses", sse({"response": {"output": LONG, "usage": RESPONSES, "user": None}}), Usage(10, 7, 3, 2, 4)),
    ("gemini", dump_json({"candidates": [], "usageMetadata": GEMINI}), Usage(10, 7, 3, 0, 4)),
    ("gemini", sse({"usageMetadata": {"promptTokenCount": 8}}, {"usageMetadata": GEMINI}), Usage(10, 7, 3, 0, 4)),
    ("gemini", b" \n" + dump_json([{"usageMetadata": {}}, {"usageMetadata": GEMINI}]), Usage(10, 7, 3, 0, 4)),
    ("gemini", dump_json([{"candidates": LONG}, {"usageMetadata": GEMINI}]), Usage(10, 7, 3, 0, 4)),
]


@pytest.mark.parametrize("size", [1, 1000, 10**9])
@pytest.mark.parametrize(("wire", "raw", "usage"), CASES)
def test_tokens_are_found(wire: Wire, raw: bytes, usage: Usage, size: int) -> None:
    if size == 1 and len(raw) > 10_000:
        size = 333
    reader = UsageReader(wire)
    for at in range(0, len(raw), size):
        reader.feed(raw[at : at + size])
    reader.end()
    assert reader.usage == usage


NONE: list[tuple[Wire, bytes]] = [
    ("chat", b""),
    ("chat", b"<html>"),
    ("chat", dump_json({"choices": [{"message": {"content": '"usage":{"prompt_tokens":1}'}}]})),
    ("chat", dump_json({"choices": LONG + '"usage":{"prompt_tokens":1}'})),
    ("chat", b'{"usage":'),
    ("chat", b'{"usage":[]}'),
    ("chat", b" " * 300_000 + b'"usage":' + b'{"a":' * 10_000),
    ("gemini", b'{"usageMetadata":3}'),
]


@pytest.mark.parametrize(("wire", "raw"), NONE)
def test_none_are_found_where_there_are_none(wire: Wire, raw: bytes) -> None:
    reader = UsageReader(wire)
    reader.feed(raw)
    reader.end()
    assert reader.usage is None


def test_no_more_from_a_cache_than_there_was() -> None:
    reader = UsageReader("chat")
    reader.feed(dump_json({"usage": {"prompt_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}}))
    reader.end()
    assert reader.usage == Usage(2, 0, 2)
    assert reader.usage.fresh == 0
