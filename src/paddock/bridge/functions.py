"""Python functions as tools: the schema from type hints, the description from the docstring."""

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, get_args

from mcp.server.mcpserver.exceptions import InvalidSignature
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata, func_metadata
from mcp_types import CallToolResult
from mcp_types import Tool as ListedTool
from pydantic import ValidationError
from pydantic.errors import PydanticUserError

from paddock.bridge.content import as_result, failure
from paddock.bridge.context import ToolContext
from paddock.bridge.grants import Tool
from paddock.bridge.threads import Threads
from paddock.errors import ConfigError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_MOST_MISTAKES = 10
_LONGEST_NAME = 100


class FunctionOffer:
    """A function that is a tool."""

    def __init__(self, tool: Tool, threads: Threads) -> None:
        self._function = tool.function
        self._threads = threads
        self._context, self._arguments = _signature(tool)
        self.listed = ListedTool(
            name=tool.called,
            description=tool.description or inspect.getdoc(tool.function) or "",
            input_schema=_schema(tool, self._arguments),
        )

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> CallToolResult:
        """See `Offer`. Arguments that do not fit are a failure that the model can read."""
        known = self.listed.input_schema.get("properties", {})
        if unknown := arguments.keys() - known.keys():
            return failure(_unknown(unknown, known))
        try:
            named = self._arguments.validate_arguments(arguments)
        except ValidationError as error:
            return failure(_mistakes(error))
        if self._context is not None:
            named[self._context] = context
        bound = partial(self._function, **named)
        if _is_async(self._function):
            return as_result(await bound())
        found = await self._threads.run(bound)
        return as_result(await found if inspect.isawaitable(found) else found)


def _signature(tool: Tool) -> tuple[str | None, FuncMetadata]:
    """The parameter for the context, if there is one, and a model of the others."""
    try:
        signature = inspect.signature(tool.function, eval_str=True)
    except (NameError, TypeError, ValueError) as error:
        raise _no_tool(tool, str(error)) from error
    parameters = signature.parameters.values()
    contexts = [parameter.name for parameter in parameters if _is_context(parameter.annotation)]
    for parameter in parameters:
        if parameter.kind not in _NAMED:
            raise _no_tool(tool, f"its parameter {parameter.name!r} cannot be given by name")
    untyped = [one.replace(annotation=Any) if one.annotation is one.empty else one for one in parameters]
    signature = signature.replace(parameters=untyped)  # which the SDK would take for text
    if len(contexts) > 1:
        raise _no_tool(tool, "it has two parameters for the context")
    try:
        return next(iter(contexts), None), func_metadata(_named(tool, signature), contexts, structured_output=False)
    except (InvalidSignature, PydanticUserError) as error:
        raise _no_tool(tool, str(error)) from error


def _named(tool: Tool, signature: inspect.Signature) -> Callable[..., Any]:
    """Something with this signature and a name, which partial functions and objects have not."""

    def stand_in() -> None: ...

    stand_in.__name__ = tool.called
    stand_in.__signature__ = signature  # type: ignore[attr-defined]
    return stand_in


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext or ToolContext in get_args(annotation)


def _schema(tool: Tool, arguments: FuncMetadata) -> dict[str, Any]:
    try:
        schema = arguments.arg_model.model_json_schema(by_alias=True)
    except PydanticUserError as error:
        raise _no_tool(tool, error.message.rstrip(".")) from error
    schema.pop("title", None)
    return {**schema, "additionalProperties": False}


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _no_tool(tool: Tool, why: str) -> ConfigError:
    return ConfigError(
        f"{tool.called!r} cannot be a tool: {why}.", hint="Give every parameter a name and a type that JSON has."
    )


def _unknown(given: set[str], known: Iterable[str]) -> str:
    """That something was given which the function does not take; the model can read what it does."""
    names = ", ".join(sorted(name[:_LONGEST_NAME] for name in given)[:_MOST_MISTAKES])
    return f"The arguments do not fit.\nThere is no {names}. There is: {', '.join(known) or 'none'}."


def _mistakes(error: ValidationError) -> str:
    """What is wrong with the arguments, without repeating them."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found[:_MOST_MISTAKES]]
    return "\n".join(["The arguments do not fit.", *lines])
