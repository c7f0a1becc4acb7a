"""An agent made with the official library of the Agent Client Protocol. It does what the lines of its prompt say."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from acp import RequestError, helpers, run_agent, schema

OPTIONS = [
    schema.PermissionOption(option_id="always", name="Always", kind="allow_always"),
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]
MODELS = schema.SessionConfigOptionSelect(
    id="model",
    name="Model",
    category="model",
    type="select",
    current_value="small",
    options=[schema.SessionConfigSelectOption(value=name, name=name) for name in ("small", "large")],
)
MODES = schema.SessionModeState(
    current_mode_id="work",
    available_modes=[schema.SessionMode(id=name, name=name) for name in ("work", "plan")],
)


class StandIn:
    """Knows one conversation."""

    def __init__(self, what: str, memory: Path) -> None:
        self.what = what
        self.memory = memory
        self.told: list[str] = []
        self.cancelled = asyncio.Event()
        self.calls = 0

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **_: Any) -> Any:
        assert not client_capabilities.terminal
        assert not client_capabilities.fs.read_text_file
        able = schema.AgentCapabilities(load_session=self.what == "remembers")
        info = schema.Implementation(name="stand-in", version="1.2.3")
        return schema.InitializeResponse(protocol_version=protocol_version, agent_capabilities=able, agent_info=info)

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> Any:
        if self.what == "wants a login":
            raise RequestError.auth_required()
        self.told = [f"cwd {cwd == os.getcwd()}", *(f"server {server.name}" for server in mcp_servers)]
        self.memory.write_text("")
        plain = self.what == "plain"
        return schema.NewSessionResponse(
            session_id="one", config_options=None if plain else [MODELS], modes=None if plain else MODES
        )

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> Any:
        if session_id != "one" or not self.memory.exists():
            raise RequestError.resource_not_found(session_id)
        for said in self.memory.read_text().splitlines():
            await self.say(said)
        return schema.LoadSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> Any:
        self.told.append(f"mode {mode_id}")
        return schema.SetSessionModeResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        self.told.append(f"{config_id} {value}")
        return schema.SetSessionConfigOptionResponse(config_options=[MODELS])

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()
        Path("cancelled").touch()

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> Any:
        reason: Any = "end_turn"
        for line in "\n".join(block.text for block in prompt).splitlines():
            word, _blank, rest = line.partition(" ")
            if word == "stop":
                reason = rest
            else:
                await getattr(self, f"do_{word}", self.do_nothing)(rest)
            with self.memory.open("a") as file:
                file.write(f"{line}\n")
        usage = schema.Usage(total_tokens=12, input_tokens=7, output_tokens=5)
        return schema.PromptResponse(stop_reason=reason, usage=usage)

    async def tell(self, update: Any) -> None:
        await self.client.session_update("one", update)

    async def say(self, text: str) -> None:
        await self.tell(helpers.update_agent_message_text(text))

    async def do_nothing(self, rest: str) -> None:
        pass

    async def do_say(self, rest: str) -> None:
        await self.say(rest)

    async def do_think(self, rest: str) -> None:
        await self.tell(helpers.update_agent_thought_text(rest))

    async def do_report(self, _: str) -> None:
        await self.say("; ".join(self.told))

    async def do_plan(self, _: str) -> None:
        await self.tell(helpers.update_plan([helpers.plan_entry("look", status="completed")]))
        cost = schema.Cost(amount=0.25, currency="USD")
        await self.tell(schema.UsageUpdate(session_update="usage_update", used=9, size=99, cost=cost))

    async def do_edit(self, path: str) -> None:
        await self.tell(helpers.start_tool_call("edit", "Edit", kind="edit", raw_input={"path": path}))
        await self.tell(helpers.update_tool_call("edit", status="in_progress"))
        changed = [helpers.tool_diff_content(path, "new")]
        await self.tell(helpers.update_tool_call("edit", status="completed", content=changed))

    async def do_may(self, kind: Any) -> None:
        self.calls += 1
        call = schema.ToolCallUpdate(tool_call_id=f"may-{self.calls}", title=f"some {kind}", kind=kind)
        answer = await self.client.request_permission("one", call, OPTIONS)
        chosen = getattr(answer.outcome, "option_id", answer.outcome.outcome)
        if chosen == "yes":
            await self.tell(helpers.update_tool_call(call.tool_call_id, status="completed"))
        await self.say(f"{kind}: {chosen}. ")

    async def do_read(self, path: str) -> None:
        for ask in (self.client.read_text_file("one", path), self.client.create_terminal("one", "id")):
            try:
                await ask
                await self.say("given. ")
            except RequestError as error:
                await self.say(f"refused: {error.code}. ")

    async def do_fail(self, code: str) -> None:
        raise RequestError(int(code), "no good")

    async def do_crash(self, _: str) -> None:
        await self.say("Oh ")
        print("ouch", file=sys.stderr, flush=True)
        os._exit(3)

    async def do_wait(self, _: str) -> None:
        await self.say("waiting")
        await self.cancelled.wait()


if __name__ == "__main__":
    agent: Any = StandIn(sys.argv[1], Path(os.environ["HOME"]) / "said")
    asyncio.run(run_agent(agent))
