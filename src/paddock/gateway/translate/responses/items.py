"""Items of Responses, which requests and answers have in common."""

from paddock.gateway.translate.media import content_text, data_uri, document_at, image_at, unknown
from paddock.gateway.translate.model import (
    Content,
    Document,
    Image,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from paddock.gateway.translate.names import sent_name
from paddock.gateway.translate.reading import At, Body, words
from paddock.gateway.translate.sealing import seal_of, seal_text
from paddock.gateway.translate.target import given
from paddock.gateway.translate.tools import input_call, input_of

WIRE = "responses"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
# Results of tools that ran at the provider, and its own notes: nobody else can do anything with them.
_LEFT_OUT = words(
    "web_search_call file_search_call code_interpreter_call image_generation_call computer_call compaction"
    " compaction_trigger mcp_list_tools mcp_approval_request mcp_approval_response tool_search_call"
    " tool_search_output additional_tools configuration_update program program_output"
)


def read_item(item: At, warnings: list[str]) -> Turn | None:
    """What one item of `input` says."""
    type = item["type"].text_or("item_reference" if item["role"].missing else "message")
    if type in _LEFT_OUT:
        warnings.append(f"{item.path}: an item of type {type} has no counterpart and is left out")
        return None
    match type:
        case "message":
            return _read_message(item)
        case "reasoning":
            return Turn("assistant", (read_reasoning(item),))
        case "function_call" | "custom_tool_call":
            return Turn("assistant", (read_call(item),))
        case "function_call_output" | "custom_tool_call_output":
            parts = _read_content(item["output"])
            return Turn("user", (ToolResult(item["call_id"].text(), parts, custom=type[0] == "c"),))
        case "item_reference":
            raise item.bad("refers to an answer that was stored, and none is")
    return Turn("user" if type.endswith("_output") else "assistant", (unknown(item),))


def _read_message(item: At) -> Turn:
    role = _ROLES.get(item["role"].text())
    if role is None:
        raise item["role"].bad("has to be user, assistant, system or developer")
    return Turn(role, _read_content(item["content"]))


def _read_content(content: At) -> tuple[Content, ...]:
    if isinstance(content.value, str):
        return (Text(content.value),)
    return tuple(_read_part(part) for part in content.items())


def _read_part(part: At) -> Content:
    match part["type"].text():
        case "input_text" | "output_text" | "text":
            return Text(part["text"].text())
        case "refusal":
            return Text(part["refusal"].text())
        case "input_image" if not part["image_url"].missing:
            return image_at(part["image_url"])
        case "input_file" if not part["file_data"].missing:
            return document_at(part["file_data"], part["filename"].text_or(""))
        case "input_file" if not part["file_url"].missing:
            return Document(url=part["file_url"].text(), name=part["filename"].text_or(""))
    return unknown(part)


def read_reasoning(item: At) -> Thinking:
    """Thinking: the summary, or all of it from servers that show it."""
    texts = [part["text"].any_text() for part in item["summary"].any_items() or item["content"].any_items()]
    seal = seal_of(WIRE, item["encrypted_content"].any_text(), item["id"].any_text())
    return Thinking("\n\n".join(texts), seal)


def read_call(item: At) -> ToolCall:
    """A tool call."""
    id, name, namespace = item["call_id"].text(), item["name"].text(), item["namespace"].text_or("")
    if item["type"].value == "custom_tool_call":
        return input_call(id, name, item["input"].text_or(""), namespace)
    return ToolCall(id, name, item["arguments"].text_or(""), namespace)


def write_turn(turn: Turn) -> list[Body]:
    """Items for a request. Thinking that is not the provider's own is left out."""
    items: list[Body] = []
    content: list[Content] = []
    for part in turn.parts:
        if isinstance(part, Text | Image | Document):
            content.append(part)
            continue
        items += _write_message(turn.role, content)
        items += _write_part(part)
        content = []
    return items + _write_message(turn.role, content)


def _write_part(part: Part) -> list[Body]:
    match part:
        case Thinking(_, seal) if seal.origin == WIRE and seal.signature:
            return [write_reasoning(part, seal.id or "rs_0")]
        case ToolCall():
            # Namespaces are known here, so the name needs to be changed only where it has none.
            name = part.name if part.namespace else sent_name(part.name)
            return [write_call(part, name)]
        case ToolResult():
            return [_write_result(part)]
    return []


def _write_message(role: Role, parts: list[Content]) -> list[Body]:
    if not parts:
        return []
    if role == "assistant":
        return [{"type": "message", "role": "assistant", "content": content_text(tuple(parts))}]
    sender = "developer" if role == "system" else "user"
    return [{"type": "message", "role": sender, "content": [_write_content(part) for part in parts]}]


def _write_content(part: Content) -> Body:
    match part:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image():
            return {"type": "input_image", "image_url": data_uri(part), "detail": "auto"}
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.name or "document.pdf", "file_data": data_uri(part)}


def _write_result(result: ToolResult) -> Body:
    text = content_text(result.parts)
    if result.is_error and not text.lower().startswith("error"):
        result = ToolResult(result.id, (Text("Error:"), *result.parts), custom=result.custom)
        text = f"Error: {text}"
    plain = all(isinstance(part, Text) for part in result.parts)
    return {
        "type": "custom_tool_call_output" if result.custom else "function_call_output",
        "call_id": result.id,
        "output": text if plain else [_write_content(part) for part in result.parts],
    }


def write_reasoning(thinking: Thinking, id: str) -> Body:
    """Thinking."""
    summary = [{"type": "summary_text", "text": thinking.text}] if thinking.text else []
    return {
        "type": "reasoning",
        "id": id,
        "summary": summary,
        "encrypted_content": seal_text(WIRE, thinking.seal) or None,
    }


def write_call(call: ToolCall, name: str) -> Body:
    """A tool call."""
    space = {"namespace": call.namespace} if call.namespace else {}
    if call.custom:
        return {
            "type": "custom_tool_call",
            "call_id": call.id,
            "name": name,
            "input": input_of(call.arguments),
        } | space
    return given(type="function_call", call_id=call.id, name=name, arguments=call.arguments) | space
