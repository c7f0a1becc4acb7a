"""`paddock run` and `paddock shell` with real commands, also on a real terminal."""

import asyncio
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "from paddock.cli import main; main()"]
RUN = [*PROGRAM, "run", "--backend", "local"]
SHELL = [*PROGRAM, "shell", "--backend", "local", "--quiet"]


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*RUN, *arguments], capture_output=True, timeout=90, check=False, input=stdin)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    left = tmp_path / "state/sandboxes"
    assert not left.exists() or list(left.iterdir()) == []


def ended(pid: int, seconds: float = 20) -> bool:
    """Whether a process is gone soon; one that is only still to be collected is."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


# run


def test_streams_and_status() -> None:
    done = run("echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_one_word_is_for_the_shell_and_several_are_not() -> None:
    assert run("--", "echo $((1 + 1))").stdout == b"2\n"
    assert run("--", "echo", "$((1 + 1))").stdout == b"$((1 + 1))\n"
    assert run("echo", "--json", "-t").stdout == b"--json -t\n", "the options of a command are its own"


def test_byte_exact(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    done = run("tee", "/dev/stderr", stdin=data)
    assert done.stdout == data
    assert done.stderr == data


def test_more_than_is_kept_is_still_streamed() -> None:
    assert len(run("head -c 30000000 /dev/zero").stdout) == 30_000_000


def test_output_comes_as_it_is_written() -> None:
    with subprocess.Popen([*RUN, "echo one; cat; echo two"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == b"one\n"
        program.stdin.write(b"typed\n")
        program.stdin.flush()
        assert program.stdout.readline() == b"typed\n"
        program.stdin.close()
        assert program.stdout.read() == b"two\n"
    assert program.returncode == 0


def test_an_input_that_never_ends() -> None:
    keeps_open, end = os.pipe()
    try:
        done = subprocess.run([*RUN, "true"], stdin=keeps_open, timeout=60, check=False)
        assert done.returncode == 0
        done = subprocess.run([*RUN, "--json", "true"], stdin=keeps_open, timeout=60, check=False, capture_output=True)
        assert done.returncode == 0
    finally:
        os.close(keeps_open)
        os.close(end)


def test_an_input_that_is_not_read() -> None:
    assert run("true", stdin=b"x" * 1_000_000).returncode == 0


def test_an_input_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("from a file")
    with (tmp_path / "f").open() as file:
        assert subprocess.run([*RUN, "cat"], stdin=file, capture_output=True, check=True).stdout == b"from a file"


def test_streams_that_are_closed() -> None:
    done = subprocess.run(["sh", "-c", '"$@" <&- >&-', "sh", *RUN, "echo lost; echo kept >&2"], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"kept\n")


def test_a_reader_that_goes_away() -> None:
    with subprocess.Popen([*RUN, "yes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.read(2)
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait(60) == 141


def test_time() -> None:
    started = time.monotonic()
    done = run("--timeout", "2s", "echo begun; sleep 60")
    assert time.monotonic() - started < 55
    assert (done.returncode, done.stdout) == (124, b"begun\n")
    assert done.stderr.startswith(b"TIMEOUT: The command was ended after 2 seconds.")


def test_time_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_TIMEOUT", "0.3")
    assert run("sleep 60").returncode == 124
    assert run("--timeout", "none", "sleep 0.5").returncode == 0


def test_json() -> None:
    done = run("--json", "--max-output", "3", "printf aaaabbbb; printf 'x\\377' >&2; exit 3")
    told = json.loads(done.stdout)
    assert done.returncode == 3
    assert (told["exit_code"], told["stdout"], told["stderr"], told["truncated"]) == (3, "aaa", "x�", True)
    assert told["backend"] == "local"
    assert told["sandbox"].startswith("sb-")
    assert told["isolation"]["processes"]["enforced"] is False
    assert told["limit"] is None
    assert told["duration"] > 0
    assert set(told["usage"]) == {"cpu", "memory"}
    assert json.loads(run("--json", "cat", stdin=b"in").stdout)["stdout"] == "in"


def test_json_and_time() -> None:
    done = run("--json", "--timeout", "2", "echo begun; sleep 60")
    told = json.loads(done.stdout)["error"]
    assert (done.returncode, told["code"]) == (124, "TIMEOUT")
    assert told["result"]["stdout_bytes"] == "YmVndW4K"


def test_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/rows").write_text("1\n2\n")
    given = ["--workspace", str(tmp_path / "project"), "--mount", f"{tmp_path}/data:/data"]
    assert run(*given, "echo made > f").returncode == 0
    assert (tmp_path / "project/f").read_text() == "made\n"
    (tmp_path / "project/sub").mkdir()
    assert run(*given, "--workdir", "/workspace/sub", "ls ..").stdout == b"f\nsub\n"
    assert run(*given, "--workdir", "/data", "cat rows").stdout == b"1\n2\n"
    assert run("--root", str(tmp_path / "root"), "touch here").returncode == 0
    assert (tmp_path / "root/workspace/here").exists()


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("WANTED", "w")
    shown = run("-e", "WANTED", "-e", "A=b=c", "-e", "NOT_SET", "env").stdout.decode().splitlines()
    assert {"WANTED=w", "A=b=c"} <= set(shown)
    assert not any(line.startswith(("SECRET", "NOT_SET")) for line in shown)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_signals_end_the_command_and_all_it_started(number: int, code: int) -> None:
    script = "sleep 1000 & echo $! $$; wait"
    with subprocess.Popen([*RUN, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        pids = [int(word) for word in program.stdout.readline().split()]
        program.send_signal(number)
        assert program.wait(60) == code
        assert program.stderr.read() == b""
    assert all(ended(pid) for pid in pids)


@pytest.mark.parametrize("pause", [0.0, 0.01])
def test_however_many_signals_come(pause: float) -> None:
    """The first says how it ends; it waits for none of them, and none of them ends it before all is put away."""
    for numbers, code in (((signal.SIGINT,) * 4, 130), ((signal.SIGTERM, signal.SIGINT, signal.SIGTERM), 143)):
        with subprocess.Popen([*RUN, "echo $$; sleep 1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            assert program.stdout is not None
            assert program.stderr is not None
            pid = int(program.stdout.readline())
            for number in numbers:
                program.send_signal(number)
                time.sleep(pause)
            assert program.wait(60) in ((code,) if pause else (130, 143))  # which of two kinds at once is seen first
            assert program.stderr.read() == b""
        assert ended(pid)


def test_a_port_that_is_none_is_all_that_is_said() -> None:
    done = subprocess.run([*PROGRAM, "run", "--expose", "99999", "--", "true"], capture_output=True, check=False)
    assert done.returncode == 125
    assert (done.stderr.count(b"\n"), b"99999" in done.stderr) == (1, True)


def test_ctrl_c_while_it_begins() -> None:
    """What was not begun yet is forgotten without a word."""
    for early in (_WHEN_IMPORTED, _WHEN_THE_LOOP_IS_MADE):
        command = [sys.executable, "-c", early + PROGRAM[-1], *RUN[len(PROGRAM) :], "true"]
        done = subprocess.run(command, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


_WHEN_IMPORTED = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "paddock.cli.noting":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
_WHEN_THE_LOOP_IS_MADE = """
import asyncio.events, os, signal
usual = asyncio.events.new_event_loop
asyncio.events.new_event_loop = lambda: (os.kill(os.getpid(), signal.SIGINT), usual())[1]
"""


def test_a_reader_that_stops_does_not_hold_ctrl_c() -> None:
    with subprocess.Popen([*RUN, "yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout is not None
        program.stdout.read(2)
        time.sleep(0.5)
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130


def test_what_cannot_be_started() -> None:
    done = run("no-such-program", "at", "all")
    assert done.returncode in (125, 126, 127)
    assert b"Traceback" not in done.stderr


# A terminal


class Screen:
    """A program on a terminal of its own, as a person has it in front of them."""

    def __init__(self, command: list[str], rows: int = 24, columns: int = 80) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.program = subprocess.Popen(
            command,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=os.environ | {"TERM": "xterm"},
        )
        self.shown = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, words: str, seconds: float = 60) -> str:
        """What is shown until these words are, which are taken away with it."""
        end = time.monotonic() + seconds
        while words not in self.shown:
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{words!r} is not shown, but {self.shown!r}")
            self.shown += os.read(self.master, 65536).decode(errors="replace")
        before, _, self.shown = self.shown.partition(words)
        return before

    def ends(self) -> int:
        """The exit code; the terminal has to be as it was."""
        code = self.program.wait(60)
        assert termios.tcgetattr(self.slave) == self.before
        return code

    def close(self) -> None:
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def screens() -> Iterator[list[Screen]]:
    made: list[Screen] = []
    yield made
    for screen in made:
        screen.close()


def test_a_shell(screens: list[Screen]) -> None:
    screens.append(screen := Screen([*SHELL, "--", "sh", "-i"]))
    screen.until("$ " if os.geteuid() else "# ")
    screen.type("test -t 0 && test -t 1 && echo is''a-terminal $TERM\n")
    screen.until("isa-terminal xterm")
    screen.type("exit 5\n")
    assert screen.ends() == 5


def test_the_shell_that_is_there(screens: list[Screen]) -> None:
    screens.append(screen := Screen(SHELL))
    screen.type("echo shell=${BASH_VERSION:+bash}.\n")
    screen.until(f"shell={'bash' if shutil.which('bash', path='/usr/local/bin:/usr/bin:/bin') else ''}.")
    screen.type("exit\n")
    assert screen.ends() == 0


def test_keys_go_to_the_program(screens: list[Screen]) -> None:
    screens.append(
        screen := Screen([*SHELL, "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done"])
    )
    screen.until("ready")
    assert not termios.tcgetattr(screen.slave)[3] & termios.ICANON
    screen.type("\x03")
    screen.until("caught")
    assert screen.ends() == 9


def test_the_window(screens: list[Screen]) -> None:
    script = "echo ready; read x; stty size; trap 'stty size; exit 0' WINCH; echo waiting; while :; do sleep 0.1; done"
    screens.append(screen := Screen([*SHELL, script], rows=33, columns=101))
    screen.until("ready")
    screen.type("\n")
    screen.until("33 101")
    screen.until("waiting")
    screen.resize(44, 120)
    screen.program.send_signal(signal.SIGWINCH)
    screen.until("44 120")
    assert screen.ends() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_the_terminal_is_given_back(number: int, screens: list[Screen]) -> None:
    screens.append(screen := Screen([*SHELL, "echo pid=$$=; sleep 1000"]))
    screen.until("pid=")
    pid = int(screen.until("="))
    screen.program.send_signal(number)
    assert screen.ends() == 128 + number
    assert ended(pid)


def test_a_shell_with_a_limit(screens: list[Screen]) -> None:
    screens.append(screen := Screen([*SHELL, "--timeout", "0.5", "--", "sleep", "1000"]))
    screen.until("TIMEOUT: ")
    assert screen.ends() == 124


def test_run_on_a_terminal(screens: list[Screen]) -> None:
    screens.append(screen := Screen([*RUN, "--tty", "test -t 0 && echo is''a-terminal"]))
    screen.until("note: 'local' does not isolate")
    screen.until("isa-terminal")
    assert screen.ends() == 0
    screens.append(screen := Screen([*RUN, "--quiet", "test -t 0 || echo no-terminal; cat"]))
    assert "note" not in screen.until("no-terminal"), "and its input is closed"
    assert screen.ends() == 0


def test_ctrl_c_on_a_terminal(screens: list[Screen]) -> None:
    screens.append(screen := Screen([*RUN, "echo pid=$$=; sleep 1000"]))
    screen.until("pid=")
    pid = int(screen.until("="))
    screen.type("\x03")
    assert screen.ends() == 130
    assert ended(pid)


async def test_many_at_once() -> None:
    async def one(number: int) -> bytes:
        program = await asyncio.create_subprocess_exec(
            *RUN, f"echo {number}", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        return (await program.communicate())[0]

    assert await asyncio.gather(*map(one, range(8))) == [f"{number}\n".encode() for number in range(8)]
