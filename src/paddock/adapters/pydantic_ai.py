"""The tools of a sandbox for Pydantic AI: `Agent(model, toolsets=[PaddockToolset(sandbox)])`."""

from typing import Any

from paddock.extras import need

need("pydantic-ai")

from pydantic_ai import RunContext, ToolReturn
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from paddock.errors import ConfigError
from paddock.sandbox import Sandbox
from paddock.tools import Tools, sandbox_tools

_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
"""Paddock's tools look at their arguments themselves, and tell the model what does not fit."""


class PaddockToolset(AbstractToolset[AgentDepsT]):
    """The tools of one sandbox, or those that `sandbox_tools` made. What fails is told to the model as a result."""

    def __init__(self, tools: Tools | Sandbox, *, id: str = "paddock", max_retries: int = 1) -> None:
        if not isinstance(tools, (Tools, Sandbox)):
            raise ConfigError(
                f"A {type(tools).__module__}.{type(tools).__name__} has no tools.",
                hint="Give a paddock.Sandbox, which does not block, or what sandbox_tools made of one.",
            )
        self._tools = sandbox_tools(tools) if isinstance(tools, Sandbox) else tools
        self._id = id
        self._max_retries = max_retries

    @property
    def id(self) -> str:
        """What tells it from other toolsets of an agent."""
        return self._id

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """What the model is offered."""
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description
                ),
                max_retries=self._max_retries,
                args_validator=_ANY_OBJECT,
            )
            for tool in self._tools
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> ToolReturn:
        """Do what the model asked for. It reads the text; the program finds the rest in the metadata."""
        result = await self._tools.call(name, tool_args)
        return ToolReturn(result.text, metadata=result.to_dict())
