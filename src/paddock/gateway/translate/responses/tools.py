"""Tools as Responses has them, which a request and the echo of it in an answer have in common."""

from paddock.gateway.translate.model import Ask, OutputFormat, Tool
from paddock.gateway.translate.names import sent_name
from paddock.gateway.translate.reading import Body
from paddock.gateway.translate.target import given
from paddock.gateway.translate.tools import function_of


def write_tools(tools: tuple[Tool, ...]) -> list[Body]:
    """`tools`, those of a namespace together."""
    written: list[Body] = []
    spaces: dict[str, Body] = {}
    for tool in tools:
        if not tool.namespace:
            written.append(_write_tool(tool))
            continue
        if tool.namespace not in spaces:
            spaces[tool.namespace] = {
                "type": "namespace",
                "name": tool.namespace,
                "description": tool.namespace_description,
                "tools": [],
            }
            written.append(spaces[tool.namespace])
        spaces[tool.namespace]["tools"].append(_write_tool(tool))
    return written


def _write_tool(tool: Tool) -> Body:
    name = tool.name if tool.namespace else sent_name(tool.name)
    if tool.custom:
        return given(type="custom", name=name, description=tool.description or None, format=tool.format)
    return {
        "type": "function",
        "name": name,
        "description": tool.description or None,
        "parameters": function_of(tool).schema,
        # Said in any case: the default is to try to be strict, which makes optional arguments required.
        "strict": bool(tool.strict),
    }


def write_choice(ask: Ask) -> str | Body | None:
    """Whether tools have to be used."""
    choice = ask.tool_choice
    if choice is None or not ask.tools:
        return None
    if choice.kind == "tool":
        custom = any(
            tool.custom for tool in ask.tools if (tool.name, tool.namespace) == (choice.name, choice.namespace)
        )
        name = choice.name if choice.namespace else sent_name(choice.name)
        body: Body = {"type": "custom" if custom else "function", "name": name}
        return body | {"namespace": choice.namespace} if choice.namespace else body
    return "required" if choice.kind == "any" else choice.kind


def write_format(output: OutputFormat) -> Body:
    """The format of the answer's text."""
    if output.schema is None:
        return {"type": "json_object"}
    return given(type="json_schema", name=output.name, schema=dict(output.schema), strict=output.strict)
