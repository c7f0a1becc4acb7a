"""Requests and answers that real clients and providers send, shortened."""

from typing import Any

from paddock.gateway.translate import (
    Ask,
    Began,
    Delta,
    Ended,
    PartEnded,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Translated,
    Usage,
    Used,
    read_request,
)
from paddock.gateway.translate.model import Seal

WIRES: tuple[Translated, ...] = ("anthropic", "chat", "responses")
PNG = "iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}

CLAUDE: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 32000,
    "stream": True,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.325; cch=b1946;"},
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
    ],
    "metadata": {"user_id": "user_" + "0" * 120},
    "thinking": {"type": "enabled", "budget_tokens": 10000},
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "tools": [
        {"name": "Bash", "description": "Run it", "input_schema": SCHEMA | {"$schema": "http://json-schema.org/x"}},
        {"name": "mcp__tiny__echo", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look at it"}]},
        {"role": "system", "content": "cwd is /work"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "Both."},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"cmd": "ls"}},
                {"type": "tool_use", "id": "toolu_2", "name": "mcp__tiny__echo", "input": {}},
            ],
        },
        {"role": "system", "content": [{"type": "text", "text": "A hook said no"}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [
                        {"type": "text", "text": "a.png"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    ],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "is_error": True,
                    "content": [{"type": "tool_reference", "tool_name": "mcp__tiny__boom"}],
                },
                {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {"role": "system", "content": "The date is today"},
    ],
}

OPENCODE: dict[str, Any] = {
    "model": "gpt-x",
    "max_completion_tokens": 8192,
    "temperature": 1.5,
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning_effort": "medium",
    "parallel_tool_calls": False,
    "tool_choice": "required",
    "tools": [{"type": "function", "function": {"name": "bash", "description": "Run it", "parameters": SCHEMA}}],
    "messages": [
        {"role": "system", "content": "You are OpenCode."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "functions.bash:0",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"cmd":"ls"}'},
                },
                {"id": "call_2", "type": "function", "function": {"name": "bash", "arguments": "{broken"}},
            ],
        },
        {"role": "tool", "tool_call_id": "functions.bash:0", "content": "a.png"},
        {"role": "tool", "tool_call_id": "call_2", "content": ""},
        {"role": "developer", "content": "Be brief"},
    ],
}

CODEX: dict[str, Any] = {
    "model": "gpt-x-codex",
    "instructions": "You are Codex.",
    "stream": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199",
    "reasoning": {"effort": "high", "summary": "auto"},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [
        {"type": "function", "name": "exec_command", "description": "Run it", "strict": False, "parameters": SCHEMA},
        {
            "type": "namespace",
            "name": "mcp__tiny",
            "description": "tiny",
            "tools": [{"type": "function", "name": "echo", "parameters": {"type": "object", "properties": {}}}],
        },
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Patch files",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: patch"},
        },
        {"type": "local_shell"},
        {"type": "web_search"},
    ],
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandboxed."}]},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "See"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "gAAA",
        },
        {"type": "function_call", "call_id": "call_1", "name": "echo", "namespace": "mcp__tiny", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "function_call_output", "call_id": "call_1", "output": "hi"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "Done"}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief"}]},
    ],
}

REQUESTS: dict[Translated, dict[str, Any]] = {"anthropic": CLAUDE, "chat": OPENCODE, "responses": CODEX}

USAGE = Usage(100, 40, 20, 10, 5)


def ask(wire: Translated) -> Ask:
    return read_request(wire, REQUESTS[wire])


def answer(origin: str = "anthropic") -> list[Delta]:
    """Thinking, text, and two calls."""
    return [
        Began("id_1", "upstream-model"),
        ThinkingDelta("let me "),
        ThinkingDelta("see"),
        ThinkingSealed(Seal(origin, "", "c2ln" if origin != "chat" else "")),
        PartEnded(),
        TextDelta("Hällo "),
        TextDelta("wörld 🎉"),
        PartEnded(),
        ToolBegan("call_1", "Bash"),
        ToolArguments('{"cmd"'),
        ToolArguments(':"ls -l"}'),
        PartEnded(),
        ToolBegan("call_2", "mcp__tiny__echo"),
        ToolArguments("{}"),
        PartEnded(),
        Used(USAGE),
        Ended("tool"),
    ]
