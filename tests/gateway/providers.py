"""Providers that are not: each speaks its wire as the real one does, and remembers what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from paddock.http.server import Exchange
from paddock.testing.models.server import listen

KEY = "sk-marker-" + "0123456789abcdef" * 2
Answer = Callable[[Exchange, dict[str, Any]], Awaitable[None]]


@dataclass
class Asked:
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes


@dataclass
class Fake:
    """A provider on the loopback."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answer: Answer | None = None
    """Instead of what is usual on the wire that is asked."""
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, exchange: Exchange) -> None:
        raw = await exchange.body(1 << 28)
        body = json.loads(raw or b"{}")
        self.asked.append(Asked(exchange.target, dict(exchange.headers), body, raw))
        try:
            await (self.answer or usual)(exchange, body)
        except ConnectionError:
            self.hung_up.set()
            raise


@asynccontextmanager
async def fake(answer: Answer | None = None) -> AsyncIterator[Fake]:
    """One that listens while it is needed."""
    it = Fake(answer=answer)
    server = await listen(it.handle)
    it.url = server.url
    try:
        yield it
    finally:
        await server.close()


async def usual(exchange: Exchange, body: dict[str, Any]) -> None:
    """What each wire says to a request: the text `hi there`, or a call of the first tool, with usage."""
    path = exchange.target.partition("?")[0]
    if path.endswith("/messages"):
        await _say(exchange, _anthropic(body), body.get("stream"))
    elif path.endswith("/count_tokens"):
        await exchange.answer_json(200, {"input_tokens": 7})
    elif path.endswith("/chat/completions"):
        await _say(exchange, _chat(body), body.get("stream"), done=True)
    elif path.endswith("/responses"):
        await _say(exchange, _responses(body), body.get("stream"))
    elif ":streamGenerateContent" in path:
        await _say(exchange, _gemini(body), True)
    elif ":generateContent" in path:
        await _say(exchange, _gemini(body), False)
    else:
        await exchange.answer_json(404, {"error": {"message": "no such thing"}})


Said = tuple[dict[str, Any], list[dict[str, Any]]]
"""A whole answer, and the same in events."""


async def _say(exchange: Exchange, said: Said, streamed: object, *, done: bool = False) -> None:
    whole, events = said
    if not streamed:
        await exchange.answer_json(200, whole)
        return
    await exchange.start(200, [("content-type", "text/event-stream"), ("request-id", "req_1")])
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        await exchange.send(f"{name}data: {json.dumps(event)}\n\n".encode())
    if done:
        await exchange.send(b"data: [DONE]\n\n")
    await exchange.finish()


def _tool(body: dict[str, Any]) -> dict[str, Any] | None:
    tools = body.get("tools") or []
    found = tools[0] if tools else None
    if isinstance(found, dict) and "functionDeclarations" in found:
        found = found["functionDeclarations"][0]
    return found.get("function", found) if isinstance(found, dict) else None


def _anthropic(body: dict[str, Any]) -> Said:
    usage = {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model", "m")}
    tool = _tool(body)
    if tool:
        block = {"type": "tool_use", "id": "toolu_1", "name": tool["name"], "input": {"city": "Rome"}}
        begun = {**block, "input": {}}
        deltas = [
            {"type": "input_json_delta", "partial_json": '{"city": '},
            {"type": "input_json_delta", "partial_json": '"Rome"}'},
        ]
        reason = "tool_use"
    else:
        block, reason = {"type": "text", "text": "hi there"}, "end_turn"
        begun = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": "hi "}, {"type": "text_delta", "text": "there"}]
    end = {"stop_reason": reason, "stop_sequence": None}
    whole = {**head, "content": [block], **end, "usage": {**usage, "output_tokens": 5}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return whole, events


def _chat(body: dict[str, Any]) -> Said:
    usage = {
        "prompt_tokens": 16,
        "completion_tokens": 5,
        "total_tokens": 21,
        "prompt_tokens_details": {"cached_tokens": 3},
    }
    head = {"id": "chatcmpl-1", "created": 1, "model": body.get("model", "m")}
    tool = _tool(body)
    call = {"index": 0, "id": "call_1", "type": "function"}
    if tool:
        function = {"name": tool["name"], "arguments": '{"city": "Rome"}'}
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]}
        pieces: list[dict[str, Any]] = [
            {"role": "assistant", "tool_calls": [{**call, "function": {**function, "arguments": ""}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
        ]
        reason = "tool_calls"
    else:
        message, reason = {"role": "assistant", "content": "hi there"}, "stop"
        pieces = [{"role": "assistant", "content": ""}, {"content": "hi "}, {"content": "there"}]
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    chunk = {**head, "object": "chat.completion.chunk"}
    events = [{**chunk, "choices": [{"index": 0, "delta": piece, "finish_reason": None}]} for piece in pieces]
    events.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append({**chunk, "choices": [], "usage": usage})
    return whole, events


def _responses(body: dict[str, Any]) -> Said:
    usage = {
        "input_tokens": 16,
        "output_tokens": 5,
        "total_tokens": 21,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    tool = _tool(body)
    if tool:
        item: dict[str, Any] = {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": tool["name"],
            "arguments": '{"city": "Rome"}',
            "status": "completed",
        }
        pieces = [
            {"type": "response.function_call_arguments.delta", "delta": '{"city": '},
            {"type": "response.function_call_arguments.delta", "delta": '"Rome"}'},
            {"type": "response.function_call_arguments.done", "arguments": '{"city": "Rome"}', "name": tool["name"]},
        ]
        begun = {**item, "arguments": "", "status": "in_progress"}
    else:
        part = {"type": "output_text", "text": "hi there", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        at = {"content_index": 0}
        pieces = [
            {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **at, "delta": "hi ", "logprobs": []},
            {"type": "response.output_text.delta", **at, "delta": "there", "logprobs": []},
            {"type": "response.output_text.done", **at, "text": "hi there", "logprobs": []},
            {"type": "response.content_part.done", **at, "part": part},
        ]
        begun = {**item, "content": [], "status": "in_progress"}
    whole: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body.get("model", "m"),
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    started = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *({**piece, "output_index": 0, "item_id": item["id"]} for piece in pieces),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _gemini(body: dict[str, Any]) -> Said:
    usage = {"promptTokenCount": 16, "candidatesTokenCount": 5, "totalTokenCount": 21, "cachedContentTokenCount": 3}
    tool = _tool(body)
    parts = [{"functionCall": {"name": tool["name"], "args": {"city": "Rome"}}}] if tool else [{"text": "hi there"}]

    def said(parts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}

    whole = said(parts, finishReason="STOP")
    pieces = [parts] if tool else [[{"text": "hi "}], [{"text": "there"}]]
    events = [said(piece) for piece in pieces]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    return whole, events
