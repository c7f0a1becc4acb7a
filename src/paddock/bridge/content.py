"""What tools give back, as MCP content, and no more of it than was granted."""

from typing import Any

from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic_core import to_json

_MOST_BLOCKS = 1000


def as_result(value: Any) -> CallToolResult:
    """Text as it is, bytes as text, nothing as `null`, and everything else as JSON."""
    if isinstance(value, CallToolResult):
        return value
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return CallToolResult(content=[_text(value if isinstance(value, str) else to_json(value).decode())])


def failure(words: str) -> CallToolResult:
    """A failure that the model reads: a result, and no error of the protocol."""
    return CallToolResult(content=[_text(words)], is_error=True)


def size(result: CallToolResult) -> int:
    """The bytes of its content, and of what is said besides."""
    more = (result.structured_content, result.meta)
    return sum(map(_size, result.content)) + sum(len(to_json(one)) for one in more if one is not None)


def cut(result: CallToolResult, most: int) -> CallToolResult:
    """At most so many bytes of it. What is missing is said."""
    result = result.model_copy(update={"content": [_sound(block) for block in result.content]})
    whole = size(result)
    if whole <= most and len(result.content) <= _MOST_BLOCKS:
        return result
    kept: list[ContentBlock] = []
    left = most
    for block in result.content[:_MOST_BLOCKS]:
        if _size(block) <= left:
            kept.append(block)
            left -= _size(block)
        elif isinstance(block, TextContent):
            text = block.text.encode()[:left].decode(errors="ignore")
            if text:
                kept.append(_text(text))
            left -= len(text.encode())
    kept.append(_text(f"[cut off: {most - left} of {whole} bytes]"))
    return CallToolResult(content=kept, is_error=result.is_error)


def _sound(block: ContentBlock) -> ContentBlock:
    """Without what cannot be written as UTF-8."""
    if not isinstance(block, TextContent) or block.text.isascii():
        return block
    return block.model_copy(update={"text": block.text.encode(errors="replace").decode()})


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _size(block: ContentBlock) -> int:
    if isinstance(block, TextContent) and block.annotations is None and block.meta is None:
        return len(block.text.encode())
    return len(block.model_dump_json())
