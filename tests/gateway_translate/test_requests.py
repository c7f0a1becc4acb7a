"""Requests of real clients toward every provider."""

from typing import Any

import pytest

from paddock.gateway.translate import BadRequest, Target, Translated, read_request, write_request
from paddock.gateway.translate.model import Ask

from .judges import check_request
from .samples import CLAUDE, CODEX, OPENCODE, PNG, REQUESTS, WIRES, ask

HERE = Target("there", reasoning="effort")


# What the system says moves, thinking is said in another way, and schemas are completed.
CHANGED = [
    ("anthropic", "turns"),
    ("anthropic", "effort"),
    ("anthropic", "tools"),
    ("responses", "tools"),
    ("chat", "turns"),
]


def sent(front: Translated, back: Translated, **change: Any) -> dict[str, Any]:
    return write_request(back, read_request(front, REQUESTS[front] | change), HERE).body


@pytest.mark.parametrize("back", WIRES)
@pytest.mark.parametrize("front", WIRES)
def test_every_pair_is_what_the_official_types_say(front: Translated, back: Translated) -> None:
    for target in (HERE, Target("there", 4096, "budget", openai=True), Target("there")):
        body = write_request(back, ask(front), target).body
        assert body["model"] == "there"
        assert body["stream"] is True
        check_request(back, {key: value for key, value in body.items() if key != "temperature"})


@pytest.mark.parametrize("front", WIRES)
def test_a_request_survives_its_own_format(front: Translated) -> None:
    before = ask(front)
    after = read_request(front, write_request(front, before, Target(before.model, reasoning="effort")).body)
    for field in ("model", "turns", "tools", "tool_choice", "parallel", "stop", "stream", "effort", "output"):
        if (front, field) not in CHANGED:
            assert getattr(after, field) == getattr(before, field), field
    assert "\n\n".join(after.system) == "\n\n".join(before.system)
    assert [tool.name for tool in after.tools] == [tool.name for tool in before.tools]


def test_claude_to_chat() -> None:
    body = sent("anthropic", "chat")
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "system", "assistant", "tool", "tool", "user", "system", "system"]
    system, user, cwd, assistant, first, second, seen, hook, date = body["messages"]
    assert system["content"] == "You are Claude Code."
    assert user["content"] == "Look at it"
    assert (cwd["content"], hook["content"], date["content"]) == ("cwd is /work", "A hook said no", "The date is today")
    assert assistant["content"] == "Both."
    assert "reasoning_content" not in assistant
    assert [call["id"] for call in assistant["tool_calls"]] == ["toolu_1", "toolu_2"]
    assert assistant["tool_calls"][0]["function"] == {"name": "Bash", "arguments": '{"cmd":"ls"}'}
    assert first == {"role": "tool", "tool_call_id": "toolu_1", "content": "a.png"}
    assert second["content"] == "Error: Tool mcp__tiny__boom is available from now on."
    assert seen["content"][1] == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert seen["content"][-1] == {"type": "text", "text": "go on"}
    assert body["stream_options"] == {"include_usage": True}
    assert body["max_tokens"] == 32000
    assert body["reasoning_effort"] == "high"
    assert [tool["function"]["name"] for tool in body["tools"]] == ["Bash", "mcp__tiny__echo"]
    assert body["tools"][1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert "user" not in body


def test_claude_to_responses() -> None:
    body = sent("anthropic", "responses")
    assert body["instructions"] == "You are Claude Code."
    assert body["store"] is False
    kinds = [item.get("role") or item["type"] for item in body["input"]]
    assert kinds == [
        *("user", "developer", "assistant", "function_call", "function_call", "developer"),
        *("function_call_output", "function_call_output", "user", "developer"),
    ]
    image = body["input"][6]["output"][1]
    assert image == {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
    assert all(tool["strict"] is False for tool in body["tools"])


def test_what_has_no_counterpart_is_said() -> None:
    warnings = write_request("chat", ask("anthropic"), HERE).warnings
    assert any("$.tools[2]: a tool of type web_search_20250305" in warning for warning in warnings)
    assert any(warning.startswith("$.context_management: ") for warning in warnings)
    warnings = write_request("anthropic", ask("responses"), HERE).warnings
    assert [warning.split(":")[0] for warning in warnings] == ["$.tools[3]", "$.tools[4]", "$.input[5]"]


def test_the_other_way_nothing_is_said() -> None:
    assert write_request("chat", read_request("chat", {"model": "m", "messages": []}), HERE).warnings == ()


def test_chat_to_anthropic() -> None:
    body = sent("chat", "anthropic")
    assert body["system"] == [{"type": "text", "text": "You are OpenCode.", "cache_control": {"type": "ephemeral"}}]
    user, assistant, results = body["messages"]
    assert user["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": PNG}
    assert [block["id"] for block in assistant["content"]] == ["functions_bash_0", "call_2"]
    assert assistant["content"][1]["input"] == {"arguments": "{broken"}
    assert [block["type"] for block in results["content"]] == ["tool_result", "tool_result", "text"]
    assert results["content"][0]["tool_use_id"] == "functions_bash_0"
    assert results["content"][2]["text"] == "<system-reminder>\nBe brief\n</system-reminder>"
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert "thinking" not in body  # with a tool that has to be used Anthropic refuses it
    assert body["temperature"] == 1.0
    assert body["max_tokens"] == 8192


def test_codex_to_anthropic() -> None:
    body = sent("responses", "anthropic")
    names = [tool["name"] for tool in body["tools"]]
    assert names == ["exec_command", "mcp__tiny__echo", "apply_patch"]
    assert body["tools"][2]["input_schema"]["required"] == ["input"]
    assert "lark grammar:\nstart: patch" in body["tools"][2]["description"]
    _, assistant, results = body["messages"]
    assert [block["type"] for block in assistant["content"]] == ["tool_use", "tool_use"]
    assert assistant["content"][0]["name"] == "mcp__tiny__echo"
    assert assistant["content"][1]["input"] == {"input": "*** Begin Patch"}
    assert results["content"][1]["content"] == [{"type": "text", "text": "Done"}]
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "high"}


def test_codex_to_chat() -> None:
    body = sent("responses", "chat")
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "system",
    ]
    assert body["messages"][0]["content"] == "You are Codex.\n\nSandboxed."
    assert body["messages"][2]["content"] is None
    assert body["messages"][2]["tool_calls"][0]["function"]["name"] == "mcp__tiny__echo"


CHOICES: list[tuple[Any, Any, Any]] = [
    ({"type": "auto"}, "auto", "auto"),
    ({"type": "any"}, "required", "required"),
    ({"type": "none"}, "none", "none"),
    ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
]


@pytest.mark.parametrize(("ours", "chat", "responses"), CHOICES)
def test_tool_choice_both_ways(ours: Any, chat: Any, responses: Any) -> None:
    tools: dict[Translated, Any] = {
        "anthropic": {"name": "f", "input_schema": {"type": "object"}},
        "chat": {"type": "function", "function": {"name": "f"}},
        "responses": {"type": "function", "name": "f"},
    }
    said: dict[Translated, Any] = {"anthropic": ours, "chat": chat, "responses": responses}
    for front in WIRES:
        body = {"model": "m", "messages": [], "input": "x", "tools": [tools[front]], "tool_choice": said[front]}
        asked = read_request(front, body | {"messages": [{"role": "user", "content": "x"}]})
        for back in WIRES:
            assert write_request(back, asked, HERE).body["tool_choice"] == said[back]


@pytest.mark.parametrize("parallel", [True, False, None])
def test_calls_at_once(parallel: bool | None) -> None:
    said = {} if parallel is None else {"parallel_tool_calls": parallel}
    plain = {key: value for key, value in OPENCODE.items() if key not in ("parallel_tool_calls", "tool_choice")}
    asked = read_request("chat", plain | said)
    choice = write_request("anthropic", asked, HERE).body.get("tool_choice")
    assert choice == (None if parallel is None else {"type": "auto", "disable_parallel_tool_use": not parallel})
    assert write_request("responses", asked, HERE).body.get("parallel_tool_calls") is parallel
    back = read_request("anthropic", write_request("anthropic", asked, HERE).body)
    assert back.parallel is parallel


def test_json_of_a_schema() -> None:
    schema = {"type": "object", "properties": {}}
    format = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}
    asked = read_request(
        "chat", {"model": "m", "messages": [{"role": "user", "content": "x"}], "response_format": format}
    )
    assert write_request("chat", asked, HERE).body["response_format"] == format
    text = write_request("responses", asked, HERE).body["text"]
    assert text == {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}
    config = write_request("anthropic", asked, HERE).body["output_config"]
    assert config == {"format": {"type": "json_schema", "schema": schema}}
    for wire, body in (
        ("responses", {"input": "x", "text": text}),
        ("anthropic", {"messages": [], "output_config": config}),
    ):
        again = read_request(wire, {"model": "m", **body})  # type: ignore[arg-type]
        assert again.output is not None
        assert again.output.schema == schema


def test_any_json() -> None:
    asked = read_request("responses", {"model": "m", "input": "x", "text": {"format": {"type": "json_object"}}})
    assert write_request("chat", asked, HERE).body["response_format"] == {"type": "json_object"}
    written = write_request("anthropic", asked, HERE)
    assert "output_config" not in written.body
    assert "no JSON without a schema" in written.warnings[0]


def test_options_go_in_except_what_a_connector_has_fields_for() -> None:
    options = {
        "max_tokens": 1,
        "temperature": 2,
        "model": "x",
        "key": "k",
        "proxy": "p",
        "thinking": {"type": "disabled"},
    }
    for wire in WIRES:
        body = write_request(wire, ask("responses"), Target("there", options=options)).body
        assert body["thinking"] == {"type": "disabled"}
        assert body["model"] == "there"
        assert not {"key", "proxy", "temperature"} & body.keys()
    body = write_request(
        "chat", ask("anthropic"), Target("there", options={"stream_options": {"include_usage": False}})
    ).body
    assert body["stream_options"] == {"include_usage": True}


def test_the_least_of_the_limits_counts() -> None:
    target = Target("there", max_output=16384)
    assert write_request("chat", ask("anthropic"), target).body["max_tokens"] == 16384
    assert write_request("chat", ask("chat"), target).body["max_tokens"] == 8192
    openai = Target("there", openai=True)
    body = write_request("chat", ask("anthropic"), openai).body
    assert (body["max_completion_tokens"], "max_tokens" in body) == (32000, False)
    one = read_request("anthropic", CLAUDE | {"max_tokens": 1})
    assert write_request("responses", one, HERE).body["max_output_tokens"] == 16


def test_fields_that_a_provider_refuses_are_left_out() -> None:
    body = write_request("chat", ask("chat"), Target("there", leave_out=frozenset({"temperature", "tools"}))).body
    assert not {"temperature", "tools"} & body.keys()


def test_thinking_by_budget() -> None:
    target = Target("there", reasoning="budget")
    codex = write_request("anthropic", ask("responses"), target).body
    assert "thinking" not in codex  # the calls before came without it
    fresh = write_request("anthropic", read_request("responses", CODEX | {"input": "x"}), target).body
    assert fresh["thinking"]["type"] == "enabled"
    assert 1024 <= fresh["thinking"]["budget_tokens"] < fresh["max_tokens"]
    claude = write_request("anthropic", ask("anthropic"), target).body
    assert claude["thinking"] == {"type": "enabled", "budget_tokens": 10000}


def test_thinking_is_not_asked_for_unless_the_model_can_be() -> None:
    for wire in WIRES:
        written = write_request(wire, ask("responses"), Target("there"))
        assert not {"thinking", "output_config", "reasoning", "reasoning_effort"} & written.body.keys()
        assert any("how much to think is left out" in warning for warning in written.warnings)
        assert not any("think" in warning for warning in write_request(wire, ask("responses"), HERE).warnings)


def test_results_stay_with_their_calls_whatever_comes_between() -> None:
    def result(id: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": id}]}

    calls = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in "ab"]
    note = {"role": "system", "content": "note"}
    messages = [note, {"role": "user", "content": "x"}, note, {"role": "assistant", "content": calls}, note]
    messages += [result("a"), note, result("b"), note, {"role": "user", "content": "y"}, note]
    asked = read_request("anthropic", {"model": "m", "messages": messages})
    roles = [message["role"] for message in write_request("chat", asked, HERE).body["messages"]]
    expected = "system user system assistant tool tool system system system user system"
    assert " ".join(roles) == expected
    blocks = write_request("anthropic", asked, HERE).body["messages"][2]["content"]
    assert [block["type"] for block in blocks] == ["tool_result"] * 2 + ["text"] * 5


def test_long_and_strange_names_fit() -> None:
    long = "mcp__" + "a" * 90
    tool = {"name": long, "input_schema": {"type": "object"}}
    call = {"type": "tool_use", "id": "t", "name": long, "input": {}}
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [call]}]
    asked = read_request("anthropic", {"model": "m", "messages": messages, "tools": [tool]})
    body = write_request("chat", asked, HERE).body
    name = body["tools"][0]["function"]["name"]
    assert len(name) == 64
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == name


def test_thinking_of_another_provider_comes_back_to_it() -> None:
    def of(body: dict[str, Any]) -> Ask:
        return read_request("anthropic", {"model": "m", "messages": [{"role": "user", "content": "x"}, body]})

    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    foreign = {"type": "thinking", "thinking": "hm", "signature": "paddock:responses:rs_1:gAAA"}
    asked = of({"role": "assistant", "content": [foreign, call]})
    item = write_request("responses", asked, HERE).body["input"][1]
    summary = [{"type": "summary_text", "text": "hm"}]
    assert item == {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA"}
    assert [block["type"] for block in write_request("anthropic", asked, HERE).body["messages"][1]["content"]] == [
        "tool_use"
    ]
    deepseek = {"type": "thinking", "thinking": "hm", "signature": "paddock:chat::"}
    message = write_request("chat", of({"role": "assistant", "content": [deepseek, call]}), HERE).body["messages"][1]
    assert message["reasoning_content"] == "hm"
    message = write_request("chat", of({"role": "assistant", "content": [deepseek]}), HERE).body["messages"][1]
    assert "reasoning_content" not in message


def test_only_instructions() -> None:
    asked = read_request("chat", {"model": "m", "messages": [{"role": "system", "content": "Make a title"}]})
    assert write_request("anthropic", asked, HERE).body["messages"][0]["content"][0]["text"] == "Make a title"


EMPTY: list[tuple[Translated, Any]] = [
    ("chat", {"messages": []}),
    ("anthropic", {"messages": [{"role": "user", "content": ""}]}),
    ("responses", {"input": []}),
]


@pytest.mark.parametrize(("wire", "body"), EMPTY)
def test_nothing_to_answer(wire: Translated, body: Any) -> None:
    with pytest.raises(BadRequest, match="no message to answer"):
        write_request("anthropic", read_request(wire, {"model": "m", **body}), HERE)


WRONG: list[tuple[Translated, Any, str]] = [
    ("anthropic", [], "$: has to be an object"),
    ("anthropic", {}, "$.model: has to be a text"),
    ("anthropic", {"messages": {}}, "$.messages: has to be a list"),
    ("anthropic", {"messages": [3]}, "$.messages[0].role: has to be a text"),
    ("anthropic", {"messages": [{"role": "boss", "content": ""}]}, "$.messages[0].role: has to be user, assistant"),
    ("anthropic", {"messages": [{"role": "user", "content": [{}]}]}, "$.messages[0].content[0].type: has to be a text"),
    ("anthropic", {"max_tokens": -1}, "$.max_tokens: has to be a whole number"),
    ("anthropic", {"max_tokens": True}, "$.max_tokens: has to be a whole number"),
    ("anthropic", {"temperature": "hot"}, "$.temperature: has to be a number"),
    ("anthropic", {"stream": 1}, "$.stream: has to be true or false"),
    ("anthropic", {"tools": [{"name": "f", "input_schema": []}]}, "$.tools[0].input_schema: has to be an object"),
    ("anthropic", {"tool_choice": {"type": "some"}}, "$.tool_choice.type: has to be auto"),
    ("chat", {"n": 2}, "$.n: only one answer"),
    (
        "chat",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]},
        "base64",
    ),
    ("chat", {"tool_choice": "some"}, "$.tool_choice: has to be auto"),
    ("responses", {"previous_response_id": "resp_1"}, "$.previous_response_id: no answers are stored here"),
    ("responses", {"conversation": "c"}, "$.conversation: no conversations are stored"),
    ("responses", {"prompt": {"id": "p"}}, "$.prompt: no prompts are stored"),
    ("responses", {"background": True}, "$.background: no answers are stored"),
    ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}, "$.input[0]: refers to an answer"),
    ("responses", {"input": [{"id": "msg_1"}]}, "$.input[0]: refers to an answer"),
    ("responses", {"input": 3}, "$.input: has to be a list"),
]


@pytest.mark.parametrize(("wire", "body", "message"), WRONG)
def test_what_is_wrong_is_named(wire: Translated, body: Any, message: str) -> None:
    if isinstance(body, dict) and body:
        body = {"model": "m", "messages": [], "input": "x"} | body
    with pytest.raises(BadRequest) as caught:
        read_request(wire, body)
    assert message in str(caught.value)
    assert caught.value.status == 400


def test_unknown_content_becomes_text() -> None:
    strange = {"type": "hologram", "data": "z" * 9000}
    asked = read_request("anthropic", {"model": "m", "messages": [{"role": "user", "content": [strange]}]})
    text = write_request("chat", asked, HERE).body["messages"][0]["content"]
    assert text.startswith('{"type":"hologram"')
    assert len(text) < 5000
    item = {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}, "status": "completed", "id": "i"}
    asked = read_request("responses", {"model": "m", "input": [{"role": "user", "content": "x"}, item]})
    assert '"command":["ls"]' in write_request("chat", asked, HERE).body["messages"][1]["content"]


DOCUMENTS: list[tuple[Any, Any]] = [
    (
        {"type": "base64", "media_type": "application/pdf", "data": PNG},
        {"filename": "T", "file_data": f"data:application/pdf;base64,{PNG}"},
    ),
    ({"type": "url", "url": "http://x/a.pdf"}, {"file_url": "http://x/a.pdf"}),
]


@pytest.mark.parametrize(("source", "file"), DOCUMENTS)
def test_documents(source: Any, file: Any) -> None:
    block = {"type": "document", "title": "T", "source": source}
    asked = read_request("anthropic", {"model": "m", "messages": [{"role": "user", "content": [block]}]})
    body = write_request("responses", asked, HERE).body
    assert body["input"][0]["content"] == [{"type": "input_file"} | file]
    for wire in WIRES:
        check_request(wire, write_request(wire, asked, HERE).body | {"max_tokens": 5})
    again = read_request("responses", body)
    assert write_request("anthropic", again, HERE).body["messages"][0]["content"][0]["source"] == source
