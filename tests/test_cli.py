"""The command line, as a user runs it. What needs real commands is in test_cli_commands.py."""

import asyncio
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import forbidding
import paddock
from paddock import Sandbox, cli
from paddock.audit import AuditLog
from paddock.cli.app import program
from paddock.cli.escapes import Attempt, attempts
from paddock.config import OPTIONS
from paddock.errors import ConfigError

PROGRAM = [sys.executable, "-c", "from paddock.cli import main; main()"]


def paddock_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60
    )


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, which is faster."""
    done = CliRunner().invoke(program(), arguments, prog_name="paddock")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def test_demo() -> None:
    result = paddock_program("demo")
    assert result.returncode == 0, result.stderr
    for words in ("a sandbox on namespaces", "OUTSIDE", "READ_ONLY", "µs", "close"):
        assert words in result.stdout
    refused = re.findall(r"^  command     (.*) → (.*)$", result.stdout, re.MULTILINE)
    assert len(refused) == len(list(attempts())) + 1
    told = dict(refused)
    assert told["read the host's passwords"] == "cat: /etc/shadow: No such file or directory"
    assert told["read your environment"] == "PADDOCK_DEMO_SECRET is not set"
    assert told["end your program"].endswith(("No such process", "of its own here"))
    assert told["change the system"].endswith("Read-only file system")
    assert told["reach the network"].endswith("Network is unreachable")
    assert told["start processes without end"].startswith("no more than 64")
    assert "\x1b" not in result.stdout
    for words in ("The scripted agent works on", "ok          run: cat notes.txt", "+    return sum(prices)\n"):
        assert words in result.stdout
    (program,) = re.findall(r"^  try +(\S+).* agent scripted ", result.stdout, re.MULTILINE)
    assert shutil.which(program)


def test_demo_where_nothing_isolates() -> None:
    """It says why, in the words of doctor, and shows the rest."""
    done = forbidding.run("-m", "paddock", "demo")
    assert done.returncode == 0, done.stderr
    assert "No isolation can be had here: User namespaces are forbidden here: " in done.stdout
    assert "sysctl user.max_user_namespaces=10000" in done.stdout
    assert "a sandbox on local" in done.stdout
    assert "commands    not tried: nothing" in done.stdout


def test_a_demo_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that is not refused is an error, and not a green line."""
    monkeypatch.setattr("paddock.cli.tour.attempts", lambda: [Attempt("do nothing", "true")])
    with pytest.raises(AssertionError, match="do nothing was not refused"):
        called("demo")


def test_one_backend() -> None:
    result = paddock_program("demo", "--backend", "memory")
    assert result.returncode == 0
    assert "a sandbox on memory" in result.stdout
    assert "command  " not in result.stdout


def test_a_backend_that_is_not_there() -> None:
    result = paddock_program("demo", "--backend", "docker")
    assert result.returncode == 125
    assert "UNAVAILABLE" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_help_and_version() -> None:
    assert f"paddock {paddock.__version__}" in paddock_program("--version").stdout
    shown = paddock_program("--help").stdout
    assert "demo" in shown
    assert "--backend" in paddock_program("demo", "-h").stdout


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "paddock", "--version"], capture_output=True, text=True, check=True)
    assert paddock.__version__ in done.stdout


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "paddock.cli.app", raising=False)
    with pytest.raises(SystemExit, match=r"paddock\[cli\]"):
        cli.main()


@pytest.mark.parametrize(
    "command",
    ["run", "shell", "agent", "agents", "ps", "exec", "attach", "cp", "rm", "logs", "doctor", "config", "demo"],
)
def test_every_command_explains_itself(command: str) -> None:
    shown = called(command, "--help").stdout
    assert f"paddock {command}" in shown
    assert "\x1b" not in shown
    assert command in called().stdout + called().stderr


# run and shell, as far as they go without real commands


def test_run_where_there_is_no_such_command() -> None:
    done = paddock_program("run", "--backend", "memory", "--", "ls", "-l")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.startswith("ls: command not found")


def test_run_as_json() -> None:
    done = paddock_program("run", "--backend", "memory", "--json", "ls")
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (127, "")
    assert told["exit_code"] == 127
    assert "ls: command not found" in told["stderr"]
    assert told["isolation"]["files"]["enforced"] is True


def test_the_default_backend() -> None:
    done = called("run", "--json", "true")
    told = json.loads(done.stdout)
    assert (done.returncode, told["backend"]) == (0, "namespaces")
    assert all(told["isolation"][part]["enforced"] for part in ("files", "processes", "network", "syscalls"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--backend", "nowhere"], "There is no backend 'nowhere'"),
        (["--timeout", "soon"], "--timeout='soon' is not a time"),
        (["--max-output", "lots"], "--max-output='lots' is not a size"),
        (["--cpu", "-1"], "--cpu=-1 is not a positive number"),
        (["--memory", "lots"], "--memory='lots' is not a size"),
        (["--backend", "namespaces", "--memory", "1k"], "Memory of 1024 bytes is too little"),
        (["--mount", "nothing"], "--mount='nothing' is not a mount"),
        (["--mount", "/no/such:/data"], "The backend 'memory' shows no host directories"),
        (["--backend", "local", "--mount", "no/such:/data"], "There is no directory 'no/such' to mount at '/data'"),
        (["--backend", "local", "--mount", "/etc/passwd:/data"], "only directories can be mounted"),
        (["--mount", "/usr:relative"], "absolute sandbox path"),
        (["--env", "=x"], "cannot be set"),
        (["--workdir", "relative"], "is not absolute"),
        (["--json", "--tty"], "--json and --tty contradict each other"),
        (["--tty"], "Standard input is not a terminal"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_values_are_paddocks_own_errors(options: list[str], words: str) -> None:
    backend = [] if "--backend" in options else ["--backend", "memory"]
    done = called("run", *backend, *options, "true")
    assert done.returncode == 125
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    told = called("run", "--json", *backend, *(o for o in options if o != "--json"), "true")
    assert told.returncode == 125
    assert json.loads(told.stdout)["error"]["code"] in ("INVALID_CONFIG", "UNSUPPORTED")
    assert told.stderr == ""


def test_usage_errors_are_the_usual_ones() -> None:
    assert called("run").returncode == 2
    assert called("run", "--no-such-option", "true").returncode == 2
    assert called("no-such-command").returncode == 2


def test_a_shell_without_a_terminal() -> None:
    done = paddock_program("shell", "--backend", "local")
    assert done.returncode == 125
    assert "paddock run" in done.stderr


def test_errors_are_inert() -> None:
    done = called("run", "--backend", "\x1b[31m", "true")
    assert done.returncode == 125
    assert "\x1b" not in done.stderr


# config


def test_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_TIMEOUT", "10m")
    shown = called("config")
    assert shown.returncode == 0
    told = [line.split() for line in shown.stdout.splitlines()]
    assert ["timeout", "600", "(PADDOCK_TIMEOUT)"] in told
    assert ["backend", "auto", "(default;", "PADDOCK_BACKEND)"] in told
    assert f"{tmp_path}/config/paddock/paddock.toml  (your own; not there)" in shown.stdout
    assert "/paddock.toml  (this directory's: timeout and max_output only; not there)" in shown.stdout
    parsed = json.loads(called("config", "--json").stdout)
    assert [one["name"] for one in parsed["settings"]] == list(OPTIONS)
    assert next(one for one in parsed["settings"] if one["name"] == "timeout") == {
        "name": "timeout",
        "value": 600,
        "source": "PADDOCK_TIMEOUT",
        "variable": "PADDOCK_TIMEOUT",
        "meaning": OPTIONS["timeout"].meaning,
    }
    assert [file["exists"] for file in parsed["files"]] == [False, False]


def test_a_bad_file(tmp_path: Path) -> None:
    (tmp_path / "config/paddock").mkdir(parents=True)
    (tmp_path / "config/paddock/paddock.toml").write_text("timeout = 5\nbackand = 'x'\n")
    done = called("config")
    assert done.returncode == 125
    assert "paddock.toml, line 2: there is no setting 'backand'. Did you mean 'backend'?" in done.stderr
    assert json.loads(called("config", "--json").stdout)["error"]["code"] == "INVALID_CONFIG"


# logs


def on_terminal(*arguments: str) -> str:
    """What a person sees."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            shown += data
        os.close(ours)
    assert program.returncode == 0
    return shown.decode()


@pytest.fixture
async def logged(tmp_path: Path) -> Path:
    """A log with something in it."""
    async with Sandbox.create("local") as sb:
        await sb.write("a\x1b[31m.md", "twelve bytes")
        with pytest.raises(paddock.OutsideError):
            await sb.read("/etc/shadow")
        with pytest.raises(paddock.NotFoundError):
            await sb.read("missing")
        await sb.copy("a\x1b[31m.md", "b.md")
    return tmp_path / "state/audit.jsonl"


def operations(*arguments: str) -> list[str]:
    done = called("logs", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["operation"] for line in done.stdout.splitlines()]


async def test_logs(logged: Path) -> None:
    done = await asyncio.to_thread(paddock_program, "logs")
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    assert re.match(
        rf"{time.strftime('%Y-')}\d\d-\d\d \d\d:\d\d:\d\d  sb-\w{{12}}  sandbox   create       ok", lines[0]
    )
    assert r"/workspace/a\x1b[31m.md (12 bytes, " in lines[1]
    assert "OUTSIDE  /etc/shadow" in lines[2]
    assert r"a\x1b[31m.md → /workspace/b.md" in lines[4]
    assert "\x1b" not in done.stdout


async def test_which_lines(logged: Path) -> None:
    def check() -> None:
        everything = ["create", "write", "read", "read", "copy", "close"]
        assert operations() == everything
        assert operations("-n", "2") == everything[-2:]
        assert operations("-n", "0") == []
        assert operations("--denied") == ["read"]
        assert operations("--failed") == ["read", "read"]
        assert operations("--operation", "write") == ["write"]
        assert operations("--kind", "sandbox", "-n", "1") == ["close"]
        assert operations("--sandbox", "sb-other") == []
        assert called("logs", "--sandbox", "sb-other").stderr == "nothing was found\n"
        assert called("logs").stderr == called("logs", "-n", "0").stderr == ""
        sandbox = json.loads(logged.read_text().splitlines()[0])["sandbox"]
        assert operations("--sandbox", sandbox) == everything
        bad = called("logs", "--kind", "files")
        assert bad.returncode == 125
        assert "Known: sandbox, file" in bad.stderr

    await asyncio.to_thread(check)


async def test_lines_that_are_not_paddocks(logged: Path) -> None:
    good = logged.read_bytes().splitlines()[0]
    other = [b"", b"{", b"[]", b"3", b'{"time": "now"}', good[:40], good.replace(b'"ok"', b"3"), "{'é'}".encode()]
    other += [good.replace(b'"sandbox": "sb-', '"sandbox": "\x9b-'.encode()), b"[" * 100_000]
    other += [
        re.sub(rb'"time": [\d.]+', b'"time": ' + bad, good) for bad in (b"1e300", b"NaN", b"-1", b"null", b"true")
    ]
    logged.write_bytes(b"\n".join([*other, good, *other]))
    assert await asyncio.to_thread(operations) == ["create"]
    done = await asyncio.to_thread(called, "logs")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)


def test_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = called("logs")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"There is no audit log yet at {tmp_path / 'state/audit.jsonl'}.\n"
    monkeypatch.setenv("PADDOCK_AUDIT", "off")
    done = called("logs")
    assert done.returncode == 125
    assert "The audit log is off, by PADDOCK_AUDIT." in done.stderr
    monkeypatch.setenv("PADDOCK_AUDIT", str(tmp_path))
    assert "cannot be read" in called("logs").stderr


def _fields(number: int) -> tuple[object, ...]:
    return (float(number), "sb-x", "file", f"op{number}", "/workspace/f", "ok", 0.001, None, None, None, "host")


def test_older_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", max_bytes=1000)
    for number in range(20):
        log.append(_fields(number))
        log.flush()
    assert (tmp_path / "audit.jsonl.2").exists()
    monkeypatch.setenv("PADDOCK_AUDIT", str(tmp_path / "audit.jsonl"))
    kept = [int(name[2:]) for name in operations()]
    assert kept == list(range(kept[0], 20))
    assert len(kept) > 12
    assert operations("-n", "7") == [f"op{number}" for number in range(13, 20)]


def test_following(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line is told once, over rotations and over a beginning that comes later; Ctrl-C is the way to end it."""
    monkeypatch.setenv("PADDOCK_AUDIT", str(tmp_path / "audit.jsonl"))
    command = [*PROGRAM, "logs", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert "no audit log yet" in program.stderr.readline()
        log = AuditLog(tmp_path / "audit.jsonl", max_bytes=5000)
        for number in range(100):
            log.append(_fields(number))
            log.flush()
            time.sleep(0.01)
        told = [json.loads(program.stdout.readline())["operation"] for _ in range(100)]
        assert told == [f"op{number}" for number in range(100)]
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0
        assert program.stderr.read() == ""


def test_a_reader_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    for number in range(5000):
        log.append(_fields(number))
    log.flush()
    monkeypatch.setenv("PADDOCK_AUDIT", str(tmp_path / "audit.jsonl"))
    for more in ((), ("--json",)):
        command = [*PROGRAM, "logs", "-n", "5000", *more]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            assert program.stdout is not None
            assert program.stderr is not None
            program.stdout.readline()
            program.stdout.close()
            assert program.stderr.read() == b""
            assert program.wait(60) in (1, 141)


def test_logs_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.append((1.0, "manager", "manager", "open", None, "ok", 0.1, None, None, None, "manager"))
    log.append(
        (1.0, "sb-0a1b2c3d4e5f", "file", "read", "/x[bold]\x1b]0;title\x07", "OUTSIDE", 0.1, None, None, None, "host")
    )
    log.flush()
    monkeypatch.setenv("PADDOCK_AUDIT", str(tmp_path / "audit.jsonl"))
    shown = on_terminal("logs")
    assert "manager          manager   " in shown
    assert "sb-0a1b2c3d4e5f  file      " in shown
    assert "\x1b[31mOUTSIDE" in shown
    assert "\x1b]0" not in shown
    assert r"/x[bold]\x1b]0;title\x07" in shown


def test_config_errors_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AUDIT", "relative")
    for command in (["logs"], ["config"], ["run", "-b", "local", "true"]):
        done = paddock_program(*command)
        assert done.returncode == 125, command
        assert f"{ConfigError.code}: PADDOCK_AUDIT='relative' is neither" in done.stderr
