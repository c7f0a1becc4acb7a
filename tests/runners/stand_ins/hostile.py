"""An agent that does not keep to the protocol. It needs no library, and says what it likes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def say(line: dict[str, Any] | str) -> None:
    """A line of it."""
    sys.stdout.write(line if isinstance(line, str) else json.dumps({"jsonrpc": "2.0", **line}) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    """A line of Paddock's."""
    heard: dict[str, Any] = json.loads(sys.stdin.readline())
    return heard


def answer(result: dict[str, Any]) -> None:
    """To the next line."""
    say({"id": hear()["id"], "result": result})


def update(kind: str, **more: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": kind, **more}}}


def text(words: str) -> dict[str, Any]:
    return update("agent_message_chunk", content={"type": "text", "text": words})


def begin() -> None:
    answer({"protocolVersion": 1})
    answer({"sessionId": "s"})


def noisy() -> None:
    """Every kind of line that means nothing, and then a reply."""
    begin()
    asked = hear()["id"]
    say("no JSON \x1b[31m\n")
    say('"a text"\n[1, 2]\n\n{}\n{"id": [1]}\n{"id": null, "result": 1}\n{"method": 7, "id": 1}\n')
    say("[" * 100_000 + "\n")
    say('{"id": 2, "deep": ' + '{"a":' * 100_000 + "1" + "}" * 100_001 + "\n")
    say("x" * (51 << 20) + "\n")
    say({"id": "no such thing", "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
    assert hear() == {
        "jsonrpc": "2.0",
        "id": "no such thing",
        "error": {"code": -32601, "message": "Paddock offers no such thing."},
    }
    say({"id": asked + 1, "result": {"stopReason": "end_turn"}})
    say({"id": {"a": 1}, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
    say({"id": "x" * 300, "method": "session/request_permission", "params": 7})
    say(update("from_the_future", more=[1]))
    nothing: list[Any] = [
        None,
        7,
        [],
        {"sessionUpdate": None},
        {"sessionUpdate": "tool_call"},
        {"sessionUpdate": "plan"},
    ]
    for broken in nothing:
        say({"method": "session/update", "params": {"sessionId": "s", "update": broken}})
    say({"method": "session/update", "params": {"sessionId": "another", "update": text("x")["params"]["update"]}})
    say(text("fine"))
    say({"id": asked, "result": {"stopReason": "end_turn", "usage": {"inputTokens": float("nan"), "outputTokens": -1}}})


def deaf() -> None:
    """Asks on and on, and never reads the answers."""
    begin()
    params = {"sessionId": "s", "options": [{"kind": "allow_once", "optionId": "x" * 10_000}], "toolCall": {}}
    for number in range(10_000):
        say({"id": number, "method": "session/request_permission", "params": params})
    time.sleep(1000)


def stubborn() -> None:
    """The child of the program that was started: it minds neither the end of its input nor a signal."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if len(sys.argv) == 2:
        subprocess.run([sys.executable, __file__, "stubborn", "child"], check=False)
        return
    begin()
    asked = hear()["id"]
    subprocess.Popen(["sleep", "1000"], start_new_session=True)  # as a tool would leave a server
    say(text("done"))
    say({"id": asked, "result": {"stopReason": "end_turn"}})
    while True:
        time.sleep(1000)


def another_version() -> None:
    answer({"protocolVersion": 2})
    time.sleep(1000)


def gone() -> None:
    """Ends without a word, as a program does that knows no such option."""
    hear()
    print("unknown option: --acp", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    ways: dict[str, Callable[[], None]] = {
        "noisy": noisy,
        "deaf": deaf,
        "stubborn": stubborn,
        "another_version": another_version,
        "gone": gone,
    }
    ways[sys.argv[1]]()
    os._exit(0)
