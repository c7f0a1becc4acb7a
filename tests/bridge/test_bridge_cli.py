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
    assert "  - times: integer, 1 unless given\n" in done.stdout
    assert "m__add\n  Two numbers in one.\n" in done.stdout
    found = json.loads(paddock("tools", "./tools.py:echo", "--json").stdout)["tools"]
    assert [(tool["name"], tool["consent"], tool["schema"]["required"]) for tool in found] == [
        ("echo", "allowed", ["text"])
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["./tools.py"], 125, "INVALID_CONFIG: './tools.py' is not FILE:NAME. "),
        (["./tools.py:nothing"], 125, "has no function 'nothing'"),
        (["./tools.py:NoTool"], 125, "has no function 'NoTool'"),
        (["./missing.py:echo"], 125, "is no Python file"),
        (["./broken.py:echo"], 125, "cannot be loaded: ZeroDivisionError"),
        (["./leaving.py:echo"], 125, "cannot be loaded: SystemExit: 3"),
        (["--mcp", "'"], 125, "is no server"),
        (["--mcp", "/bin/false"], 125, "'false' cannot be used"),
        ([], 2, "name a function"),
    ],
)
def test_mistakes(words: list[str], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "leaving.py").write_text("import sys; sys.exit(3)")
    done = paddock("tools", *words)
    assert done.returncode == code
    assert said in done.stderr


def test_a_sandbox_that_stays_has_nobody_to_serve_it() -> None:
    done = paddock("run", "--detach", "--tool", "./tools.py:echo", "true")
    assert (done.returncode, "--tool and --detach" in done.stderr) == (125, True)


WRITES_ITSELF = [
    "sh",
    "-c",
    "echo changed >> tools.py; mkdir -p __pycache__; echo x > __pycache__/beside.cpython-312.pyc",
]


@pytest.mark.parametrize(
    "words",
    [
        ["--workspace", ".", "--tool", "./tools.py:echo"],
        ["--workspace", ".", "--mcp", "python3 server.py"],
        ["--workspace", ".", "--mcp", "python3 -m server"],
        ["--workspace", ".", "--mcp", "python3 --file=server.py"],
        ["--root", ".", "--tool", "./workspace/tools.py:echo"],
        ["--cache", ".", "--tool", "./tools.py:echo"],
        ["--mount", ".:/data:rw", "--tool", "./tools.py:echo"],
        ["--workspace", "links", "--tool", "links/link.py:echo"],
        ["--workspace", ".", "--tool", "elsewhere/tools.py:echo"],
    ],
)
def test_what_the_sandbox_writes_is_not_run_here(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "elsewhere").symlink_to("/usr")  # where the sandbox could make it lead
    (tmp_path / "links" / "link.py").symlink_to(tmp_path / "tools.py")
    marked = TOOLS + "\nimport pathlib; pathlib.Path('loaded').touch()\n"
    for place in (tmp_path, tmp_path / "workspace"):
        (place / "tools.py").write_text(marked)
    (tmp_path / "server.py").write_text("import pathlib; pathlib.Path('loaded').touch()")
    done = paddock("run", "-b", "local", *words, "--", "true")
    assert done.returncode == 125
    assert "a directory that the sandbox writes to" in done.stderr
    assert "--review" in done.stderr
    assert not (tmp_path / "loaded").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--workspace", "work", "--tool", "./tools.py:echo"],
        ["--mount", "kept:/data:ro", "--tool", "kept/tools.py:echo"],
        ["--workspace", "work", "--mcp", MCP],
    ],
)
def test_what_it_cannot_write_is(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "tools.py").write_text("def echo() -> None: ...")
    done = paddock("run", "-b", "namespaces", *words, "--", "true")
    assert (done.returncode, done.stderr) == (0, "")


def test_under_review_a_granted_file_is_flagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (project / "tools.py").write_text("def echo() -> None: ...\n")
    (project / "other.py").write_text("1\n")
    words = [WRITES_ITSELF[0], WRITES_ITSELF[1], WRITES_ITSELF[2] + "; echo 2 >> other.py"]
    done = paddock("run", "--json", "--review", "--tool", "./tools.py:echo", "--", *words)
    assert done.returncode == 0, done.stdout
    changes = json.loads(done.stdout)["review"]["changes"]
    flagged = {change["path"]: change["flags"] for change in changes if change["kind"] == "file"}
    executable = ["executable configuration changed"]
    assert flagged == {
        "/workspace/tools.py": executable,
        "/workspace/other.py": [],
        "/workspace/__pycache__/beside.cpython-312.pyc": executable,
    }


def test_only_sources_are_loaded(tmp_path: Path) -> None:
    """What lies compiled beside them is neither read nor written, also when a function imports it later."""
    import importlib.util
    import os
    import py_compile

    (tmp_path / "tools.py").write_text("import beside\ndef echo() -> str:\n    import late\n    return late.WORD\n")
    for name in ("beside", "late"):
        source = tmp_path / f"{name}.py"
        source.write_text("import sys; sys.exit('planted')")
        py_compile.compile(str(source), doraise=True)
        times = os.stat(source)
        source.write_text("WORD = 'from its source'".ljust(times.st_size)[: times.st_size])
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert Path(importlib.util.cache_from_source(str(source))).exists()
    kept = sorted(path.name for path in (tmp_path / "__pycache__").iterdir())
    ask = ASK.replace('"arguments": {"text": "ab", "times": 2}', '"arguments": {}')
    done = paddock("run", "-q", "-b", "local", "--tool", "tools.py:echo", 'paddock-bridge "$PADDOCK_BRIDGE"', stdin=ask)
    assert "from its source" in done.stdout, done
    assert sorted(path.name for path in (tmp_path / "__pycache__").iterdir()) == kept


NOISY = """
import subprocess, sys
print("import")
def echo(text: str, times: int = 1) -> str:
    print("thread")
    subprocess.run(["echo", "program"])
    sys.stdout.write("written\\n")
    return text
async def later(text: str) -> str:
    print("loop")
    return text
"""


@pytest.mark.parametrize("as_json", [False, True])
def test_what_tools_print_is_no_output(as_json: bool, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(NOISY)
    ask = ASK.replace("m__add", "later").replace('{"a": 1, "b": 2}', '{"text": "x"}')
    words = ["run", "-q", "-b", "local", *["--json"] * as_json, "--tool", "tools.py:echo", "--tool", "tools.py:later"]
    done = paddock(*words, 'paddock-bridge "$PADDOCK_BRIDGE"', stdin=ask)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)["stdout"] if as_json else done.stdout
    assert {answer["id"] for answer in map(json.loads, output.splitlines())} == {0, 1, 2}
    assert all(word in done.stderr for word in ("import", "loop", "program", "thread", "written"))
    told = paddock("tools", "tools.py:echo", "--json")
    assert [tool["name"] for tool in json.loads(told.stdout)["tools"]] == ["echo"]


def test_terms_are_set_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "import sys\nfrom paddock import McpServer, Tool\n"
        "def f() -> str: ...\nshort = Tool(f, name='brief', timeout=3)\n"
        f"server = McpServer([sys.executable, '-W', 'ignore', {str(SERVER)!r}], name='s', only=['add'], timeout=4)\n"
    )
    done = paddock("tools", "tools.py:short", "tools.py:server", "--json")
    assert done.returncode == 0, done.stderr
    found = [(tool["name"], tool["timeout"]) for tool in json.loads(done.stdout)["tools"]]
    assert found == [("brief", 3), ("s__add", 4)]


def test_how_a_server_is_named_and_what_it_is_given() -> None:
    from paddock import ConfigError
    from paddock.cli.granting import _server

    one = _server("TOKEN=x OTHER='a b' python3 server.py")
    assert (one.server, one.env, one.called) == (("python3", "server.py"), {"TOKEN": "x", "OTHER": "a b"}, "server")
    one = _server("tickets=TOKEN=x python3 server.py A=b")
    assert (one.server, one.env, one.called) == (("python3", "server.py", "A=b"), {"TOKEN": "x"}, "tickets")
    assert _server("m=python3 server.py").called == "m"
    assert _server("SEARCH=https://mcp.example.org/mcp").called == "SEARCH"
    for wrong in ("TOKEN=x", "ftp://example.org", "x=ftp://example.org"):
        with pytest.raises(ConfigError, match=r"is no (server|URL)"):
            _server(wrong)


def test_types_in_words(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from typing import Literal\n"
        "def f(a: Literal['x', 'y'], b: int | None, c: list[str], d=None, e: str | None = None) -> None: ...\n"
    )
    done = paddock("tools", "tools.py:f")
    assert done.stdout.splitlines()[1:] == [
        '  - a: "x" | "y"',
        "  - b: integer | null",
        "  - c: array of string",
        "  - d: any, null unless given",
        "  - e: string | null, null unless given",
    ]
