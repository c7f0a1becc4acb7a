"""`paddock run --detach`, `ps`, `exec`, `attach`, `cp` and `rm`, as a user runs them."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import detached
from paddock import Sandbox
from test_cli_commands import Screen

PROGRAM = [sys.executable, "-c", "from paddock.cli import main; main()"]
RUN = ("run", "--backend", "namespaces", "--detach")


def paddock(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, timeout=90, check=False, input=stdin)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def started(*arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(autouse=True)
def nothing_of_them_is_left() -> Iterator[None]:
    yield
    detached.remove_all()
    assert detached.left() == []


@pytest.fixture
def web() -> str:
    """A sandbox that runs, named web; its id."""
    done = paddock(*RUN, "--name", "web", "--label", "team=blue", "--env", "WHO=me")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_end_of_its_lifetime_is_told() -> None:
    done = paddock("run", "--backend", "namespaces", "--lifetime", "1", "--", "sleep", "1000")
    assert (done.returncode, done.stderr) == (137, "note: the limit on lifetime ended the command\n")


def test_from_beginning_to_end() -> None:
    done = paddock(
        *RUN, "--name", "web", "--lifetime", "8h", "--idle-timeout", "30m", "--", "echo begun; exec sleep 1000"
    )
    assert (done.returncode, done.stderr) == (0, "")
    id = done.stdout.strip()
    header, row = paddock("ps").stdout.splitlines()
    assert header.split() == ["ID", "NAME", "BACKEND", "AGE", "ENDS", "LABELS"]
    assert row.split()[:3] == [id, "web", "namespaces"]
    assert "in 7h 59m, idle 30m" in row
    assert "sleep" in paddock("exec", "web", "cat /proc/[0-9]*/comm").stdout
    assert paddock("rm", "web").stdout == "web\n"
    assert len(paddock("ps").stdout.splitlines()) == 1


def test_as_json() -> None:
    told = json.loads(paddock(*RUN, "--json", "--label", "a=b", "--", "sleep", "1000").stdout)
    assert (told["name"], told["backend"]) == (None, "namespaces")
    assert told["pid"] > 1
    (line,) = paddock("ps", "--json").stdout.splitlines()
    shown = json.loads(line)
    assert (shown["id"], shown["labels"]) == (told["sandbox"], {"a": "b"})
    again = json.loads(paddock(*RUN, "--json").stdout)
    assert again["pid"] is None
    error = json.loads(paddock("exec", "--json", "nobody", "true").stdout)["error"]
    assert error["code"] == "NOT_FOUND"


def test_what_contradicts_detaching() -> None:
    for option in (("--tty",), ("--timeout", "5")):
        done = paddock(*RUN, *option, "--", "true")
        assert done.returncode == 125
        assert "--detach" in done.stderr
    done = paddock("run", "--backend", "local", "--detach", "--", "true")
    assert done.returncode == 125
    assert "UNSUPPORTED" in done.stderr
    assert paddock(*RUN, "--label", "no value").returncode == 125


def test_a_name_that_is_taken(web: str) -> None:
    done = paddock(*RUN, "--name", "web")
    assert done.returncode == 125
    assert done.stderr.startswith("EXISTS: ")
    assert web in done.stderr
    assert "paddock rm web" in done.stderr


def test_a_command_that_is_not_there_is_known_by_its_output() -> None:
    assert paddock(*RUN, "--name", "web", "--", "no-such-program", "at", "all").returncode == 0
    assert paddock("attach", "web").returncode == 125  # it has ended


# exec


def test_exec(web: str) -> None:
    done = paddock("exec", "web", "echo $WHO; echo no >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "me\n", "no\n")
    assert paddock("exec", web, "echo", "$WHO").stdout == "$WHO\n"
    assert paddock("exec", "web", "cat", stdin=b"through").stdout == "through"
    assert paddock("exec", "--env", "WHO=you", "-w", "/tmp", "web", "echo $WHO; pwd").stdout == "you\n/tmp\n"
    told = json.loads(paddock("exec", "--json", "web", "echo out").stdout)
    assert (told["stdout"], told["exit_code"], told["sandbox"]) == ("out\n", 0, web)
    done = paddock("exec", "--timeout", "0.2", "web", "sleep 1000")
    assert done.returncode == 124
    assert len(asyncio.run(_processes("web"))) == 0
    assert paddock("exec", "--tty", "web", "true").returncode == 125
    assert paddock("exec", "--tty", "--json", "web", "true").returncode == 125
    assert paddock("exec", "web").returncode == 2


async def _processes(name: str) -> list[int]:
    async with Sandbox.connect(name) as sb:
        return [info.pid for info in await sb.processes()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_exec_is_interrupted(number: int, web: str) -> None:
    program = started("exec", "web", "echo ready; exec sleep 1000")
    assert program.stdout is not None
    assert program.stdout.readline() == b"ready\n"
    program.send_signal(number)
    assert program.wait(detached.SECONDS) == 128 + number
    program.communicate()
    assert asyncio.run(_processes("web")) == []


def test_exec_on_a_terminal(web: str) -> None:
    screen = Screen([*PROGRAM, "exec", "--tty", "web", "sh -i"])
    try:
        screen.until("$ ")
        screen.type("test -t 0 && echo is''a-terminal $TERM $WHO\n")
        screen.until("isa-terminal xterm me")
        screen.type("exit 5\n")
        assert screen.ends() == 5
    finally:
        screen.close()


# attach


def test_attach() -> None:
    paddock(
        *RUN, "--name", "web", "--", "echo kept; read line < /tmp/go || mkfifo /tmp/go && read line < /tmp/go; exit 4"
    )
    program = started("attach", "web")
    assert program.stdout is not None
    assert program.stdout.readline() == b"kept\n"
    program.send_signal(signal.SIGINT)
    assert program.wait(detached.SECONDS) == 130
    program.communicate()
    program = started("attach", "web")
    assert program.stdout is not None
    assert program.stdout.readline() == b"kept\n"
    paddock("exec", "web", "echo x > /tmp/go")
    assert program.wait(detached.SECONDS) == 4
    program.communicate()
    done = paddock("attach", "web")
    assert done.returncode == 125
    assert "No command runs there" in done.stderr
    assert paddock("attach", "web", "4711").stderr.startswith("NOT_FOUND: ")


def test_attach_to_one_that_has_ended() -> None:
    """Nobody was there to see it: it is shown once."""
    words = ("--name", "web", "--json", "--", "mkfifo /tmp/go; echo kept; read line < /tmp/go; echo why >&2; exit 4")
    pid = json.loads(paddock(*RUN, *words).stdout)["pid"]
    paddock(
        "exec",
        "web",
        f"until [ -p /tmp/go ]; do sleep 0.05; done; echo > /tmp/go; while [ -e /proc/{pid} ]; do sleep 0.05; done",
    )
    done = paddock("attach", "web")
    assert (done.returncode, done.stdout, done.stderr) == (4, "kept\n", "why\n")
    assert "No command runs there" in paddock("attach", "web").stderr


def test_one_that_ends_at_once_is_kept_for_attach() -> None:
    """Always, and never told by `run`, or a script would not know where to look."""
    for number in range(5):
        told = paddock(*RUN, "--name", f"web{number}", "--", "echo soon; echo why >&2; exit 3")
        assert (told.returncode, told.stderr) == (0, "")
        attached = paddock("attach", f"web{number}")
        assert (attached.returncode, attached.stdout, attached.stderr) == (3, "soon\n", "why\n")


def test_one_that_cannot_be_run_is_told() -> None:
    done = paddock(*RUN, "--", "no-such-program", "at", "all")
    assert (done.returncode, done.stdout.startswith("sb-")) == (0, True)
    assert "no-such-program" in done.stderr
    assert "exit code 127" in done.stderr


# cp


def test_cp_of_what_is_not_here(web: str) -> None:
    done = paddock("cp", "./nope", "web:x")
    assert (done.returncode, done.stderr) == (125, "NOT_FOUND: There is no './nope' here. Check the path.\n")


def test_cp(web: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "f.txt").write_text("deep")
    single = tmp_path / "one.txt"
    single.write_text("one")
    assert paddock("cp", str(single), "web:two.txt").returncode == 0
    assert paddock("cp", str(single), "web:/workspace").returncode == 0
    assert paddock("cp", str(tree), f"{web}:/workspace/").returncode == 0
    assert paddock("exec", "web", "cat one.txt two.txt tree/below/f.txt").stdout == "oneonedeep"
    assert paddock("cp", "web:tree", str(tmp_path / "copy")).returncode == 0
    assert (tmp_path / "copy/below/f.txt").read_text() == "deep"
    assert paddock("cp", "web:/workspace/tree/below/f.txt", str(tmp_path)).returncode == 0
    assert (tmp_path / "f.txt").read_text() == "deep"
    for target, missing in (("no/dir/", "no/dir"), ("no/f.txt", "no"), ("f.txt/", "f.txt")):
        refused = paddock("cp", "web:one.txt", f"{tmp_path}/{target}")
        told = f"NOT_FOUND: There is no directory '{tmp_path}/{missing}'. Make it first.\n"
        assert (refused.returncode, refused.stderr) == (125, told)
    assert not (tmp_path / "no").exists()
    assert paddock("cp", "web:one.txt", f"{tmp_path}/copy/").returncode == 0
    assert (tmp_path / "copy/one.txt").read_text() == "one"
    odd = tmp_path / "a:b"
    odd.write_text("odd")
    done = subprocess.run([*PROGRAM, "cp", "./a:b", "web:odd"], cwd=tmp_path, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert paddock("exec", "web", "cat odd").stdout == "odd"


def test_cp_of_nonsense(web: str, tmp_path: Path) -> None:
    for words in (("a", "b"), ("web:a", "web:b")):
        done = paddock("cp", *words)
        assert done.returncode == 125
        assert "SANDBOX:PATH" in done.stderr
    assert paddock("cp", "web:missing", str(tmp_path)).stderr.startswith("NOT_FOUND: ")
    assert paddock("cp", str(tmp_path / "missing"), "web:x").stderr.startswith("NOT_FOUND: ")
    assert paddock("cp", "web:/etc/passwd", str(tmp_path)).stderr.startswith("OUTSIDE: ")
    assert os.listdir(tmp_path) == ["state"]


# ps, rm, logs


def test_labels_choose_and_are_shown_harmlessly(web: str) -> None:
    evil = paddock(*RUN, "--label", "evil=\x1b[2Jred\u202e").stdout.strip()
    assert paddock("ps", "-q", "--label", "team=blue").stdout == f"{web}\n"
    assert paddock("ps", "--quiet").stdout.split() == [web, evil]
    shown = paddock("ps").stdout
    assert "evil=\\x1b[2Jred\\u202e" in shown
    assert shown.isascii()


def test_rm(web: str) -> None:
    other = paddock(*RUN, "--name", "other").stdout.strip()
    done = paddock("rm", "web", "nobody\x1b", other)
    assert (done.returncode, done.stdout) == (125, f"web\n{other}\n")
    assert "nobody\\x1b" in done.stderr
    assert paddock("ps", "-q").stdout == ""
    for _ in range(2):
        paddock(*RUN)
    assert len(paddock("rm", "--all").stdout.splitlines()) == 2
    assert paddock("rm", "--all").returncode == 0
    for words in ((), ("--all", "web")):
        assert paddock("rm", *words).returncode == 125


def test_the_log_by_name(web: str) -> None:
    paddock("exec", "web", "true")
    lines = [json.loads(line) for line in paddock("logs", "--json", "--sandbox", "web").stdout.splitlines()]
    assert {line["sandbox"] for line in lines} == {web}
    assert [line["operation"] for line in lines] == ["create", "close", "connect", "start", "close"]
    paddock("rm", "web")
    lines = [json.loads(line) for line in paddock("logs", "--json", "--sandbox", web).stdout.splitlines()]
    assert lines[-1]["operation"] == "remove"


SERVER = """
import socket
s = socket.create_server(("127.0.0.1", 8000))
while True: s.accept()[0].sendall(b"hi")
"""
SERVE = ("python3", "-c", SERVER)


def answer(url: str) -> bytes:
    """What is said there, once somebody listens inside."""
    port = int(url.strip().rstrip("/").rpartition(":")[2])
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", port), 30) as there:
            if said := there.recv(9):
                return said
        time.sleep(0.1)
    return b""


def test_a_port_of_one_is_reached_until_ctrl_c() -> None:
    assert paddock(*RUN, "--name", "web", "--", *SERVE).returncode == 0
    with started("expose", "web", "8000") as program:
        assert program.stdout is not None
        url = program.stdout.readline().decode()
        assert url.startswith("http://127.0.0.1:")
        assert answer(url) == b"hi"
        program.send_signal(signal.SIGINT)
        assert (program.wait(60), program.communicate()) == (0, (b"", b""))
    with pytest.raises(ConnectionRefusedError):
        answer(url)
    with started("expose", "web", "8000") as program:
        assert program.stdout is not None
        assert program.stdout.readline()
        assert paddock("rm", "web").returncode == 0
        assert program.wait(60) == 125


def test_a_port_while_a_command_runs() -> None:
    with started("run", "--backend", "namespaces", "--expose", "8000", "--", *SERVE) as program:
        assert program.stderr is not None
        told = program.stderr.readline().decode()
        assert told.startswith("port 8000 inside is http://127.0.0.1:")
        assert answer(told) == b"hi"
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
    done = paddock(*RUN, "--expose", "8000", "--", "true")
    assert (done.returncode, "--expose and --detach" in done.stderr) == (125, True)
