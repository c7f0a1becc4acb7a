#!/usr/bin/env python3
"""Stands in for Claude Code where many are to work at once: it asks the model by the gateway, with all that it remembers.

It runs in sandboxes, and is found there as the program `claude`.
"""

import json
import os
import sys
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener


def main() -> None:
    """One run."""
    given = dict(zip(sys.argv, sys.argv[1:], strict=False))
    session = given.get("--resume") or given["--session-id"]
    memory = os.path.expanduser(f"~/.claude/projects/{session}.json")
    tell(type="system", subtype="init", session_id=session, model="fake-model")
    messages = [*remembered(memory), {"role": "user", "content": sys.stdin.read()}]
    with open(given["--append-system-prompt-file"], encoding="utf-8") as file:
        reply = asked(file.read(), messages)
    os.makedirs(os.path.dirname(memory), exist_ok=True)
    with open(memory, "w", encoding="utf-8") as file:
        json.dump([*messages, {"role": "assistant", "content": reply}], file)
    tell(type="assistant", message={"id": "1", "content": [{"type": "text", "text": reply}]})
    tell(type="result", subtype="success", is_error=False, result=reply, session_id=session, num_turns=1)


def remembered(memory: str) -> list[dict[str, Any]]:
    """What was said in this session."""
    if not os.path.exists(memory):
        return []
    with open(memory, encoding="utf-8") as file:
        return list(json.load(file))


def asked(system: str, messages: list[dict[str, Any]]) -> str:
    """What the model says."""
    body = {"model": "fake-model", "max_tokens": 100, "system": system, "messages": messages}
    headers = {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": os.environ["ANTHROPIC_API_KEY"],
    }
    request = Request(f"{os.environ['ANTHROPIC_BASE_URL']}/v1/messages", json.dumps(body).encode(), headers)
    with build_opener(ProxyHandler({})).open(request) as answer:
        return str(json.load(answer)["content"][0]["text"])


def tell(**what: Any) -> None:
    """A line, as Claude Code prints them."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
