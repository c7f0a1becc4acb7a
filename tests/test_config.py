"""Settings: which one wins, what a project may not say, and errors that name their source."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from tempfile import mkdtemp

import pytest

from paddock import Call, ConfigError, Memory, Sandbox, UnavailableError, state, sync
from paddock.audit import default_log
from paddock.config import DEFAULT, OPTIONS, Setting, files, once, read_once, setting, settings, user_path
from paddock.state import runtime_directory, runtime_path
from paddock.types.times import parse_time


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The user's own file, which is still to be written."""
    (tmp_path / "config/paddock").mkdir(parents=True)
    return tmp_path / "config/paddock/paddock.toml"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the project we stand in."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project/paddock.toml"


def test_the_order(user: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert setting("timeout") == Setting("timeout", 300, DEFAULT)
    user.write_text("timeout = 10\n")
    assert setting("timeout") == Setting("timeout", 10, str(user))
    project.write_text('timeout = "20s"\n')
    assert setting("timeout") == Setting("timeout", 20, str(project))
    monkeypatch.setenv("PADDOCK_TIMEOUT", "10m")
    assert setting("timeout") == Setting("timeout", 600, "PADDOCK_TIMEOUT")
    assert setting("timeout", 300) == Setting("timeout", 300, "argument")
    assert setting("timeout", None) == Setting("timeout", None, "argument")
    monkeypatch.setenv("PADDOCK_TIMEOUT", "")
    assert setting("timeout").value == 20, "empty is as good as not set"


def test_a_file_is_read_again_when_it_changes(user: Path) -> None:
    user.write_text("timeout = 10\n")
    assert setting("timeout").value == 10
    user.write_text("timeout = 1000\n")
    assert setting("timeout").value == 1000
    user.unlink()
    assert setting("timeout").value == 300


def test_each_is_read_once_for_one_thing_that_is_made(user: Path) -> None:
    user.write_text("timeout = 10\n")
    with read_once():
        left_behind = copy_context()
        assert setting("timeout").value == 10
        user.write_text("timeout = 1000\n")
        assert setting("timeout").value == 10
        assert setting("timeout", 5).value == 5
    assert setting("timeout").value == 1000
    assert left_behind.run(setting, "timeout").value == 1000


def test_what_follows_from_them_is_found_out_once_too() -> None:
    asked = iter(range(10))
    following = once(lambda: next(asked))
    assert [following(), following()] == [0, 1]
    with read_once():
        left_behind = copy_context()
        assert [following(), following()] == [2, 2]
    assert [following(), left_behind.run(following)] == [3, 4]


def test_another_file(user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user.write_text("timeout = 10\n")
    other = tmp_path / "other.toml"
    other.write_text('backend = "memory"\n')
    monkeypatch.setenv("PADDOCK_CONFIG", str(other))
    assert setting("backend") == Setting("backend", "memory", str(other))
    assert setting("timeout").value == 300
    monkeypatch.setenv("PADDOCK_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigError, match=r"PADDOCK_CONFIG.*No such file"):
        setting("timeout")
    monkeypatch.setenv("PADDOCK_CONFIG", "relative.toml")
    with pytest.raises(ConfigError, match=r"PADDOCK_CONFIG='relative.toml' is not an absolute path"):
        setting("timeout")


@pytest.mark.parametrize("line", ['backend = "local"', 'audit = "off"', 'state = "/x"', 'runtime = "/x"'])
def test_what_a_project_cannot_set(line: str, user: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PADDOCK_STATE")
    name = line.partition(" ")[0]
    project.write_text(f"timeout = 5\n{line}\n")
    with pytest.raises(ConfigError, match=f"paddock.toml, line 2: a project's file cannot set '{name}'") as caught:
        setting("timeout")
    assert str(user) in caught.value.hint
    assert f"PADDOCK_{name.upper()}" in caught.value.hint
    project.unlink()
    user.write_text(f"timeout = 5\n{line}\n")
    assert setting(name).source == str(user)


def test_every_option_that_a_project_can_set(project: Path) -> None:
    project.write_text('timeout = "10m"\nmax_output = "1k"\n')
    assert (setting("timeout").value, setting("max_output").value) == (600, 1024)
    assert {name for name, option in OPTIONS.items() if option.project} == {"timeout", "max_output"}


async def test_a_project_cannot_choose_the_backend(project: Path) -> None:
    project.write_text('backend = "local"\n')
    with pytest.raises(ConfigError, match="a project's file cannot set 'backend'"):
        await Sandbox.create()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("timeout = 0", "line 1: timeout=0 is not a time"),
        ('timeout = "soon"', "line 1: timeout='soon' is not a time"),
        ("timeout = true", "timeout=True is not a time"),
        ("timeout = inf", "timeout=inf is not a time"),
        ("timeout = nan", "timeout=nan is not a time"),
        ('\n\nmax_output = "much"', "line 3: max_output='much' is not a size"),
        ("backend = 3", "backend=3 is not the name"),
        ('state = "here"', "state='here' is not an absolute path"),
        ('audit = "on"', "audit='on' is neither 'off' nor an absolute path"),
        ("timeuot = 3", "line 1: there is no setting 'timeuot'. Did you mean 'timeout'"),
        ("[timeout]\nx = 1", "line 1: timeout="),
        ("[other]\nx = 1", "line 1: there is no setting 'other'"),
        ("timeout = \n", "at line 1"),
        ("x\x00", "at line 1"),
    ],
)
def test_a_bad_file_says_where(text: str, words: str, user: Path) -> None:
    user.write_text(text)
    with pytest.raises(ConfigError) as caught:
        setting("timeout")
    assert words in caught.value.message
    assert str(user) in caught.value.message


def test_what_is_no_file(user: Path, project: Path) -> None:
    os.mkfifo(project)
    with pytest.raises(ConfigError, match="is not a file"):
        setting("timeout")
    project.unlink()
    project.mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        setting("timeout")
    project.rmdir()
    project.write_bytes(b"timeout = 5 # \xff\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        setting("timeout")
    project.write_bytes(b"#" * (1 << 21))
    with pytest.raises(ConfigError, match="larger"):
        setting("timeout")
    project.write_text("timeout = 5\n")
    assert setting("timeout").value == 5


def test_no_home(user: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory named `~` in a project is not somebody's home."""
    (project.parent / "~/.config/paddock").mkdir(parents=True)
    (project.parent / "~/.config/paddock/paddock.toml").write_text('backend = "local"\n')
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "~")
    assert user_path() == ""
    assert setting("backend").source == DEFAULT
    monkeypatch.delenv("PADDOCK_STATE")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(ConfigError, match="no home directory"):
        setting("state")


def test_where_the_users_file_is_at_home(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user.write_text('backend = "memory"\n')
    monkeypatch.chdir(user.parent)
    assert setting("backend").value == "memory"
    assert setting("timeout").source == DEFAULT


def test_a_directory_that_is_gone(project: Path) -> None:
    project.parent.rmdir()
    assert setting("timeout").source == DEFAULT


def test_all_of_them(user: Path, tmp_path: Path) -> None:
    found = {one.name: one for one in settings()}
    assert list(found) == list(OPTIONS)
    assert found["audit"].value == str(tmp_path / "state/audit.jsonl")
    assert found["state"].to_dict() == {
        "name": "state",
        "value": str(tmp_path / "state"),
        "source": "PADDOCK_STATE",
    }
    assert [file.exists for file in files()] == [False, False]
    user.write_text("")
    assert [(file.path, file.exists) for file in files()] == [("paddock.toml", False), (str(user), True)]


@pytest.mark.parametrize(
    ("given", "seconds"), [("90", 90), ("1.5h", 5400), ("10m", 600), (" 2 d ", 172800), (0.5, 0.5), ("NONE", None)]
)
def test_times(given: str | float, seconds: float | None) -> None:
    assert parse_time(given) == seconds


# What uses them


async def test_backend(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox.create() as sb:
        assert sb.backend == "namespaces"
    user.write_text('backend = "memory"\n')
    async with Sandbox.create() as sb:
        assert sb.backend == "memory"
    async with Sandbox.create("local") as sb:
        assert sb.backend == "local"
    monkeypatch.setenv("PADDOCK_BACKEND", "mmeory")
    with pytest.raises(ConfigError, match="PADDOCK_BACKEND: There is no backend 'mmeory'"):
        await Sandbox.create()
    monkeypatch.setenv("PADDOCK_BACKEND", "dagger")
    with pytest.raises(UnavailableError, match="PADDOCK_BACKEND: The backend 'dagger'"):
        await Sandbox.create()
    async with Sandbox.create("auto") as sb:
        assert sb.backend == "namespaces", "an argument beats the variable"


async def test_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def limit(**arguments: float | None) -> float | None:
        async with Sandbox.create("memory", **arguments) as sb:  # type: ignore[arg-type]
            return sb._core.launched.timeout

    assert await limit() == 300
    monkeypatch.setenv("PADDOCK_TIMEOUT", "7")
    assert await limit() == 7
    assert await limit(timeout=300) == 300
    assert await limit(timeout=None) is None
    monkeypatch.setenv("PADDOCK_TIMEOUT", "none")
    assert await limit() is None
    monkeypatch.setenv("PADDOCK_TIMEOUT", "-1")
    with pytest.raises(ConfigError, match="PADDOCK_TIMEOUT='-1' is not a time"):
        await limit()
    with pytest.raises(ConfigError, match="timeout=0 "):
        await limit(timeout=0)


def _ten(call: Call) -> str:
    return "x" * 10


async def test_max_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_MAX_OUTPUT", "4")
    async with Sandbox.create(Memory(commands={"ten": _ten})) as sb:
        assert (await sb.exec("ten")).stdout == "xxxx"
        assert (await sb.exec("ten", max_output=10 << 20)).stdout == "x" * 10
        async with await sb.start("ten") as process:
            assert (await process.wait()).truncated


def test_max_output_without_async(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_MAX_OUTPUT", "4")
    with sync.Sandbox.create(Memory(commands={"ten": _ten})) as blocking:
        assert blocking.exec("ten").stdout == "xxxx"
        assert blocking.exec("ten", max_output=5).stdout == "xxxxx"


async def test_a_bad_max_output_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_MAX_OUTPUT", "lots")
    with pytest.raises(ConfigError, match="PADDOCK_MAX_OUTPUT='lots' is not a size"):
        await Sandbox.create("memory")


async def test_audit(user: Path, tmp_path: Path) -> None:
    log = tmp_path / "log/audit.jsonl"
    user.write_text(f'audit = "{log}"\n')
    async with Sandbox.create("memory"):
        pass
    assert '"operation": "create"' in log.read_text(), "memory is logged when asked, also by a file"
    user.write_text('audit = "off"\n')
    assert default_log() is None


def test_the_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative is ignored")
    monkeypatch.setenv("PADDOCK_STATE", "/tmp/s")
    assert runtime_path() == Path("/tmp/s/run")
    short = Path(os.path.realpath("/tmp")) / f"pr-{os.getpid()}"
    short.mkdir()
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
        assert runtime_directory() == short / "paddock"
        assert (short / "paddock").stat().st_mode & 0o777 == 0o700
        monkeypatch.setenv("PADDOCK_RUNTIME", str(short / "mine"))
        assert runtime_directory() == short / "mine"
    finally:
        for directory in [*short.iterdir(), short]:
            directory.rmdir()
    assert runtime_path() == short / "mine"
    monkeypatch.delenv("PADDOCK_RUNTIME")
    assert runtime_path().parent == Path(f"/tmp/paddock-{os.geteuid()}"), "it is gone: somewhere that is ours"


def test_a_runtime_directory_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    long = tmp_path / ("x" * 90)
    monkeypatch.setenv("PADDOCK_STATE", str(long))
    first = runtime_directory()
    try:
        assert len(os.fsencode(first)) <= 64
        assert first.stat().st_mode & 0o777 == 0o700
        assert first.parent.stat().st_mode & 0o777 == 0o700
        monkeypatch.setenv("PADDOCK_STATE", str(long) + "y")
        assert runtime_path() != first
    finally:
        first.rmdir()
    monkeypatch.setenv("PADDOCK_RUNTIME", str(long))
    with pytest.raises(ConfigError, match=r"PADDOCK_RUNTIME: .* too long"):
        runtime_directory()


def test_a_place_in_tmp_that_somebody_else_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("PADDOCK_STATE", str(tmp_path / ("x" * 90)))
    taken = tmp_path / "paddock-0"
    monkeypatch.setattr(state, "_in_tmp", lambda: taken)
    (tmp_path / "mine").mkdir(mode=0o755)
    taken.symlink_to(tmp_path / "mine")
    with pytest.raises(UnavailableError, match="is not a directory of yours"):
        runtime_directory()
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o755
    taken.unlink()
    assert runtime_directory().parent == taken
    assert taken.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def short_path() -> Iterator[Path]:
    """For sockets, whose paths cannot be long."""
    path = Path(mkdtemp(prefix="paddock-test-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize(
    ("variable", "words"), [("PADDOCK_RUNTIME", "runtime directory"), ("XDG_CONFIG_HOME", "your own paddock.toml")]
)
async def test_no_mount_reaches_them(
    variable: str, words: str, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/tmp/elsewhere")
    async with Sandbox.create("local", workspace=short_path / "w"):
        pass
    monkeypatch.setenv(variable, str(short_path / "w/own"))
    with pytest.raises(ConfigError, match=words):
        await Sandbox.create("local", workspace=short_path / "w")


def test_nothing_is_parsed_where_there_is_no_file() -> None:
    code = "import sys; from paddock.config import settings; settings(); sys.exit('tomllib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parent.parent / "docs/configuration.md").read_text()
    for option in OPTIONS.values():
        assert f"| `{option.name}` | `{option.variable}` |" in page


@pytest.mark.parametrize(("key", "more", "less"), [("timeout", '"none"', "5"), ("max_output", '"1t"', '"1k"')])
def test_what_a_project_sets_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, more: str, less: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paddock.toml").write_text(f"{key} = {less}\n")
    assert setting(key).source == str(tmp_path / "paddock.toml")
    (tmp_path / "paddock.toml").write_text(f"{key} =  {more}\n")
    with pytest.raises(ConfigError, match="at the most"):
        setting(key)


def test_a_file_that_nests_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paddock.toml").write_text("timeout = " + "[" * 50_000)
    with pytest.raises(ConfigError):
        setting("timeout")
