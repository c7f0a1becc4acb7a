"""Gemini's wire, which the gateway passes through and therefore does not know: requests read, answers written."""

import re
from collections.abc import Iterable, Iterator

from paddock.gateway.translate import (
    Began,
    Delta,
    Ended,
    Failed,
    PartEnded,
    TextDelta,
    ThinkingDelta,
    ToolArguments,
    ToolBegan,
    Usage,
    Used,
    error_body,
    load_json,
)
from paddock.gateway.translate.deltas import Reason, answer_of, deltas_of
from paddock.gateway.translate.model import (
    Ask,
    OutputFormat,
    Part,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    merged,
)
from paddock.gateway.translate.reading import At, Body, dump_text
from paddock.gateway.translate.sse import event_bytes

_MODEL = re.compile(r"/models/([^/?]+):(\w+)")
_REASONS: dict[Reason, str] = {"length": "MAX_TOKENS", "refusal": "SAFETY"}


def read_request(path: str, body: Body) -> Ask:
    """The request in `body`; the model, and whether it is to be a stream, are in the path."""
    at = At(body)
    found = _MODEL.search(path)
    model, method = found.groups() if found else ("", "")
    config = at["generationConfig"]
    return Ask(
        model=model,
        turns=merged([_turn(content) for content in at["contents"].items()]),
        system=tuple(part["text"].any_text() for part in at["systemInstruction"]["parts"].any_items()),
        tools=tuple(_tool(each) for tools in at["tools"].items() for each in tools["functionDeclarations"].any_items()),
        max_output=config["maxOutputTokens"].count_or_none(),
        stream=method == "streamGenerateContent",
        output=_output(config),
    )


def _output(config: At) -> OutputFormat | None:
    schema = config["responseJsonSchema"].object_or_none() or config["responseSchema"].object_or_none()
    return OutputFormat(schema) if config["responseMimeType"].any_text() == "application/json" else None


def _turn(content: At) -> Turn:
    role: Role = "assistant" if content["role"].any_text() == "model" else "user"
    return Turn(role, tuple(_part(part) for part in content["parts"].items()))


def _part(part: At) -> Part:
    call, response = part["functionCall"], part["functionResponse"]
    if not call.missing:
        return ToolCall(_id(call), call["name"].text(), dump_text(call["args"].value or {}))
    if not response.missing:
        return _result(response)
    return Text(part["text"].any_text())


def _result(response: At) -> ToolResult:
    """Agents put what a tool said under `output`, and what went wrong under `error`."""
    value = response["response"]
    said = value["output"].any_text() or value["error"].any_text() or dump_text(value.value)
    return ToolResult(_id(response), (Text(said),), is_error=not value["error"].missing)


def _id(at: At) -> str:
    """Ids are optional: the name will do."""
    return at["id"].any_text() or at["name"].text()


def _tool(tool: At) -> Tool:
    schema = tool["parametersJsonSchema"].object_or_none() or tool["parameters"].object_or_none() or {}
    return Tool(tool["name"].text(), tool["description"].any_text(), schema)


class Writer:
    """Deltas in, bytes of a stream out."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._usage = Usage()
        self._id = ""
        self._call: ToolBegan | None = None
        self._arguments: list[str] = []

    def write(self, deltas: Iterable[Delta]) -> bytes:
        """The bytes that say `deltas`."""
        return b"".join(event_bytes("", body) for delta in deltas for body in self._bodies(delta))

    def _bodies(self, delta: Delta) -> Iterator[Body]:
        match delta:
            case Began(id, _, usage):
                self._id, self._usage = id, usage or self._usage
            case TextDelta(text):
                yield self._body([{"text": text}])
            case ThinkingDelta(text):
                yield self._body([{"text": text, "thought": True}])
            case Used(usage):
                self._usage = usage
            case Ended(reason):
                yield self._body([{"text": ""}], finishReason=_REASONS.get(reason, "STOP"))
            case Failed(status, _, message):
                yield error_body("gemini", status, message)
            case _:
                yield from self._calling(delta)

    def _calling(self, delta: Delta) -> Iterator[Body]:
        """A call is said at once, when its arguments are complete."""
        match delta:
            case ToolBegan():
                self._call = delta
            case ToolArguments(text):
                self._arguments.append(text)
            case PartEnded() if self._call is not None:
                yield self._body([_written_call(self._call.id, self._call.name, "".join(self._arguments))])
                self._call = None
                self._arguments.clear()

    def _body(self, parts: list[Body], **more: str) -> Body:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
        return {
            "candidates": [candidate],
            "usageMetadata": _written_usage(self._usage),
            "modelVersion": self._ask.model,
            "responseId": self._id,
        }


def write_answer(ask: Ask, deltas: Iterable[Delta]) -> Body:
    """The whole answer that `deltas` are."""
    answer = answer_of(deltas)
    writer = Writer(ask)
    bodies = [body for delta in deltas_of(answer) for body in writer._bodies(delta)]
    last = bodies[-1]
    said = [part for body in bodies[:-1] for part in body["candidates"][0]["content"]["parts"]]
    last["candidates"][0]["content"]["parts"] = said or [{"text": ""}]
    return last


def _written_call(id: str, name: str, arguments: str) -> Body:
    return {"functionCall": {"id": id, "name": name, "args": load_json(arguments)}}


def _written_usage(usage: Usage) -> Body:
    return {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "cachedContentTokenCount": usage.cache_read,
        "totalTokenCount": usage.total,
    }
