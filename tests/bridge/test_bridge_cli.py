"""`paddock run --tool --mcp`, and `paddock tools`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.conftest import SERVER

TOOLS = '''
from beside import WORD

def echo(text: str, times: int = 1) -> str:
    """Say it again.

    And again."""
    return (text + WORD) * times

class NoTool: ...
'''
ASK = "\n".join(
    json.dumps({"jsonrpc": "2.0", **message})
    for message in (
        {
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "ab", "times": 2}}},
        {"id": 2, "method": "tools/call", "params": {"name": "m__add", "arguments": {"a": 1, "b": 2}}},
    )
)
MCP = f"m={sys.executable} -W ignore {SERVER}"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "beside.py").write_text("WORD = '!'")


def paddock(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "paddock", *words], input=stdin, capture_output=True, text=True, timeout=100
    )


@pytest.mark.parametrize("backend", ["local", "namespaces"])
def test_run(backend: str) -> None:
    words = ["run", "-q", "-b", backend, "--tool", "./tools.py:echo", "--mcp", MCP, 'paddock-bridge "$PADDOCK_BRIDGE"']
    done = paddock(*words, stdin=ASK)
    assert done.returncode == 0, done.stderr
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["content"][0]["text"] == "ab!ab!"
    assert answers[2]["content"][0]["text"] == "3"
    logged = paddock("logs", "--kind", "tool", "--operation", "call", "--json").stdout.splitlines()
    assert sorted(json.loads(line)["subject"] for line in logged) == ["echo", "m__add"]
    assert "ab!" not in "".join(logged)


def test_tools() -> None:
    done = paddock("tools", "./tools.py:echo", "--mcp", MCP)
    assert done.returncode == 0, done.stderr
    assert "echo\n  Say it again.\n" in done.stdout
    assert "  - times: integer, optional\n" in done.stdout
    assert "m__add\n  Two numbers in one.\n" in done.stdout
    found = json.loads(paddock("tools", "./tools.py:echo", "--json").stdout)["tools"]
    assert [(tool["name"], tool["consent"], tool["schema"]["required"]) for tool in found] == [
        ("echo", "allowed", ["text"])
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["./tools.py"], 125, "is no function"),
        (["./tools.py:nothing"], 125, "has no function 'nothing'"),
        (["./tools.py:NoTool"], 125, "has no function 'NoTool'"),
        (["./missing.py:echo"], 125, "is no Python file"),
        (["./broken.py:echo"], 125, "cannot be loaded: ZeroDivisionError"),
        (["--mcp", "'"], 125, "is no server"),
        (["--mcp", "/bin/false"], 125, "'false' cannot be used"),
        ([], 2, "name a function"),
    ],
)
def test_mistakes(words: list[str], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    done = paddock("tools", *words)
    assert done.returncode == code
    assert said in done.stderr


def test_a_sandbox_that_stays_has_nobody_to_serve_it() -> None:
    done = paddock("run", "--detach", "--tool", "./tools.py:echo", "true")
    assert (done.returncode, "--tool and --detach" in done.stderr) == (125, True)
