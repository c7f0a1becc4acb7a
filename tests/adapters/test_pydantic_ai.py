"""Agents of Pydantic AI with the tools of a sandbox."""

from collections.abc import Callable

import pytest
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from paddock import Sandbox
from paddock.adapters.pydantic_ai import PaddockToolset
from paddock.errors import ConfigError
from paddock.sync import Sandbox as BlockingSandbox
from paddock.tools import sandbox_tools


def scripted(*turns: ToolCallPart | TextPart) -> Callable[[list[ModelMessage], AgentInfo], ModelResponse]:
    """A model that does one after another."""
    rest = list(turns)
    return lambda messages, info: ModelResponse(parts=[rest.pop(0)])


def returned(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


@pytest.mark.parametrize("backend", ["memory", "namespaces"])
async def test_an_agent_works(backend: str) -> None:
    async with Sandbox.create(backend) as sandbox:
        script = scripted(
            ToolCallPart("write_file", {"path": "f.txt", "content": "written by a model"}),
            ToolCallPart("read_file", {"path": "f.txt"}),
            ToolCallPart("read_file", {"path": "nothing.txt"}),
            ToolCallPart("read_file", {"file": "f.txt"}),
            TextPart("done"),
        )
        agent = Agent(FunctionModel(script), toolsets=[PaddockToolset(sandbox)])
        result = await agent.run("write a file")
        assert result.output == "done"
        assert await sandbox.read("f.txt") == "written by a model"
    _, read, missing, wrong = returned(result.all_messages())
    assert "written by a model" in str(read.content)
    assert read.metadata["success"] is True
    assert (missing.metadata["success"], missing.metadata["code"]) == (False, "NOT_FOUND")
    assert "do not fit" in str(wrong.content)


def test_a_sandbox_that_blocks() -> None:
    with BlockingSandbox.create("memory") as sandbox, pytest.raises(ConfigError, match="does not block"):
        PaddockToolset(sandbox)  # type: ignore[arg-type]


async def test_what_is_offered() -> None:
    async with Sandbox.create("memory") as sandbox:
        seen: list[AgentInfo] = []

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            seen.append(info)
            return ModelResponse(parts=[TextPart("nothing to do")])

        tools = sandbox_tools(sandbox).only("read_file", "list_files")
        await Agent(FunctionModel(model), toolsets=[PaddockToolset(tools, id="narrow")]).run("look")
        offered = {tool.name: tool for tool in seen[0].function_tools}
        assert set(offered) == {"read_file", "list_files"}
        assert offered["read_file"].parameters_json_schema == tools["read_file"].schema
        assert offered["read_file"].description == tools["read_file"].description
