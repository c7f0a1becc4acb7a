"""An MCP server without any package: a line of JSON for each message. Most servers use an SDK."""

import json
import os
import sys

TOOL = {
    "name": "echo",
    "description": "Says it back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(method, given):
    if method == "initialize":
        about = {"name": "echo", "version": "1"}
        return {"protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [TOOL]}
    text = f"{given['arguments']['text']} (from {os.environ['GREETING']})"
    return {"content": [{"type": "text", "text": text}]}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
