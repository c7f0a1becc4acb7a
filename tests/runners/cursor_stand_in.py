"""Speaks as Cursor's agent is documented to, and does what its prompt says, a line each:

think WORDS, say WORDS, run COMMAND, recall, refuse, fail WORDS, vanish, wait SECONDS
"""

import argparse
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

SESSION = {"session_id": ""}


def tell(**line: Any) -> None:
    print(json.dumps({**line, **SESSION}), flush=True)


def stamp() -> int:
    return int(time.time() * 1000)


def options() -> argparse.Namespace:
    """Unknown ones are an error, as with the real one."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("-p", "--stream-partial-output", "--force", "--trust", "--approve-mcps"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--output-format", "--workspace", "--mode", "--model", "--resume"):
        parser.add_argument(flag)
    return parser.parse_args()


def say(words: str, *, last: bool) -> None:
    """In pieces, and then once more as a whole: before a tool with the call's id, at the end without a time."""
    middle = len(words) // 2
    for piece in (words[:middle], words[middle:]):
        tell(type="assistant", message=_message(piece), timestamp_ms=stamp())
    more: dict[str, Any] = {} if last else {"model_call_id": str(uuid.uuid4()), "timestamp_ms": stamp()}
    tell(type="assistant", message=_message(words), **more)


def _message(words: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": words}]}


def run(command: str) -> None:
    call = f"call_{uuid.uuid4().hex}\nfc_1"
    args = {"command": command, "timeout": 30000}
    tell(type="tool_call", subtype="started", call_id=call, tool_call={"shellToolCall": {"args": args}})
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    came = {"exitCode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    result = {"success" if done.returncode == 0 else "failure": came}
    tell(
        type="tool_call",
        subtype="completed",
        call_id=call,
        tool_call={"shellToolCall": {"args": args, "result": result}},
    )


def play(lines: list[str], before: list[str]) -> list[str]:
    said = []
    for at, line in enumerate(lines):
        word, _, rest = line.partition(" ")
        if word in ("say", "recall"):
            said.append(rest if word == "say" else "\n".join(before) or "nothing")
            say(said[-1], last=at == len(lines) - 1)
        elif word == "think":
            tell(type="thinking", subtype="delta", text=rest, timestamp_ms=stamp())
            tell(type="thinking", subtype="completed", timestamp_ms=stamp())
        elif word == "run":
            run(rest)
        elif word == "wait":
            time.sleep(float(rest))
        elif word == "fail":
            sys.exit(rest)
        elif word == "vanish":
            sys.exit(0)
        elif word == "refuse":
            tell(type="result", subtype="error", is_error=True, result=rest)
            sys.exit(1)
    return said


def main() -> None:
    chosen = options()
    if not chosen.trust:
        print("Workspace Trust Required", file=sys.stderr, flush=True)
        time.sleep(600)
    if not os.environ.get("CURSOR_API_KEY"):
        sys.exit("Error: Authentication required. Please run 'agent login' first, or set CURSOR_API_KEY.")
    prompt = sys.stdin.buffer.read().decode()
    chats = Path.home() / ".cursor" / "chats"
    chat = chats / (chosen.resume or str(uuid.uuid4()))
    if chosen.resume and not chat.exists():
        sys.exit(f"Chat {chosen.resume} not found")
    SESSION["session_id"] = chat.name
    tell(
        type="system",
        subtype="init",
        apiKeySource="env",
        cwd=os.getcwd(),
        model=chosen.model or "Auto",
        permissionMode="default",
    )
    tell(type="user", message={"role": "user", "content": [{"type": "text", "text": prompt}]})
    before = chat.read_text().splitlines() if chat.exists() else []
    chats.mkdir(parents=True, exist_ok=True)
    with chat.open("a") as file:
        file.write(prompt + "\n")
    said = play(prompt.splitlines(), before)
    tell(type="result", subtype="success", is_error=False, duration_ms=5, result="".join(said), request_id="r")


if __name__ == "__main__":
    main()
