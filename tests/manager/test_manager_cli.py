"""The commands over what a manager keeps, with one that runs beside them and without."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import detached
from manager.fakes import World
from paddock import sync
from paddock.cli.app import program
from paddock.manager.entries import Entries
from paddock.manager.reading import directory_of

PROGRAM = [sys.executable, "-m", "paddock"]
EVIL = "evil\x1b[2J\u202e"
WORK = f"""
async with Manager(backend="namespaces", policy="session") as m:
    lease = await m.get_or_create("alice", "leased", labels={{"team": "blue"}})
    await lease.sandbox.write("f", "x" * 5000)
    for chat, policy in (("stopped", "longrunning"), ("idle", "session"), ("once", "oneshot")):
        async with m.get_or_create({EVIL!r}, chat, policy=policy):
            pass
    await m.stop({EVIL!r}, "stopped")
    print("ready", flush=True)
    await asyncio.sleep(1000)
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def paddock(*words: str) -> Done:
    """A command, in this process: a program for each would take most of a minute."""
    result = CliRunner().invoke(program(), words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def objects(*words: str) -> list[dict[str, Any]]:
    done = paddock(*words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def manager() -> Iterator["subprocess.Popen[str]"]:
    """A manager at work in another process."""
    started = detached.program(WORK)
    assert detached.first_line(started) == "ready"
    yield started
    started.kill()
    started.communicate()
    detached.remove_all()
    assert detached.left() == []


def test_beside_a_manager(manager: "subprocess.Popen[str]") -> None:
    shown = paddock("ps").stdout
    assert shown.splitlines()[0].split() == [
        *("ID", "NAME", "BACKEND", "AGE", "ENDS", "USER", "CHAT", "POLICY", "STATE", "IDLE", "LABELS")
    ]
    assert shown.isascii()
    assert "evil\\x1b[2J\\u202e" in shown
    assert "paddock." not in shown
    kept = {one["managed"]["chat"]: one for one in objects("ps", "--json")}
    assert {chat: one["managed"]["state"] for chat, one in kept.items()} == {
        "leased": "running",
        "idle": "running",
        "stopped": "stopped",
    }
    assert kept["idle"]["managed"]["user"] == EVIL
    assert paddock("ps", "-q").stdout.split() == [kept["leased"]["id"], kept["idle"]["id"]]
    assert kept["stopped"]["id"] is None
    (told,) = objects("stats", "--json")
    assert (told["total"], told["manager"], told["workspaces"]) == (2, manager.pid, 4)
    assert told["states"] == {"running": 2, "stopped": 1}
    assert f"process {manager.pid}" in paddock("stats").stdout

    found = {one["chat"]: one for one in objects("workspaces", "list", "--json")}
    assert {chat: one["in_use"] for chat, one in found.items()} == {
        "leased": True,
        "idle": True,
        "stopped": False,
        "once": False,
    }
    listed = paddock("workspaces").stdout
    assert listed.isascii()
    assert len(listed.splitlines()) == 5
    assert objects("workspaces", "--json") == objects("workspaces", "list", "--json")
    assert paddock("workspaces", "--json", "show", found["leased"]["id"]).returncode == 2
    assert [one["chat"] for one in objects("workspaces", "list", "--user", "alice", "--json")] == ["leased"]
    (one,) = objects("workspaces", "show", found["leased"]["id"])
    assert (one["sandboxes"], one["labels"]) == ([kept["leased"]["id"]], {"team": "blue"})
    assert one["size"] > 5000

    would = paddock("clean", "--dry-run", "--older-than", "0.001")
    assert {line.split()[2] for line in would.stdout.splitlines()} == {found[c]["id"] for c in ("stopped", "once")}
    assert str(manager.pid) in would.stderr
    assert len(objects("workspaces", "list", "--json")) == 4
    assert paddock("clean").stdout == ""
    for force in ((), ("--force",)):
        done = paddock("workspaces", "rm", found["leased"]["id"], *force)
        assert (done.returncode, done.stdout) == (125, "")
        assert "CONFLICT" in done.stderr
    assert "CONFLICT" in paddock("workspaces", "rm", found["idle"]["id"]).stderr
    assert len(paddock("ps", "-q").stdout.split()) == 2  # nothing was ended for nothing
    assert paddock("workspaces", "rm", found["idle"]["id"], "--force").stdout.strip() == found["idle"]["id"]
    assert len(objects("clean", "--json", "--older-than", "0.001")) == 2
    assert [one["chat"] for one in objects("workspaces", "list", "--json")] == ["leased"]
    done = paddock("rm", "--user", EVIL)
    assert (done.returncode, str(manager.pid) in done.stderr) == (125, True)
    assert paddock("rm", "--user", "alice").returncode == 0
    assert paddock("ps", "-q").stdout == ""


def test_without_a_manager(manager: "subprocess.Popen[str]") -> None:
    manager.kill()
    manager.communicate()
    assert "none runs" in paddock("stats").stdout
    assert len(paddock("ps").stdout.splitlines()) == 4
    done = paddock("rm", "--user", EVIL, "--chat", "nothing")
    assert (done.returncode, done.stdout, done.stderr.split()[0]) == (125, "", "NOT_FOUND:")
    assert paddock("rm", "--user", EVIL).stdout.splitlines()[1:] == ["evil\\x1b[2J\\u202e/stopped"]
    assert [one["managed"]["user"] for one in objects("ps", "--json")] == ["alice"]
    (one,) = objects("workspaces", "list", "--json", "--user", "alice")
    assert paddock("workspaces", "rm", "--force", one["id"]).returncode == 0
    assert not Path(one["path"]).exists()
    assert paddock("workspaces", "rm", one["id"]).stderr.startswith("NOT_FOUND: ")
    assert paddock("ps", "-q").stdout == ""
    assert paddock("clean", "--older-than", "0.001").stdout.count("removed") == 3


def test_nothing_is_there(tmp_path: Path) -> None:
    assert len(paddock("workspaces").stdout.splitlines()) == 1
    assert "nothing was removed" in paddock("clean").stderr
    error = json.loads(paddock("workspaces", "show", "ws-none").stdout)["error"]
    assert error["code"] == "NOT_FOUND"
    for words, told in (
        (("clean", "--older-than", "soon"), "INVALID_CONFIG"),
        (("rm", "--chat", "7"), "--chat is only for --user"),
        (("rm", "--all", "--state", "."), "--state is only for --user"),
        (("rm", "--user", "a", "--all"), "--all and --user contradict"),
        (("rm", "--user", "a", "web"), "names of sandboxes and --user contradict"),
        (("rm", "--all", "web"), "names of sandboxes and --all contradict"),
        (("rm",), "Name sandboxes to end"),
        (("rm", "--user", "nobody"), "NOT_FOUND: The manager keeps nothing for 'nobody'"),
    ):
        done = paddock(*words)
        assert (done.returncode, done.stdout, told in done.stderr) == (125, "", True)
    assert os.listdir(tmp_path) == ["state"] or not (tmp_path / "state" / "manager").exists()


OVER_STATE = [
    ("ps",),
    ("stats",),
    ("workspaces", "list"),
    ("clean",),
    ("rm", "--user", "alice"),
    ("workspaces", "rm", "ws-none"),
]


@pytest.mark.parametrize("words", OVER_STATE, ids=" ".join)
def test_a_state_directory_that_is_none(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        done = paddock(*words, "--state", str(tmp_path / name))
        assert (done.returncode, done.stdout) == (125, "")
        assert done.stderr.startswith("NOT_FOUND: ")
        assert str(tmp_path / name) in done.stderr
    assert os.listdir(tmp_path) == ["empty"] or not (tmp_path / "missing").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("words", OVER_STATE[:4], ids=" ".join)
def test_a_state_directory_of_somebody_else(words: tuple[str, ...], world: World, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    with sync.Manager(other, backend="fake"):
        pass
    os.seteuid(200_000)
    try:
        done = paddock(*words, "--state", other)
    finally:
        os.seteuid(0)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith(f"PERMISSION_DENIED: The state directory '{other}'")


@pytest.mark.parametrize("words", [("ps",), ("stats",), ("workspaces", "list")], ids=lambda words: words[0])
def test_watching_ends_with_ctrl_c(words: tuple[str, ...]) -> None:
    started = subprocess.Popen([*PROGRAM, *words, "--watch", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    first = started.stdout.readline()
    while started.stdout.readline() != first:  # it comes again
        pass
    started.send_signal(signal.SIGINT)
    output, errors = started.communicate(timeout=detached.SECONDS)
    assert (started.returncode, errors) == (0, b"")
    assert b"\x1b" not in first + output
    for seconds in ("0", "inf", "nan", "1e10"):
        done = paddock(*words, "--watch", seconds)
        assert (done.returncode, "between 0.1 and 86400 seconds" in done.stderr) == (2, True)


def test_help_with_examples() -> None:
    shown = paddock("workspaces", "--help").stdout
    assert "Without a command they are listed" in shown
    assert "paddock workspaces list --user alice --watch 5" in shown
    assert "  workspaces  List, show and remove the workspaces of a manager.\n" in paddock("--help").stdout


def chats(directory: Path) -> list[str]:
    return sorted(entry.chat for entry in Entries(directory).read())


def test_rm_is_about_one_manager(world: World, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    stuck = {}
    for where in (None, other):
        with sync.Manager(where, backend="fake", policy="longrunning", sweep_every=None) as m:
            for chat in ("runs", "stopped", "stuck"):
                with m.get_or_create("alice", chat) as lease:
                    stuck[where] = lease.sandbox.id
            m.stop("alice", "stopped")
    assert [one["id"] for one in objects("ps", "--json", "--state", other)].count(None) == 1
    world.stuck.add(stuck[None])
    done = paddock("rm", "--user", "alice")
    assert (done.returncode, len(done.stdout.split()), done.stdout.split()[-1]) == (125, 2, "alice/stopped")
    assert chats(directory_of(None)) == ["stuck"]  # it runs, and is known
    assert chats(directory_of(other)) == ["runs", "stopped", "stuck"]
    assert len(world.held) == 3
    world.stuck.clear()
    assert paddock("rm", "--user", "alice", "--chat", "runs", "--state", other).returncode == 0
    assert chats(directory_of(other)) == ["stopped", "stuck"]
    assert paddock("rm", "--user", "alice").returncode == 0
    ended, forgotten = objects("rm", "--json", "--user", "alice", "--state", other)
    assert ended == {"action": "end", "sandbox": stuck[other], "user": None, "chat": None}
    assert forgotten == {"action": "forget", "sandbox": None, "user": "alice", "chat": "stopped"}
    assert (chats(directory_of(None)), chats(directory_of(other)), world.held) == ([], [], {})
    assert paddock("rm", "--all", "--state", other).returncode == 125


def test_rm_says_what_a_manager_still_knows(world: World) -> None:
    with sync.Manager(backend="fake", policy="longrunning", sweep_every=None) as m:
        for policy in ("session", "longrunning"):
            with m.get_or_create("alice", policy, policy=policy):
                pass
        assert paddock("rm", "--user", "alice", "--chat", "session").returncode == 0
        done = paddock("rm", "--user", "alice", "--chat", "longrunning")
        assert (done.returncode, str(os.getpid()) in done.stderr, world.held) == (125, True, {})
        m.sweep()
        assert [(info.chat, info.state) for info in m.list()] == [("longrunning", "stopped")]


def test_clean_asks_the_engine(world: World) -> None:
    with (
        sync.Manager(backend="elsewhere", policy="session", sweep_every=None) as m,
        m.get_or_create("alice", "chat") as lease,
    ):
        pass
    assert paddock("clean", "--older-than", "0.001").stdout == ""
    world.gone.add(lease.sandbox.id)
    assert paddock("clean", "--older-than", "0.001", "--dry-run").stdout.startswith("would remove ws-")
    assert paddock("clean", "--older-than", "0.001").stdout.startswith("removed ws-")
