"""Several hosts at one supervisor: each for itself, whatever another does; and a sandbox that stays when they leave."""

import errno
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from paddock import cgroups
from paddock.backends.supervised.launch import Cgroup
from paddock.wire.channel import root_payload
from paddock.wire.fields import Fields, pack_text, pack_u32, pack_u64
from paddock.wire.frames import Reply, Request, SpawnFlag
from supervisor.host import Host
from supervisor.listening import Connection, Listening, eventually
from supervisor.marks import Mark
from supervisor.shapes import SHAPES
from wire.building import Sanitized

MOST = 64
QUIET_BY_DESCRIPTORS = SpawnFlag.QUIET | SpawnFlag.DESCRIPTORS


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    return Sanitized(tmp_path_factory.mktemp("sanitized"))


@pytest.fixture
def there(sanitized: Sanitized) -> Iterator[Listening]:
    """A supervisor that notices what it does wrong with memory."""
    with sanitized.clean(), Listening(program=sanitized.program) as supervisor:
        yield supervisor


@pytest.fixture(params=["cgroup", "keeper"])
def owner(request: pytest.FixtureRequest, mark: Mark) -> Iterator[Listening]:
    """With either of what holds a tree together."""
    parent = cgroups.parent() if request.param == "cgroup" else None
    if request.param == "keeper" or parent is None:
        with Listening() as supervisor:
            yield supervisor
        return
    cgroup = Cgroup(parent, f"{cgroups.NAME}{mark.value}")
    directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with Listening("--cgroup", str(directory), cgroup.name, inherited=(directory,)) as supervisor:
            yield supervisor
        assert not os.path.exists(cgroup.path)
    finally:
        os.close(directory)


# Each for itself


def test_the_same_numbers_mean_different_things(there: Listening, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with there.connect() as one, there.connect() as other:
        for host, name in ((one, "one"), (other, "other")):
            host.send(Request.ROOT, 70, root_payload(str(tmp_path / name)))
            os.close(host.wait(Reply.OK, 70).fds[0])
            host.send(Request.OPEN, 71, pack_u32(70) + pack_text(b"file"))
            host.wait(Reply.OPENED, 71)
            host.send(Request.WATCH, 72, pack_u32(70) + pack_text(b"") + pack_u32(73))
            host.wait(Reply.WATCHED, 72)
        numbers = [host.foreground(f"read word; echo {name}; exit {len(name)}") for host, name in _named(one, other)]
        assert numbers[0] == numbers[1]
        for host, name in _named(one, other):
            host.send(Request.READ, 74, pack_u32(71) + pack_u64(0) + pack_u32(100))
            assert host.wait(Reply.DATA, 74).payload == name.encode()
            assert host.printed(numbers[0], 1) == f"{name}\n".encode()
            assert host.ended(numbers[0]) == len(name)
        (tmp_path / "other" / "new").touch()
        changed = Fields(other.wait(Reply.CHANGED, 73).payload)
        changed.u32(), changed.u32()
        assert changed.text() == b"new"
        assert one.quiet(Reply.CHANGED, 73, 0.1)
        one.send(Request.CLOSE, 75, pack_u32(71))
        one.wait(Reply.OK, 75)
        other.send(Request.READ, 76, pack_u32(71) + pack_u64(0) + pack_u32(1))
        assert other.wait(Reply.DATA, 76).payload == b"o"


def _named(one: Connection, other: Connection) -> tuple[tuple[Connection, str], tuple[Connection, str]]:
    return (one, "one"), (other, "other")


@pytest.mark.parametrize(
    "noise", [b"\xff" * 12, b"GET / HTTP/1.1\r\n\r\n", struct.pack("<IBBHI", 1, 1, 0, 0, 1) + b"x"]
)
def test_one_that_breaks_the_protocol_ends_alone(there: Listening, noise: bytes) -> None:
    with there.connect() as good, there.connect() as bad:
        id, pid = good.background("read word; exit 3", flags=SpawnFlag.STDIN)
        bad.input.sendall(noise)
        assert [frame.type for frame in bad.last_words()] == [Reply.ERROR]
        assert good.processes() == {pid: id}
        assert good.works()
        good.send(Request.INPUT, id, b"\n")
        assert good.ended(id) == 3
    with there.connect() as later:
        assert later.works()


def test_descriptors_where_none_belong(there: Listening) -> None:
    with there.connect() as good, there.connect() as bad:
        before = _open_files(there)
        reading, writing = os.pipe()
        bad.send(Request.PROCESSES, 5, b"", [writing])
        os.close(writing)
        assert bad.last_words()[-1].type == Reply.ERROR
        assert os.read(reading, 1) == b""  # nobody holds the other end
        os.close(reading)
        assert good.works()
        assert eventually(lambda: _open_files(there) <= before)


def _open_files(there: Listening) -> int:
    return len(os.listdir(f"/proc/{there.process.pid}/fd"))


def test_what_a_host_held_is_given_back(there: Listening, tmp_path: Path) -> None:
    with there.connect() as stays:
        before = _open_files(there)
        with there.connect() as leaves:
            leaves.send(Request.ROOT, 70, root_payload(str(tmp_path)))
            os.close(leaves.wait(Reply.OK, 70).fds[0])
            for number in range(100, 150):
                leaves.send(Request.CREATE, number, pack_u32(70) + pack_text(b""))
                leaves.wait(Reply.OK, number)
                leaves.send(Request.WATCH, 1000 + number, pack_u32(70) + pack_text(b"") + pack_u32(number))
                leaves.wait(Reply.WATCHED, 1000 + number)
            assert len(list(tmp_path.iterdir())) == 50
            assert _open_files(there) > before + 100
        assert eventually(lambda: _open_files(there) <= before)
        assert list(tmp_path.iterdir()) == []  # files that never got their name
        assert stays.works()


def test_a_host_that_leaves_amid_long_requests(there: Listening, tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / str(number)).mkdir()
        for name in "abcdef":
            (tmp_path / str(number) / name).touch()
    with there.connect() as stays:
        with there.connect() as leaves:
            leaves.send(Request.ROOT, 70, root_payload(str(tmp_path)))
            os.close(leaves.wait(Reply.OK, 70).fds[0])
            for number in range(100):
                leaves.send(Request.REMOVE, 100 + number, pack_u32(70) + pack_text(b"%d" % number) + b"\1")
                leaves.send(Request.LIST, 1000 + number, pack_u32(70) + pack_text(b"") + b"\1")
        assert stays.works()


def test_one_that_never_reads(there: Listening, tmp_path: Path) -> None:
    """It fills its own queue, and nobody else's; its handles wait there as well."""
    (tmp_path / "large").write_bytes(bytes(1 << 18))
    with there.connect() as deaf, there.connect() as other:
        deaf.send(Request.ROOT, 70, root_payload(str(tmp_path)))
        deaf.send(Request.OPEN, 71, pack_u32(70) + pack_text(b"large"))
        deaf.spawn(["/bin/cat", "/dev/zero"], flags=SpawnFlag.QUIET, window=(1 << 32) - 1)
        for number in range(40):
            deaf.send(Request.READ, 100 + number, pack_u32(71) + pack_u64(0) + pack_u32(1 << 18))
        for number in range(100):
            deaf.send(Request.ROOT, 200 + number, root_payload(str(tmp_path)))
        for _ in range(20):
            assert other.works()
        assert _resident(there.process.pid) < 200 << 20  # of which the sanitizer takes most
        assert len(deaf.wait(Reply.DATA, 139).payload) == 1 << 18
        for number in range(100):
            os.close(deaf.wait(Reply.OK, 200 + number).fds[0])


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


@pytest.mark.soak
def test_one_that_takes_nothing_for_a_minute_is_ended(there: Listening) -> None:
    with there.connect() as deaf, there.connect() as other:
        id = deaf.spawn(["/bin/cat", "/dev/zero"], flags=SpawnFlag.QUIET, window=(1 << 32) - 1)
        reading, writing = os.pipe()
        by_descriptors = deaf.spawn(["/bin/sleep", "1000"], flags=QUIET_BY_DESCRIPTORS, fds=[writing, writing])
        assert by_descriptors == id + 1
        os.close(writing)
        assert other.works()
        assert os.read(reading, 1) == b""  # the end of its command, which is that of its connection
        os.close(reading)
        assert other.works()
        deaf.last_words()


def test_64_connections(there: Listening) -> None:
    hosts = [there.connect() for _ in range(MOST)]
    try:
        for _ in range(3):
            with there.connect(hello=False) as one_more:
                assert one_more.last_words() == []
        assert all(host.works() for host in hosts)
        hosts.pop().hang_up()
        assert eventually(lambda: _may_connect(there))
        assert hosts[0].works()
    finally:
        for host in hosts:
            host.hang_up()


def _may_connect(there: Listening) -> bool:
    try:
        with there.connect() as host:
            return host.works()
    except (EOFError, BrokenPipeError):
        return False


def test_one_that_says_no_hello(there: Listening) -> None:
    with there.connect() as good, there.connect(hello=False) as silent, there.connect(hello=False) as slow:
        slow.input.sendall(b"\6\0\0")
        assert silent.last_words() == []
        assert slow.last_words() == []
        assert good.works()
    with there.connect(hello=False) as rude:
        rude.send(Request.PROCESSES, 3)
        assert [frame.type for frame in rude.last_words()] == [Reply.ERROR]


def test_a_first_connection_that_is_there_from_the_start() -> None:
    ours, theirs = socket.socketpair()
    with Listening("--channel", str(theirs.fileno()), inherited=(theirs.fileno(),)) as there:
        theirs.close()
        first = Connection(ours)
        with there.connect() as second:
            assert first.works()
            assert second.works()
            first.hang_up()
            assert second.works()
        with there.connect() as third:
            assert third.works()


# Commands, and hosts that leave


def test_foreground_commands_die_with_their_connection(owner: Listening, mark: Mark) -> None:
    with owner.connect() as stays:
        with owner.connect() as leaves:
            for shape in SHAPES.values():
                leaves.spawn(shape.argv, {"PATH": os.environ["PATH"], **mark.env}, flags=SpawnFlag.QUIET)
            assert eventually(lambda: len(mark.pids()) >= sum(shape.size for shape in SHAPES.values()))
            assert stays.processes() == {}
        assert eventually(mark.gone)
        assert stays.works()


def test_one_that_leaves_at_once(owner: Listening, mark: Mark) -> None:
    with owner.connect() as stays:
        for _ in range(20):
            with owner.connect() as leaves:
                leaves.foreground("sleep 1000", mark.env)
                leaves.spawn(["/bin/true"], mark.env)
        assert eventually(mark.gone)
        assert eventually(lambda: stays.processes() == {})


def test_background_commands_live_on(owner: Listening, mark: Mark) -> None:
    with owner.connect() as leaves:
        id, pid = leaves.background("echo begun; read word; echo $word; exit 5", mark.env, flags=SpawnFlag.STDIN)
        leaves.printed(id, 6)
        leaves.send(Request.INPUT, id, b"on ")
    assert len(mark.pids()) == 1
    with owner.connect() as comes:
        assert eventually(lambda: comes.processes() == {pid: 0})
        again = comes.attach(pid)
        assert comes.pid(again) == pid
        assert comes.processes() == {pid: again}
        assert comes.printed(again, 6) == b"begun\n"
        comes.send(Request.INPUT, again, b"we go\n")
        assert comes.printed(again, 9) == b"on we go\n"
        assert comes.ended(again) == 5
    assert eventually(mark.gone)


def test_one_that_is_left_to_itself_ends_unheard(there: Listening, mark: Mark) -> None:
    """However soon it ends, and whoever is there."""
    with there.connect() as one, there.connect() as other:
        for script in ("echo word; exit 7", "sleep 0.1; echo word; exit 7"):
            id = one.spawn(["/bin/sh", "-c", script], mark.env, flags=SpawnFlag.LEFT, window=0, keep=100)
            pid = one.pid(id)
            assert eventually(mark.gone)
            assert one.quiet(Reply.ENDED, id, 0.05)
            again = other.attach(pid)
            assert other.pid(again) == pid
            assert other.printed(again, 5) == b"word\n"
            assert other.ended(again) == 7
            assert _failure(one, one.attach(pid)) == errno.ESRCH


def test_the_end_of_one_that_its_owner_killed_is_no_news(there: Listening, mark: Mark) -> None:
    """Nor if the owner does not wait for it. One that somebody else ended is."""
    with there.connect() as leaves:
        id, killed = leaves.background("exec sleep 1000", mark.env)
        leaves.send(Request.KILL, id)
    with there.connect() as leaves:
        _, other = leaves.background("exec sleep 1000", mark.env)
    with there.connect() as comes:
        assert eventually(lambda: set(comes.processes()) == {other})
        os.kill(other, signal.SIGKILL)
        assert eventually(mark.gone)
        assert comes.ended(comes.attach(other)) == 137
        assert _failure(comes, comes.attach(killed)) == errno.ESRCH


def test_without_an_owner_nothing_blocks(there: Listening) -> None:
    """It prints far more than its pipe and its window hold, and both of its streams are kept."""
    script = (
        "i=0; while [ $i -lt 40000 ]; do echo 1234567; i=$((i + 1)); done; echo end; echo end >&2; read word; exit 6"
    )
    with there.connect() as leaves:
        id = leaves.spawn(["/bin/sh", "-c", script], flags=SpawnFlag.STDIN, window=10, keep=1000)
        pid = leaves.pid(id)
        leaves.printed(id, 10)
    with there.connect() as comes:
        reader = comes.attach(pid)
        found = b""
        while b"end\nend\n" not in found:
            found += comes.printed(reader, 1)
            found = found[-1008:]
        comes.send(Request.INPUT, reader, b"\n")
        assert comes.ended(reader) == 6


def test_what_was_kept_while_nobody_was_there(there: Listening, tmp_path: Path) -> None:
    done = tmp_path / "done"
    with there.connect() as leaves:
        _, pid = leaves.background(
            f"read word; seq 1 100000; touch {done}; read word; exit 2",
            {"PATH": "/bin:/usr/bin"},
            flags=SpawnFlag.STDIN,
            keep=14,
        )
        leaves.send(Request.INPUT, 2, b"\n")
    assert eventually(done.exists)
    with there.connect() as comes:
        again = comes.attach(pid)
        assert comes.printed(again, 14) == b"\n99999\n100000\n"
        comes.send(Request.INPUT, again, b"\n")
        assert comes.ended(again) == 2


def test_children_of_a_command_that_has_ended_live_on(owner: Listening, mark: Mark) -> None:
    with owner.connect() as leaves:
        id = leaves.foreground("sleep 1000 & exit 0", {"PATH": "/bin:/usr/bin", **mark.env})
        assert leaves.ended(id) == 0
    with owner.connect() as other:
        assert other.works()
        assert len(mark.pids()) == 1


def test_a_terminal(there: Listening) -> None:
    script = "stty -echo; echo begun; read word; stty size; exit 4"
    with there.connect() as leaves:
        id = leaves.spawn(["/bin/sh", "-c", script], {"PATH": "/bin:/usr/bin"}, flags=SpawnFlag.PTY, keep=1000)
        pid = leaves.pid(id)
        leaves.printed(id, 7)
    with there.connect() as comes:
        again = comes.attach(pid)
        assert comes.printed(again, 7) == b"begun\r\n"
        comes.send(Request.RESIZE, again, struct.pack("<HH", 50, 132))
        comes.send(Request.INPUT, again, b"\n")
        assert comes.printed(again, 8) == b"50 132\r\n"
        assert comes.ended(again) == 4


# Changing hands


def test_taking_over(there: Listening, mark: Mark) -> None:
    with there.connect() as one, there.connect() as other:
        first, pid = one.background("echo begun; read word; echo $word; exit 5", mark.env, flags=SpawnFlag.STDIN)
        one.printed(first, 6)
        second = other.attach(pid)
        assert other.pid(second) == pid
        assert _failure(one, first) == errno.ESTALE
        assert other.printed(second, 6) == b"begun\n"
        assert (one.processes(), other.processes()) == ({pid: 0}, {pid: second})
        one.send(Request.INPUT, first, b"not mine\n")
        one.send(Request.SIGNAL, first, b"\x0f")
        one.kill(first)
        assert len(mark.pids()) == 1
        other.send(Request.INPUT, second, b"mine\n")
        assert other.printed(second, 5) == b"mine\n"
        assert other.ended(second) == 5
        assert one.quiet(Reply.ENDED, first, 0.05)
        assert one.works()


def test_taking_over_and_back(there: Listening) -> None:
    with there.connect() as one, there.connect() as other:
        _, pid = one.background("read word; exit 5", flags=SpawnFlag.STDIN)
        for _ in range(20):
            for host, before in ((other, one), (one, other)):
                id = host.attach(pid)
                assert host.pid(id) == pid
                assert before.processes() == {pid: 0}
        one.send(Request.INPUT, id, b"\n")
        assert one.ended(id) == 5


def test_it_dies_with_nobody_who_had_it_before(there: Listening) -> None:
    with there.connect() as stays:
        with there.connect() as leaves:
            _, pid = leaves.background("read word; exit 5", flags=SpawnFlag.STDIN)
            id = stays.attach(pid)
            stays.pid(id)
        assert stays.processes() == {pid: id}
        stays.send(Request.INPUT, id, b"\n")
        assert stays.ended(id) == 5


def _failure(host: Connection, id: int) -> int | None:
    try:
        host.wait(Reply.GONE, id)
    except OSError as error:
        return error.errno
    return None


def test_what_cannot_be_attached(there: Listening) -> None:
    with there.connect() as one, there.connect() as other, open(os.devnull, "w") as null:
        quiet = one.foreground("echo $$; sleep 1000")
        pid = int(one.printed(quiet, 2))
        id = one.spawn(["/bin/sleep", "1000"], flags=SpawnFlag.DESCRIPTORS, fds=[null.fileno()] * 2)
        by_descriptors = one.pid(id)
        assert one.processes() == {pid: quiet, by_descriptors: id}
        assert other.processes() == {by_descriptors: 0}
        for number, error in ((pid, errno.ESRCH), (by_descriptors, errno.ENOTSUP), (1, errno.ESRCH), (0, errno.ESRCH)):
            assert _failure(other, other.attach(number)) == error
        assert one.pid(one.attach(pid)) == pid  # its own it may
        assert one.pid(one.attach(by_descriptors)) == by_descriptors
        assert other.works()


# The end of all


def test_the_end(owner: Listening, mark: Mark) -> None:
    with owner.connect() as one, owner.connect() as other:
        env = {"PATH": os.environ["PATH"], **mark.env}
        for shape in SHAPES.values():
            one.spawn(shape.argv, env)
            other.spawn(shape.argv, env, flags=SpawnFlag.QUIET)
        assert eventually(lambda: len(mark.pids()) >= 2 * sum(shape.size for shape in SHAPES.values()))
        one.send(Request.END, 3)
        one.last_words()
        assert mark.gone()
        other.last_words()
        assert owner.wait() == 0


def test_the_end_of_one_with_a_single_channel(tmp_path: Path, mark: Mark) -> None:
    with Host(directory=tmp_path) as host:
        host.spawn(["/bin/sleep", "1000"], mark.env)
        host.send(Request.END, 3)
        host.last_words()
        assert mark.gone()
        assert host.process.wait(30) == 0


def test_idle_when_nobody_comes() -> None:
    with Listening("--idle", "1") as there:
        assert there.wait() == 0


def test_idle_when_the_last_has_left(mark: Mark) -> None:
    with Listening("--idle", "1") as there:
        with there.connect() as host:
            assert host.quiet(Reply.ENDED, 1, 2.5)  # not while somebody is there
            assert host.works()
            host.background("sleep 2.5", {"PATH": "/bin:/usr/bin", **mark.env})
        assert eventually(mark.gone)
        assert there.process.poll() is None  # not while a command ran
        assert there.wait() == 0


def test_idle_with_a_single_channel(tmp_path: Path) -> None:
    with Host("--idle", "1", directory=tmp_path) as host:
        id = host.spawn(["/bin/sleep", "2.5"])
        host.wait(Reply.ENDED, id)
        for _ in range(6):  # somebody who speaks is there
            assert host.quiet(Reply.ENDED, id, 0.3)
            host.send(Request.SIGNAL, id, b"\1")
        assert host.last_words() is not None
        assert host.process.wait(30) == 0


def test_lifetime(mark: Mark) -> None:
    with Listening("--lifetime", "2") as there, there.connect() as host:
        host.background("trap '' TERM HUP; sleep 1000", {"PATH": "/bin:/usr/bin", **mark.env})
        assert host.works()
        host.last_words()
        assert mark.gone()
        assert there.wait() == 0


def test_lifetime_with_a_single_channel(tmp_path: Path, mark: Mark) -> None:
    with Host("--lifetime", "1", directory=tmp_path) as host:
        host.spawn(["/bin/sleep", "1000"], mark.env)
        host.last_words()
        assert mark.gone()
        assert host.process.wait(30) == 0


def test_what_is_held_is_held_until_the_end(tmp_path: Path, mark: Mark) -> None:
    """And by nobody but the supervisor: neither a command nor a keeper."""
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = Listening("--hold", str(lock.fileno()), inherited=(lock.fileno(),))
    with held, open(tmp_path / "lock", "w") as again, held.connect() as host:
        host.background("exec sleep 1000", {"PATH": "/bin:/usr/bin", **mark.env})
        assert not _may_lock(again)
        assert eventually(mark.pids)  # as the shell becomes another program, it has no environment to be known by
        (command,) = mark.pids()
        assert str(tmp_path / "lock") not in _open_in(command)
        held.status = -signal.SIGKILL
        held.process.kill()
        assert eventually(lambda: _may_lock(again))
    assert eventually(mark.gone)


def _may_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_in(pid: int) -> set[str]:
    return {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
