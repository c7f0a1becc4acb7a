"""`paddock run --review`, `paddock review`, `paddock git` and `paddock snapshots`, as people and as scripts use them."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from paddock.cli.changes import quoted
from paddock.sync import Sandbox

KEYS = (CTRL_C, CTRL_D, ENTER) = ("\x03", "\x04", "\r")
PROGRAM = [sys.executable, "-c", "from paddock.cli import main; main()"]
EDIT = "echo changed >> a.txt; echo new > b.txt; rm c.txt"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with three files."""
    path = tmp_path / "project"
    path.mkdir()
    for name in "abc":
        (path / f"{name}.txt").write_text(f"{name}\n")
    (path / "b.txt").unlink()
    monkeypatch.chdir(path)
    return path


def paddock(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=90, check=False, input="")


def talk(arguments: list[str], *answers: tuple[str, str | None]) -> tuple[int, str]:
    """`paddock` on a terminal."""
    return talk_to([*PROGRAM, *arguments], *answers)


def talk_to(program: list[str], *answers: tuple[str, str | None]) -> tuple[int, str]:
    """A program on a terminal: each answer is typed when its question stands there, with Enter unless it ends with a key.

    None is for what is only waited for. Its exit code and all it showed.
    """
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(program[0], program)
    shown, waiting, until = "", list(answers), time.monotonic() + 60
    seen = 0
    while time.monotonic() < until:
        if waiting and waiting[0][0] in shown[seen:]:
            question, typed = waiting.pop(0)
            seen = shown.index(question, seen) + len(question) if typed is None else len(shown)
            if typed is not None:
                os.write(fd, typed.encode() if typed.endswith(KEYS) else f"{typed}\n".encode())
        if not select.select([fd], [], [], 0.1)[0]:
            continue
        try:
            data = os.read(fd, 4096)
        except OSError:
            break
        if not data:
            break
        shown += data.decode(errors="replace")
    if time.monotonic() >= until:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    assert not waiting, shown
    return code, shown


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def kept_id(text: str) -> str:
    match = re.search(r"rv-[0-9a-f]+", text)
    assert match, text
    return match[0]


# Nobody is there


def test_it_is_kept_and_says_how_to_go_on(project: Path) -> None:
    done = paddock("run", "--review", "--", EDIT + "; echo said; exit 3")
    assert (done.returncode, done.stdout) == (3, "said\n")
    assert names(project) == ["a.txt", "c.txt"]
    assert "/workspace/a.txt" in done.stderr
    id = kept_id(done.stderr)
    assert f"paddock review apply {id}" in done.stderr
    listed = paddock("review", "list").stdout
    assert id in listed
    assert str(project) in listed


@pytest.mark.parametrize("how", [(), ("--json",)])
@pytest.mark.parametrize("pause", [0.01, 0.3])
def test_it_is_kept_however_often_somebody_presses_ctrl_c(project: Path, how: tuple[str, ...], pause: float) -> None:
    seconds = f"71{os.getpid()}"
    command = [*PROGRAM, "run", "--review", *how, "--", f"head -c 100000000 /dev/urandom > big; sleep {seconds}"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        _until_it_runs(f"sleep\0{seconds}\0")
        for _ in range(3):
            program.send_signal(signal.SIGINT)
            time.sleep(pause)
        _, told = program.communicate(timeout=60)
    assert program.returncode == 130
    assert told.decode().startswith("keeping what was changed, which may take a moment\nkept as rv-")
    assert json.loads(paddock("review", "list", "--json").stdout)["changes"] == 1
    assert not (project / "big").exists()


def _until_it_runs(command: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has ended
                if path.read_text() == command:
                    return
        time.sleep(0.05)
    raise AssertionError(f"{command!r} does not run")


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_command_that_runs_out_of_time(project: Path, how: tuple[str, ...]) -> None:
    """What it did until then is not lost."""
    done = paddock("run", "--review", "--timeout", "2", *how, "--", f"{EDIT}; sleep 60")
    assert done.returncode == 124
    assert names(project) == ["a.txt", "c.txt"]
    id = kept_id(done.stderr)
    assert json.loads(paddock("review", "list", "--json").stdout)["changes"] == 3
    assert "+changed" in paddock("review", "show", id).stdout


def test_a_script_needs_the_code_of_what_it_was_shown(project: Path) -> None:
    id = kept_id(paddock("run", "--review", "--", EDIT).stderr)
    refused = paddock("review", "apply", id)
    assert refused.returncode == 125
    assert "NOT_AUTHORIZED" in refused.stderr
    assert names(project) == ["a.txt", "c.txt"]
    shown = paddock("review", "show", id).stdout
    assert "+changed" in shown
    code = shown.split("--approval ")[1].split()[0]
    assert paddock("review", "apply", id, "/workspace/a.txt", "--approval", code).returncode == 125
    assert paddock("review", "apply", id, "--approval", code).returncode == 125, "it was used up by the wrong thing"
    code = paddock("review", "show", id).stdout.split("--approval ")[1].split()[0]
    assert paddock("review", "apply", id, "--approval", code).returncode == 0
    assert names(project) == ["a.txt", "b.txt"]
    assert (project / "a.txt").read_text() == "a\nchanged\n"
    assert paddock("review", "show", id).returncode == 125


def test_discarding_what_is_kept(project: Path) -> None:
    id = kept_id(paddock("run", "--review", "--", EDIT).stderr)
    assert paddock("review", "discard", id).stdout == f"{id}\n"
    assert paddock("review", "discard", id).returncode == 125
    assert names(project) == ["a.txt", "c.txt"]
    assert paddock("review", "list", "--json").stdout == ""
    assert paddock("review", "discard").returncode == 125


def test_json(project: Path) -> None:
    told = json.loads(paddock("run", "--review", "--json", "--", EDIT).stdout)
    assert told["exit_code"] == 0
    assert {change["path"]: change["operation"] for change in told["review"]["changes"]} == {
        "/workspace/a.txt": "update",
        "/workspace/b.txt": "create",
        "/workspace/c.txt": "delete",
    }
    shown = json.loads(paddock("review", "show", told["review"]["kept"], "--json").stdout)
    assert shown["changes"] == told["review"]["changes"]


def test_nothing_changed(project: Path) -> None:
    done = paddock("run", "--review", "--", "cat a.txt")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "nothing was changed\n")
    assert paddock("review", "list", "--json").stdout == ""


def test_names_that_act_on_a_terminal(project: Path) -> None:
    done = paddock("run", "--review", "--", "touch \"$(printf 'x\\033[2Jy\\nz')\"")
    assert "\x1b" not in done.stderr
    assert "x\\x1b[2Jy\\nz" in done.stderr
    shown = paddock("review", "show", kept_id(done.stderr)).stdout
    assert "\x1b" not in shown


# Somebody is there


def test_apply_all(project: Path) -> None:
    code, shown = talk(["run", "--review", "--", EDIT], ("[a]pply", "a"))
    assert (code, names(project)) == (0, ["a.txt", "b.txt"])
    assert "3 applied" in shown
    assert "1 created, 1 changed, 1 deleted" in shown


def test_what_was_typed_while_the_command_ran_is_no_answer(project: Path) -> None:
    """It was meant for the command, or the command had the terminal say it."""
    answers = [("the command", "a"), ("[a]pply", "d")]
    code, _ = talk(["run", "--review", "--", f"echo the command; sleep 2; {EDIT}"], *answers)
    assert (code, names(project)) == (0, ["a.txt", "c.txt"])


def test_show_then_discard(project: Path) -> None:
    code, shown = talk(["run", "--review", "--", EDIT], ("[a]pply", "s"), ("[a]pply", "d"))
    assert (code, names(project)) == (0, ["a.txt", "c.txt"])
    assert "+changed" in shown
    assert paddock("review", "list", "--json").stdout == ""


def test_choose(project: Path) -> None:
    answers = [("[a]pply", "c"), ("apply this?", "y"), ("apply this?", "?"), ("apply this?", "n"), ("apply this?", "n")]
    code, shown = talk(["run", "--review", "--", EDIT], *answers)
    assert (code, names(project)) == (0, ["a.txt", "c.txt"])
    assert (project / "a.txt").read_text() == "a\nchanged\n"
    rest = json.loads(paddock("review", "show", kept_id(shown), "--json").stdout)
    assert [change["path"] for change in rest["changes"]] == ["/workspace/b.txt", "/workspace/c.txt"]


def test_a_no_is_a_no_in_directories_too(project: Path) -> None:
    for name in ("one", "two"):
        (project / f"gone/{name}").mkdir(parents=True)
        (project / f"gone/{name}/f").write_text(name)
    agent = "rm -r gone; mkdir -p d/e; echo 1 > d/e/f; echo 2 > d/g"
    answers = [("[a]pply", "c"), *(("apply this?", letter) for letter in "nyyn")]
    code, shown = talk(["run", "--review", "--", agent], *answers)
    assert code == 0, shown
    left = sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.name not in ("a.txt", "c.txt"))
    assert left == ["d", "d/g", "gone", "gone/two", "gone/two/f"]


# It does not end as it should


@pytest.mark.parametrize(
    ("more", "code"), [(["--timeout", "2"], 124), (["--timeout", "2", "--json"], 124)], ids=["pipe", "json"]
)
def test_work_is_kept_when_the_time_is_over(project: Path, more: list[str], code: int) -> None:
    done = paddock("run", "--review", *more, "--", "echo a > f; sleep 60")
    assert done.returncode == code
    kept = json.loads(paddock("review", "show", kept_id(done.stderr), "--json").stdout)
    assert [change["path"] for change in kept["changes"]] == ["/workspace/f"]
    assert not (project / "f").exists()


def test_somebody_is_asked_when_the_time_is_over(project: Path) -> None:
    code, _ = talk(["run", "--review", "--timeout", "2", "--", "echo a > f; sleep 60"], ("[a]pply", "a"))
    assert (code, (project / "f").read_text()) == (124, "a\n")


def test_ctrl_c_while_it_runs(project: Path) -> None:
    code, shown = talk(["run", "--review", "--", "echo a > f; echo ready; sleep 60"], ("ready", CTRL_C))
    assert code == 130
    assert kept_id(shown)
    assert not (project / "f").exists()


@pytest.mark.parametrize(("typed", "code"), [(CTRL_C, 130), (CTRL_D, 0)])
def test_no_answer_keeps(project: Path, typed: str, code: int) -> None:
    assert talk(["run", "--review", "--", EDIT], ("[a]pply", typed))[0] == code
    assert len(paddock("review", "list", "--json").stdout.splitlines()) == 1
    assert names(project) == ["a.txt", "c.txt"]


def test_a_detached_one_is_not_reviewed_from_here(project: Path) -> None:
    done = paddock("run", "--detach", "--review", "--", "true")
    assert (done.returncode, "--review" in done.stderr) == (125, True)


def test_keep_for_later_and_apply_then(project: Path) -> None:
    code, shown = talk(["run", "--review", "--", EDIT], ("[a]pply", "k"))
    assert (code, names(project)) == (0, ["a.txt", "c.txt"])
    id = kept_id(shown)
    code, shown = talk(["review", "apply", id], ("[a]pply", "q"))
    assert (code, names(project)) == (125, ["a.txt", "c.txt"])
    code, shown = talk(["review", "apply", id], ("[a]pply", "a"))
    assert (code, names(project)) == (0, ["a.txt", "b.txt"])


def test_a_conflict_is_told_and_nothing_is_lost(project: Path) -> None:
    id = kept_id(paddock("run", "--review", "--", EDIT).stderr)
    (project / "a.txt").write_text("mine\n")
    code, shown = talk(["review", "apply", id], ("[a]pply", "a"))
    assert code == 125
    assert "CONFLICT" in shown
    assert (project / "a.txt").read_text() == "mine\n"
    assert names(project) == ["a.txt", "c.txt"]
    code, _ = talk(["review", "apply", "--overwrite", id], ("[a]pply", "a"))
    assert (project / "a.txt").read_text() == "a\nchanged\n"


def test_the_line_to_apply_a_conflict_with(project: Path) -> None:
    id = kept_id(paddock("run", "--review", "--", EDIT).stderr)
    (project / "a.txt").write_text("mine\n")
    line = paddock("review", "show", id).stdout.splitlines()[-1]
    words = line.partition("paddock ")[2].split()
    assert "--overwrite" in words
    done = paddock(*[word for word in words if word != "--overwrite"])
    assert (done.returncode, "use --overwrite" in done.stderr, "overwrite=" in done.stderr) == (125, True, False)
    words = paddock("review", "show", id).stdout.splitlines()[-1].partition("paddock ")[2].split()
    assert paddock(*words).returncode == 0
    assert (project / "a.txt").read_text() == "a\nchanged\n"


def test_what_is_left_out_is_named(project: Path) -> None:
    id = kept_id(paddock("run", "--review", "--", "mkfifo pipe; echo x > b.txt").stderr)
    line = paddock("review", "show", id).stdout.splitlines()[-1]
    assert "--overwrite" not in line
    done = paddock(*line.partition("paddock ")[2].split())
    assert done.stderr == f"1 applied to {project}\nleft out: /workspace/pipe cannot be applied\n"
    assert names(project) == ["a.txt", "b.txt", "c.txt"]


def test_a_shell_under_review(project: Path) -> None:
    code, shown = talk(["shell", "--review", "--", "sh", "-c", "echo x > made"], ("[a]pply", "a"))
    assert (code, (project / "made").read_text()) == (0, "x\n"), shown


# Snapshots


def test_snapshots() -> None:
    with Sandbox.create("memory") as sb:
        sb.write("f", "x" * 5000)
        one, two = sb.snapshot("one"), sb.snapshot()
    listed = paddock("snapshots").stdout
    assert one.id in listed
    assert two.id in listed
    assert len(paddock("snapshots", "list", "--json").stdout.splitlines()) == 2
    assert "2 snapshots" in paddock("snapshots", "space").stdout
    assert json.loads(paddock("snapshots", "space", "--json").stdout)["total"] >= 5000
    assert paddock("snapshots", "rm", one.id).stdout == f"{one.id}\n"
    assert paddock("snapshots", "rm", one.id).returncode == 125
    assert paddock("snapshots", "clean").returncode == 0
    assert json.loads(paddock("snapshots", "list", "--json").stdout)["id"] == two.id


@pytest.mark.parametrize(
    "name", ["plain", "a b", "';touch PWNED;'", "$(touch PWNED)", "x\ny", "-rf", "é", "\\", "\x1b["]
)
def test_a_line_to_paste_means_its_file(name: str) -> None:
    shown = subprocess.run(["bash", "-c", f"printf %s {quoted(name)}"], capture_output=True, check=True, timeout=30)
    assert shown.stdout == name.encode()


def test_paths_as_people_write_them(project: Path) -> None:
    id = kept_id(paddock("run", "--review", "--", EDIT).stderr)
    word = paddock("review", "show", id, "a.txt").stdout.split("--approval ")[1].split()[0]
    assert paddock("review", "apply", id, "/workspace/a.txt", "--approval", word).returncode == 0
    assert (project / "a.txt").read_text() == "a\nchanged\n"
    assert "NOT_FOUND" in paddock("review", "apply", id, "nothing").stderr


def test_discarding_what_is_about_a_directory_that_is_gone(project: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    first = kept_id(paddock("run", "--review", "--workspace", str(tmp_path / "gone"), "--", "echo x > f").stderr)
    second = kept_id(paddock("run", "--review", "--", EDIT).stderr)
    (tmp_path / "gone").rmdir()
    assert paddock("review", "show", first).returncode == 0
    assert "NOT_FOUND" in paddock("review", "apply", first, "--approval", "x").stderr
    assert paddock("review", "discard", "--all").stdout.split() == [first, second]
