"""Requests as the agents make them, cut down to what matters: one tool for commands, and `echo` of the MCP server `tiny`."""

from typing import Any

TEXT = {"type": "string"}
ECHO = {"type": "object", "properties": {"text": TEXT}, "required": ["text"]}
HI = [{"role": "user", "content": "hi"}]


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


BASH = _object("command", command=TEXT, description=TEXT)
CLAUDE: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 99,
    "messages": HI,
    "tools": [{"name": "Bash", "input_schema": BASH}, {"name": "mcp__tiny__echo", "input_schema": ECHO}],
}
SEARCHING: dict[str, Any] = CLAUDE | {
    "messages": [{"role": "system", "content": "Deferred tools: WebFetch, mcp__tiny__echo, mcp__tiny__echoes"}, *HI],
    "tools": [{"name": "Bash", "input_schema": BASH}, {"name": "ToolSearch", "input_schema": _object()}],
}
OPENCODE: dict[str, Any] = {
    "model": "m",
    "messages": HI,
    "tools": [
        {
            "type": "function",
            "function": {"name": "bash", "parameters": BASH | {"required": ["command", "description"]}},
        },
        {"type": "function", "function": {"name": "tiny_echo", "parameters": ECHO}},
    ],
}
CODEX: dict[str, Any] = {
    "model": "m",
    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    "tools": [
        {"type": "function", "name": "exec_command", "parameters": _object("cmd", cmd=TEXT), "strict": False},
        {
            "type": "namespace",
            "name": "mcp__tiny",
            "description": "",
            "tools": [{"type": "function", "name": "echo", "parameters": ECHO, "strict": False}],
        },
    ],
}
OLD_CODEX: dict[str, Any] = CODEX | {
    "tools": [
        {
            "type": "function",
            "name": "shell",
            "parameters": _object("command", command={"type": "array", "items": TEXT}),
            "strict": False,
        }
    ]
}
GEMINI: dict[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "run_shell_command",
                    "parametersJsonSchema": _object("command", command=TEXT, description=TEXT),
                },
                {"name": "mcp_tiny_echo", "parametersJsonSchema": ECHO},
            ]
        }
    ],
}

PATHS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-x:generateContent",
}
STREAMED = PATHS | {"gemini": "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"}
BODIES: dict[str, dict[str, Any]] = {"anthropic": CLAUDE, "chat": OPENCODE, "responses": CODEX, "gemini": GEMINI}
