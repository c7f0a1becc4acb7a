"""The scripted agent: it does what its prompt says, a line at a time, and needs no model. It runs inside a sandbox.

It imports nothing of Paddock's, since a sandbox does not see that. What it prints is Paddock's own events, a line each.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

WORDS = (
    "say TEXT",
    "think TEXT",
    "run COMMAND",
    "write PATH TEXT",
    "use TOOL JSON",
    "wait SECONDS",
    "recall",
    "fail TEXT",
)
HELP = f"I am the scripted agent, and do what my lines say:\n{', '.join(WORDS)}."
MOST = 100_000


def main() -> None:
    """Play the script on standard input."""
    memory, bridge = sys.argv[1], sys.argv[2:]
    script = sys.stdin.read()
    before = remembered(memory)
    tell("started", agent="scripted", session=os.path.basename(memory), resumed=bool(before))
    with open(memory, "a", encoding="utf-8") as file:  # before it acts: one that is interrupted was told all the same
        file.write(script.rstrip("\n") + "\n")
    actor = Actor(before, bridge)
    for line in script.splitlines():
        if line.strip():
            actor.act(line.strip())
    tell("done", text=actor.reply, session=os.path.basename(memory), turns=1)


def remembered(memory: str) -> str:
    """What it was told before, in this conversation."""
    os.makedirs(os.path.dirname(memory), exist_ok=True)
    try:
        with open(memory, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


class Actor:
    """Does what lines say."""

    def __init__(self, before: str, bridge: list[str]) -> None:
        self.reply = ""
        self._before = before
        self._bridge = bridge
        self._calls = 0

    def act(self, line: str) -> None:
        """One line."""
        word, _, rest = line.partition(" ")
        acts = {
            "say": self._say,
            "think": lambda text: tell("thinking", text=text),
            "run": self._run,
            "write": self._write,
            "use": self._use,
            "wait": lambda text: time.sleep(float(text)),
            "recall": lambda _: self._say(self._before or "nothing"),
            "fail": fail,
        }
        try:
            acts.get(word, lambda _: self._say(HELP))(rest)
        except ValueError as error:
            fail(f"'{line}' is no line of mine: {error}")

    def _say(self, text: str) -> None:
        self.reply = text.strip()
        for word in pieces(f"{text}\n"):
            tell("text", text=word)

    def _run(self, command: str) -> None:
        call = self._called("run", {"command": command})
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, errors="replace", check=False)
        output = (done.stdout + done.stderr)[:MOST]
        tell("tool_result", id=call, output=output, failed=done.returncode != 0)

    def _write(self, rest: str) -> None:
        path, _, text = rest.partition(" ")
        call = self._called("write", {"path": path})
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("\\n", "\n"))
            tell("tool_result", id=call, output=f"wrote {path}")
        except OSError as error:
            tell("tool_result", id=call, output=str(error), failed=True)

    def _use(self, rest: str) -> None:
        tool, _, given = rest.partition(" ")
        arguments = json.loads(given or "{}")
        call = self._called(tool, arguments)
        try:
            output, failed = asked(self._bridge, tool, arguments)
        except (OSError, ValueError, KeyError, StopIteration) as error:
            output, failed = f"{type(error).__name__}: {error}", True
        tell("tool_result", id=call, output=output, failed=failed)

    def _called(self, name: str, given: dict[str, Any]) -> str:
        self._calls += 1
        call = f"call-{self._calls}"
        tell("tool_call", id=call, name=name, input=given)
        return call


def asked(bridge: list[str], tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """What a granted tool of the host answers."""
    if not bridge:
        return "no tools are granted", True
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "scripted", "version": "1"}}
    requests: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ]
    with subprocess.Popen(bridge, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        for request in requests:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")  # type: ignore[union-attr]
        server.stdin.flush()  # type: ignore[union-attr]
        answers = (json.loads(line) for line in server.stdout or ())
        answer = next(found for found in answers if found.get("id") == 2)
        server.stdin.close()  # type: ignore[union-attr]
    if "error" in answer:
        return str(answer["error"]["message"]), True
    texts = [str(part.get("text", "")) for part in answer["result"]["content"]]
    return "\n".join(texts), bool(answer["result"].get("isError"))


def pieces(text: str) -> Iterator[str]:
    """A text word by word, as models give it."""
    for word in text.split(" "):
        yield word if word.endswith("\n") else f"{word} "


def tell(kind: str, **what: Any) -> None:
    """An event."""
    sys.stdout.write(json.dumps({"kind": kind, **what}) + "\n")
    sys.stdout.flush()


def fail(words: str) -> None:
    """End badly."""
    raise SystemExit(words)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main()
