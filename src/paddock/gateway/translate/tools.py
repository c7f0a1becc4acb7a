"""Tools as functions, which is what every provider knows."""

from typing import NamedTuple

from paddock.gateway.translate.model import Tool, ToolCall
from paddock.gateway.translate.names import sent_name
from paddock.gateway.translate.reading import At, BadRequest, Body, dump_text, load_json


class Function(NamedTuple):
    """A function that a model may call."""

    name: str
    description: str
    schema: Body


def function_of(tool: Tool) -> Function:
    """`tool` as a function. One that takes any text becomes one with a text as its only argument."""
    name = sent_name(tool.name, tool.namespace)
    if tool.custom:
        input: Body = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
        return Function(name, tool.description + _grammar(tool), input)
    schema = {"type": "object", **tool.schema}
    if schema["type"] == "object":
        schema.setdefault("properties", {})  # which OpenAI insists on
    return Function(name, tool.description, schema)


def _grammar(tool: Tool) -> str:
    format = At(dict(tool.format or {}))
    definition = format["definition"].any_text()
    return f"\n\nThe input has to match this {format['syntax'].any_text()} grammar:\n{definition}" if definition else ""


def input_call(id: str, name: str, input: str, namespace: str = "") -> ToolCall:
    """A call of a tool that takes any text."""
    return ToolCall(id, name, dump_text({"input": input}), namespace, custom=True)


def input_of(arguments: str) -> str:
    """The text that such a tool was called with; all of the arguments if they are not as they should be."""
    try:
        input = At(load_json(arguments))["input"].value
    except BadRequest:
        return arguments
    return input if isinstance(input, str) else arguments
