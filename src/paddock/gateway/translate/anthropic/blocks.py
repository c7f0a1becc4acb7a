"""Content blocks of Anthropic Messages, which requests and answers have in common."""

import re

from paddock.gateway.translate.media import unknown
from paddock.gateway.translate.model import Content, Document, Image, Part, Seal, Text, Thinking, ToolCall, ToolResult
from paddock.gateway.translate.names import sent_name
from paddock.gateway.translate.reading import At, BadRequest, Body, dump_text, load_json
from paddock.gateway.translate.sealing import seal_of, seal_text

WIRE = "anthropic"
_FORBIDDEN_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")


def read_content(content: At) -> tuple[Part, ...]:
    """The parts of a message, which may be one text."""
    if isinstance(content.value, str):
        return (Text(content.value),)
    return tuple(read_block(block) for block in content.items())


def read_block(block: At) -> Part:
    """One block."""
    match block["type"].text():
        case "tool_use":
            return ToolCall(block["id"].text(), block["name"].text(), dump_text(block["input"].object_or_none() or {}))
        case "tool_result":
            return _read_result(block)
        case "thinking":
            signature = block["signature"].text_or("")
            return Thinking(block["thinking"].text_or(""), seal_of(WIRE, signature))
        case "redacted_thinking":
            return Thinking("", Seal(WIRE, "redacted", block["data"].text_or("")))
    return _read_plain(block)


def _read_plain(block: At) -> Content:
    match block["type"].text():
        case "text":
            return Text(block["text"].text())
        case "image":
            return _read_image(block)
        case "document":
            return _read_document(block)
        case "search_result":
            texts = [item["text"].any_text() for item in block["content"].any_items()]
            return Text("\n".join([block["title"].any_text(), block["source"].any_text(), *texts]))
    return unknown(block)


def _read_image(block: At) -> Content:
    source = block["source"]
    match source["type"].text():
        case "base64":
            return Image(source["media_type"].text(), source["data"].text())
        case "url":
            return Image(url=source["url"].text())
    return unknown(block)


def _read_document(block: At) -> Content:
    source, name = block["source"], block["title"].text_or("")
    match source["type"].text():
        case "base64":
            return Document(source["media_type"].text(), source["data"].text(), name=name)
        case "url":
            return Document(url=source["url"].text(), name=name)
        case "text":
            return Text(f"{name}\n{source['data'].text()}".strip())
    return unknown(block)


def _read_result(block: At) -> ToolResult:
    content = block["content"]
    if isinstance(content.value, str):
        parts: tuple[Content, ...] = (Text(content.value),)
    else:
        parts = tuple(_read_plain(inner) for inner in content.items())
    return ToolResult(block["tool_use_id"].text(), parts, block["is_error"].flag())


def write_parts(parts: tuple[Part, ...]) -> list[Body]:
    """Blocks for a request. Empty text, which Anthropic refuses, is left out, and thinking that is not its own."""
    return [block for part in parts if (block := _write_part(part)) is not None]


def _write_part(part: Part) -> Body | None:
    match part:
        case ToolCall():
            return write_call(part, sent_id(part.id), sent_name(part.name, part.namespace))
        case ToolResult():
            return _write_result(part)
        case Thinking():
            return write_thinking(part) if part.seal.origin == WIRE and part.seal.signature else None
    return _write_plain(part)


def _write_plain(part: Content) -> Body | None:
    match part:
        case Text(text):
            return {"type": "text", "text": text} if text.strip() else None
        case Image():
            return {"type": "image", "source": _source(part)}
    body: Body = {"type": "document", "source": _source(part)}
    return body | {"title": part.name} if part.name else body


def _source(part: Image | Document) -> Body:
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": part.data}


def _write_result(result: ToolResult) -> Body:
    content = [block for part in result.parts if (block := _write_plain(part)) is not None]
    body: Body = {"type": "tool_result", "tool_use_id": sent_id(result.id), "content": content}
    return body | {"is_error": True} if result.is_error else body


def write_call(call: ToolCall, id: str, name: str) -> Body:
    """A tool call, whose arguments have to be an object: what is none is put into one for the model to see."""
    try:
        input = load_json(call.arguments or "{}")
    except BadRequest:
        input = call.arguments
    if not isinstance(input, dict):
        input = {} if input is None else {"arguments": call.arguments}
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def write_thinking(thinking: Thinking) -> Body:
    """Thinking for a client, or for Anthropic if it is its own."""
    if thinking.seal.redacted:
        return {"type": "redacted_thinking", "data": thinking.seal.signature}
    return {"type": "thinking", "thinking": thinking.text, "signature": seal_text(WIRE, thinking.seal)}


def sent_id(id: str) -> str:
    """The id of a call as Anthropic takes it; other providers have dots and colons in theirs."""
    return _FORBIDDEN_IN_ID.sub("_", id) or "_"
