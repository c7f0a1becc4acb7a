"""The cgroups of a sandbox: real ones of this host, and a tree that behaves like those of others."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fake_cgroup2 import FakeCgroup2
from paddock import Limits, cgroups
from paddock.cgroups import files, group, hierarchies, knobs, places
from paddock.cgroups.knobs import Knob
from paddock.state import PrivateDirectory, sweep

JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 99; shift; done; shift; exec "$@"'
HOG = "x = b'x' * (256 << 20)"
BOMB = """
import os, time
os.closerange(0, 3)  # nobody waits for the children
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
except BlockingIOError:
    os._exit(3)
"""
SPIN = """
import time
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
print(time.process_time())
"""
DROP = "import os; os.setgroups([]); os.setgid(200000); os.setuid(200000); "
ALL = Limits(memory="48m", cpu=0.2, pids=16)


def name() -> str:
    return f"{cgroups.NAME}test-{os.getpid()}-{os.urandom(3).hex()}"


def holds(limits: Limits) -> bool:
    made = cgroups.make(name(), limits)
    made.remove()
    return limits.asked() <= made.held.keys()


def in_version_2(*controllers: str) -> bool:
    place = places.find(frozenset(controllers))
    return place is not None and place.controllers == frozenset(controllers)


needs_limits = pytest.mark.skipif(not holds(ALL), reason="this host lets us hold no memory, cpu and pids by cgroups")
needs_cgroup2 = pytest.mark.skipif(cgroups.parent() is None, reason="no cgroup2 that we may use")
needs_controllers = pytest.mark.skipif(
    not in_version_2("memory", "cpu", "pids"), reason="the cgroup2 of this host has no controllers"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a cgroup away")


def run_in(made: cgroups.Group, *words: str) -> subprocess.CompletedProcess[str]:
    entered = [] if made.directory is None else [made.directory]
    command = ["sh", "-c", JOIN, "sh", *entered, *made.joined, "--", *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


def python(made: cgroups.Group, script: str) -> subprocess.CompletedProcess[str]:
    return run_in(made, sys.executable, "-SEc", script)


def gone(made: cgroups.Group) -> bool:
    return not any(os.path.exists(path) for path in made.paths)


@pytest.fixture
def made() -> Iterator[cgroups.Group]:
    limited = cgroups.make(name(), ALL)
    yield limited
    limited.remove()


class TestReal:
    @needs_limits
    def test_a_memory_hog_is_killed_and_counted(self, made: cgroups.Group) -> None:
        assert python(made, "").returncode == 0
        assert made.hits()["memory"] == 0
        assert python(made, HOG).returncode == -signal.SIGKILL
        assert made.hits()["memory"] == 1

    @needs_limits
    def test_the_rest_outlives_the_hog(self, made: cgroups.Group) -> None:
        script = f'{sys.executable} -SEc "{HOG}"; echo $?'
        assert run_in(made, "sh", "-c", script).stdout.split()[-1] == "137"

    @needs_limits
    def test_no_more_processes_and_counted(self, made: cgroups.Group) -> None:
        assert python(made, "import os; os.fork()").returncode == 0
        assert made.hits()["pids"] == 0
        assert python(made, BOMB).returncode == 3
        assert made.hits()["pids"] > 0

    @needs_limits
    def test_processors(self, made: cgroups.Group) -> None:
        assert float(python(made, SPIN).stdout) < 0.5

    @needs_limits
    def test_removal_ends_what_is_left(self, made: cgroups.Group) -> None:
        python(made, BOMB)  # which leaves its children
        made.remove()
        assert gone(made)
        assert made.hits() == {}
        made.remove()

    @needs_limits
    def test_says_by_what(self, made: cgroups.Group) -> None:
        assert made.held.keys() == {"memory", "cpu", "pids"}
        assert all(by.startswith(("cgroup v1 ", "cgroup v2 ")) for by in made.held.values())
        assert bool(made.joined) == any("v1" in by for by in made.held.values())

    @needs_limits
    def test_a_number_that_the_kernel_does_not_take(self) -> None:
        made = cgroups.make(name(), Limits(cpu=0.0001, memory="64m"))
        assert made.held.keys() - {"pids"} == {"memory"}
        assert not any("/cpu" in path for path in made.joined)
        made.remove()

    @needs_cgroup2
    def test_defaults_cost_no_entering(self) -> None:
        made = cgroups.make(name(), Limits())
        assert made.directory is not None
        assert made.joined == ()
        assert run_in(made, "cat", "/proc/self/cgroup").stdout.count(made.paths[0].rsplit("/", 1)[1]) == 1
        made.remove()
        assert gone(made)

    def test_names_that_are_not_ours(self, tmp_path: Path) -> None:
        for wrong in ("other", "paddock-x/../y"):
            with pytest.raises(ValueError, match="ours"):
                cgroups.make(wrong, Limits())
        with pytest.raises(ValueError, match="ours"):
            cgroups.remove(str(tmp_path))
        assert tmp_path.exists()

    @needs_limits
    def test_noted_before_it_is_made(self) -> None:
        noted: list[str] = []

        def note(paths: tuple[str, ...]) -> None:
            noted.extend(paths)
            assert not any(os.path.exists(path) for path in paths)

        made = cgroups.make(name(), ALL, note=note)
        made.remove()
        assert tuple(noted) == made.paths

    @needs_limits
    def test_half_way_leaves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        noted: list[str] = []
        write, written = files.write, []

        def interrupted(path: str, text: str) -> None:
            written.append(path)
            if "pids.max" in path:
                raise KeyboardInterrupt
            write(path, text)

        monkeypatch.setattr(files, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cgroups.make(name(), ALL, note=noted.extend)
        assert written
        assert not any(os.path.exists(path) for path in noted)

    @needs_root
    @needs_cgroup2
    def test_the_owner_can_make_cgroups_in_it(self) -> None:
        """As a supervisor does: from inside the cgroup, as the other user."""
        made = cgroups.make(name(), Limits(), owner=(200_000, 200_000))
        move = f"mkdir {made.directory}/c1 && echo $$ > {made.directory}/c1/cgroup.procs"
        away = f"echo $$ > {os.path.dirname(made.paths[0])}/cgroup.procs"
        assert python(made, DROP + f"os.execv('/bin/sh', ['sh', '-c', {move!r}])").returncode == 0
        assert python(made, DROP + f"os.execv('/bin/sh', ['sh', '-c', {away!r}])").returncode != 0
        made.remove()
        assert gone(made)


CRASH = """
import os, signal, subprocess, sys
from paddock import Limits, cgroups
from paddock.state import PrivateDirectory
private = PrivateDirectory("sb-crash")
made = cgroups.make(sys.argv[1], Limits(memory="48m", cpu=0.2, pids=16), note=private.note_cgroups)
left = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
for directory in (*made.joined, made.directory):
    if directory is not None:
        with open(directory + "/cgroup.procs", "w") as file:
            file.write(str(left.pid))
print(left.pid, *made.paths, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_limits
def test_a_crash_is_swept() -> None:
    crashed = subprocess.run([sys.executable, "-c", CRASH, name()], stdout=subprocess.PIPE, text=True, check=False)
    pid, *paths = crashed.stdout.split()
    assert crashed.returncode == -signal.SIGKILL
    assert all(os.path.exists(path) for path in paths)
    assert sweep() == 1
    assert not any(os.path.exists(path) for path in paths)
    assert _ended(int(pid))


def _ended(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                time.sleep(0.01)
                continue
        return True
    return False


def test_notes_are_lines_of_the_lock(tmp_path: Path) -> None:
    mine = PrivateDirectory("sb-mine")
    mine.note_cgroups(["/a/long/path", "/another"])
    mine.note_socket("/b")
    assert (tmp_path / "state/sandboxes/sb-mine.lock").read_text() == "/a/long/path\n/another\n/b"
    mine.remove()


class TestControllers:
    """Controllers of version 2 on a real kernel. hugetlb is often free for it where the others are in version 1."""

    @pytest.fixture(autouse=True)
    def hugetlb(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
        top = Path(hierarchies.own().top)
        control = top / "cgroup.subtree_control"
        free = (top / "cgroup.controllers").read_text().split() if (top / "cgroup.controllers").exists() else []
        if os.geteuid() != 0 or "hugetlb" not in free or not (top / "cgroup.procs").read_text():
            pytest.skip("needs root, and hugetlb in the root of cgroup2")
        was = control.read_text().split()
        knob = Knob(settings=(("hugetlb.2MB.max", "4194304"),), counter=("hugetlb.2MB.events", "max"))
        monkeypatch.setitem(knobs._UNIFIED, "hugetlb", lambda limits: knob)
        self.top, self.outer = top, top / name()
        yield
        cgroups.remove(str(self.outer))
        if "hugetlb" not in was:
            control.write_text("-hugetlb")

    def _live_in(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        """As if this process were there; a real one is."""
        (tmp_path / "cgroup").write_text(f"0::/{directory.relative_to(self.top)}\n")
        (tmp_path / "mountinfo").write_text(Path("/proc/self/mountinfo").read_text())
        monkeypatch.setattr(hierarchies, "PROC", str(tmp_path))

    def test_the_nearest_that_can_give_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (self.outer / "scope").mkdir(parents=True)
        (self.top / "cgroup.subtree_control").write_text("+hugetlb")
        process = subprocess.Popen(["sh", "-c", f"echo $$ > {self.outer}/scope/cgroup.procs && echo && read x"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        self._live_in(tmp_path, monkeypatch, self.outer / "scope")
        assert places.find(frozenset()) == places.Place(str(self.outer / "scope"), frozenset())
        assert places.find(frozenset({"hugetlb"})) == places.Place(str(self.outer), frozenset({"hugetlb"}))
        assert (self.outer / "scope/cgroup.subtree_control").read_text() == ""
        process.communicate()

    def test_a_user_with_a_slice_of_its_own(self) -> None:
        (self.outer / "scope").mkdir(parents=True)
        (self.top / "cgroup.subtree_control").write_text("+hugetlb")
        for directory in (self.outer, self.outer / "scope"):
            group._delegate(str(directory), (200_000, 200_000))
        child = os.fork()
        if child == 0:
            os._exit(self._as_user())
        assert os.waitpid(child, 0)[1] == 0
        assert [path.name for path in self.outer.iterdir() if path.is_dir()] == ["scope"]

    def _as_user(self) -> int:
        """What an ordinary user does that lives in `scope`: make a group beside it, enter it, leave nothing."""
        (self.outer / "scope/cgroup.procs").write_text("0")
        os.setgroups([])
        os.setgid(200_000)
        os.setuid(200_000)
        place = places.find(frozenset({"hugetlb"}))
        if place is None or place.directory != str(self.outer):
            return 1
        made = group._make_unified(place, name(), Limits(), None)
        if made is None or not made.held:
            return 2
        files.write(f"{made.entered}/cgroup.procs", "0")
        files.write(str(self.outer / "scope/cgroup.procs"), "0")
        cgroups.remove(made.path)
        return 0

    def test_limits_that_the_owner_cannot_change(self) -> None:
        made = self._made()
        assert made.held == {"hugetlb": "cgroup v2 hugetlb.2MB.max"}
        directory = Path(made.entered)
        assert directory.stat().st_uid == (directory / "cgroup.procs").stat().st_uid == 200_000
        assert (directory / "hugetlb.2MB.max").stat().st_uid == 0
        assert (directory / "hugetlb.2MB.max").read_text() == "4194304\n"
        (directory / "command").mkdir()
        cgroups.remove(made.path)

    def test_nobody_takes_them_away(self) -> None:
        made = self._made()
        with pytest.raises(OSError) as refused:  # noqa: PT011 - see below
            files.write(str(self.top / "cgroup.subtree_control"), "-hugetlb")
        assert refused.value.errno == errno.EBUSY
        cgroups.remove(made.path)
        files.write(str(self.top / "cgroup.subtree_control"), "-hugetlb")

    def _made(self) -> group._Part:
        place = places.Place(str(self.top), frozenset({"hugetlb"}))
        made = group._make_unified(place, self.outer.name, Limits(), (200_000, 200_000))
        assert made is not None
        return made


@needs_controllers
def test_real_controllers_of_version_2() -> None:
    made = cgroups.make(name(), ALL)
    assert set(made.held.values()) == {"cgroup v2 memory.max", "cgroup v2 cpu.max", "cgroup v2 pids.max"}
    assert made.joined == ()
    assert python(made, HOG).returncode == -signal.SIGKILL
    assert python(made, BOMB).returncode == 3
    assert made.hits()["memory"] == 1
    assert made.hits()["pids"] > 0
    made.remove()
    assert gone(made)


class TestUser:
    """An ordinary user in the slices of systemd."""

    APPS = "user.slice/user@1000.service/app.slice"

    @pytest.fixture
    def fake(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCgroup2:
        fake = FakeCgroup2(tmp_path / "cg", tmp_path / "proc", monkeypatch, "cpu memory pids")
        for path, enabled in (
            ("", "cpu memory pids"),
            ("user.slice", "cpu memory pids"),
            ("user.slice/user@1000.service", "cpu memory pids"),
            (self.APPS, "memory pids"),
        ):
            fake.slice(path, enabled)
        fake.closed = {fake.top, fake.top / "user.slice"}
        fake.live_in(f"{self.APPS}/terminal.scope")
        return fake

    def test_beside_its_own(self, fake: FakeCgroup2) -> None:
        made = cgroups.make("paddock-a", Limits(pids=1000))
        assert made.directory == str(fake.top / self.APPS / "paddock-a/sandbox")
        assert made.paths == (str(fake.top / self.APPS / "paddock-a"),)
        assert made.held == {"pids": "cgroup v2 pids.max"}
        assert Path(made.directory, "pids.max").read_text() == "1000"
        assert Path(made.paths[0], "cgroup.subtree_control").read_text() == "pids"
        assert (fake.top / self.APPS / "terminal.scope/cgroup.procs").read_text() == "1\n"
        made.remove()
        assert gone(made)

    def test_all_limits(self, fake: FakeCgroup2) -> None:
        made = cgroups.make("paddock-a", Limits(memory="64m", cpu=1.5, pids=99))
        assert made.directory is not None
        directory = Path(made.directory)
        wanted = {"memory.max": f"{64 << 20}", "memory.swap.max": "0", "cpu.max": "150000 100000", "pids.max": "99"}
        assert {name: (directory / name).read_text() for name in wanted} == wanted
        assert set((fake.top / self.APPS / "cgroup.subtree_control").read_text().split()) == {"cpu", "memory", "pids"}
        (directory / "memory.events").write_text("oom 4\noom_kill 2\noom_group_kill 7\n")
        (directory / "pids.events").write_text("max 5\n")
        assert made.hits() == {"memory": 2, "pids": 5}
        made.remove()

    def test_small_shares_of_a_processor(self, fake: FakeCgroup2) -> None:
        made = cgroups.make("paddock-a", Limits(cpu=0.005))
        assert Path(f"{made.directory}/cpu.max").read_text() == "5000 1000000"
        made.remove()

    def test_more_than_there_can_be(self, fake: FakeCgroup2) -> None:
        made = cgroups.make("paddock-a", Limits(cpu=10**9, pids=2_000_000_000))
        assert Path(f"{made.directory}/cpu.max").read_text() == "819200000 100000"
        assert Path(f"{made.directory}/pids.max").read_text() == "4194304"
        made.remove()

    @pytest.mark.parametrize("limits", [Limits(), Limits(pids=None)])
    def test_where_nothing_was_asked_for_it_is_in_its_own(self, fake: FakeCgroup2, limits: Limits) -> None:
        made = cgroups.make("paddock-a", limits)
        assert made.directory == made.paths[0] == str(fake.top / self.APPS / "terminal.scope/paddock-a")
        assert made.held == {}
        made.remove()

    def test_a_controller_that_is_not_delegated(self, fake: FakeCgroup2) -> None:
        fake.slice("user.slice", "memory pids")
        for path in ("user.slice/user@1000.service", self.APPS):
            (fake.top / path / "cgroup.controllers").write_text("memory pids")
        (fake.top / "user.slice/user@1000.service/cgroup.subtree_control").write_text("memory pids")
        made = cgroups.make("paddock-a", Limits(cpu=1, memory="64m"))
        assert made.held.keys() == {"memory", "pids"}
        assert made.joined == ()
        made.remove()

    def test_a_controller_that_was_taken_away_is_asked_for_again(self, fake: FakeCgroup2) -> None:
        cgroups.make("paddock-a", Limits(cpu=1)).remove()
        fake.slice(self.APPS, "memory pids")
        made = cgroups.make("paddock-a", Limits(cpu=1))
        assert made.held.keys() == {"cpu", "pids"}
        made.remove()

    def test_a_session_without_delegation(self, fake: FakeCgroup2) -> None:
        fake.live_in("user.slice/session-1.scope")
        fake.closed.add(fake.top / "user.slice/session-1.scope")
        made = cgroups.make("paddock-a", Limits(memory="64m"))
        assert made == cgroups.Group(None, (), {}, (), {})
        assert cgroups.parent() is None
        made.remove()

    def test_nobody_can_be_born_there(self, fake: FakeCgroup2) -> None:
        (fake.top / self.APPS / "cgroup.procs").unlink()  # which root too may not write
        made = cgroups.make("paddock-a", Limits(memory="64m"))
        assert made.paths == (str(fake.top / "user.slice/user@1000.service/paddock-a"),)
        made.remove()

    def test_root_may_give_while_it_has_processes(self, fake: FakeCgroup2) -> None:
        fake.closed = set()
        fake.slice("", "", pids="1\n")
        (fake.proc / "cgroup").write_text("0::/\n")
        made = cgroups.make("paddock-a", Limits(memory="64m"))
        assert made.paths == (str(fake.top / "paddock-a"),)
        assert made.held.keys() == {"memory", "pids"}
        made.remove()

    def test_no_room_half_way(self, fake: FakeCgroup2, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(path: str) -> None:
            if path.endswith("/sandbox"):
                raise OSError(errno.EAGAIN, "too many cgroups")
            fake.make(path)

        monkeypatch.setattr(files, "make", full)
        made = cgroups.make("paddock-a", Limits(pids=100))
        assert made == cgroups.Group(None, (), {}, (), {})
        assert not list(fake.top.rglob(f"{cgroups.NAME}*"))


def test_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup").write_text("5:cpu,cpuacct:/box/job\n4:memory:/else\n3:name=systemd:/box\n0::/box/a b\n")
    (tmp_path / "mountinfo").write_text(
        "30 20 0:1 / /sys rw - sysfs sysfs rw\n"
        "31 20 0:2 /box /cg/cpu,cpuacct rw shared:3 - cgroup cgroup rw,cpu,cpuacct\n"
        "32 20 0:3 /box /cg/memory rw - cgroup cgroup rw,memory\n"
        "33 20 0:4 /box /cg/of\\040two rw - cgroup2 none rw,nsdelegate\n"
        "34 20 0:4 / /again rw - cgroup2 none rw\n"
    )
    monkeypatch.setattr(hierarchies, "PROC", str(tmp_path))
    found = hierarchies.own()
    assert (found.unified, found.top) == ("/cg/of two/a b", "/cg/of two")
    assert found.old == {"cpu": "/cg/cpu,cpuacct/job", "cpuacct": "/cg/cpu,cpuacct/job"}
    monkeypatch.setattr(hierarchies, "PROC", str(tmp_path / "missing"))
    assert hierarchies.own() == hierarchies.Own()
    assert cgroups.make("paddock-a", ALL).held == {}


def test_who_is_killed_while_trying_leaves_nothing_for_long(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for pid in (ended.pid, os.getpid()):
        (tmp_path / f"paddock-trial-{pid}-abc123").mkdir()
    (tmp_path / "paddock-sb-000000000000").mkdir()
    places.clear(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "paddock-sb-000000000000",
        f"paddock-trial-{os.getpid()}-abc123",
    ]
