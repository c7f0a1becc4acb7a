"""What a sandbox's processes are, what they have, and whom they can reach."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from paddock import Sandbox
from security import inside
from security.suite import REFUSED, Backend, Suite, ask, failed, not_refused, own_id
from supervisor.marks import Mark, until

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
NOTHING = "0000000000000000"
RIGHTS = {"Seccomp": "2", "NoNewPrivs": "1", "CapInh": NOTHING, "CapPrm": NOTHING, "CapEff": NOTHING, "CapAmb": NOTHING}


def owners(pid: int) -> set[int]:
    """The user ids of a process, seen from here."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {int(word) for line in lines if line.startswith(("Uid:", "Gid:")) for word in line.split()[1:]}


def numbers(pid: int) -> list[int]:
    """What a process is called in each namespace, from here inwards."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(word) for line in lines if line.startswith("NSpid:") for word in line.split()[1:]]


def ancestors(pid: int, top: int) -> list[int]:
    """A process and those above it, up to and without `top`."""
    found = []
    while pid not in (top, 0):
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def _at_its_end(pipe: int) -> bool:
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:  # somebody has the other end
        return False


async def sleeper(sb: Sandbox) -> int:
    """A command in the sandbox: its pid on this host."""
    mark = Mark()
    await sb.start(["sleep", "100"], env=mark.env)
    assert await until(mark.pids)
    return mark.pids()[0]


class ProcessesSecurity(Suite):
    """Processes of the sandbox, of the host, and the rights of all."""

    async def test_every_process_is_locked_in(self, sb: Sandbox) -> None:
        """The first one too, commands with and without a terminal, and whatever they leave behind."""
        await sb.exec("setsid sleep 100 & (sleep 100 &)")
        await sb.start(["sleep", "100"], pty=True)
        found = await ask(sb, inside.statuses, list(RIGHTS))
        assert len(found) >= 5
        assert "1" in found
        assert {pid: told for pid, told in found.items() if told[1:] != list(RIGHTS.values())} == {}

    async def test_no_capability_can_come_back(self, sb: Sandbox) -> None:
        found = await ask(sb, inside.statuses, ["CapBnd"])
        assert {told[1] for told in found.values()} == {NOTHING}

    async def test_nobody_else_can_be_become(self, sb: Sandbox) -> None:
        for other in (0, 1, 1001, 65534):
            assert not_refused(await ask(sb, inside.become, other), REFUSED | {"EINVAL"}) == {}
        user = await own_id(sb)
        assert user != 0
        own = await ask(sb, inside.become, user)
        own.pop("setgroups")
        assert set(own.values()) == {"ok"}

    async def test_set_uid_programs_give_nothing(self, backend: Backend, tmp_path: Path) -> None:
        """One of the host's user, which is root if this run is."""
        (tmp_path / "ws").mkdir()
        shutil.copy("/usr/bin/id", tmp_path / "ws/id")
        (tmp_path / "ws/id").chmod(0o6755)
        async with Sandbox.create(backend, workspace=tmp_path / "ws") as sb:
            assert (await sb.exec("./id -u; ./id -ru; ./id -g")).stdout.split() == [str(await own_id(sb))] * 3

    async def test_never_root_on_the_host(self, sb: Sandbox, contained: bool) -> None:
        pid = await sleeper(sb)
        chain = [process for process in ancestors(pid, os.getpid()) if not contained or len(numbers(process)) > 1]
        assert len(chain) >= 2
        for process in chain:
            if os.geteuid() == 0:
                assert not owners(process) & {0, os.getgid()}, process
            else:
                assert owners(process) <= {os.geteuid(), os.getegid()}

    async def test_processes_of_the_host_are_not_seen(self, sb: Sandbox) -> None:
        mark = Mark()
        words = ["sleep", f"100.{int(mark.value[:8], 16)}"]
        with subprocess.Popen(words, env={**os.environ, **mark.env}) as host:
            try:
                told = await ask(sb, inside.everything_told_of_processes)
                assert mark.value not in told
                assert words[1] not in told
                pids = [pid for pid in (host.pid, os.getpid(), os.getppid()) if pid > 100]
                assert not_refused(await ask(sb, inside.signal_processes, pids), {"ESRCH"}) == {}
                await sb.exec("kill -9 -1", timeout=30)
                assert host.poll() is None
            finally:
                host.kill()
        assert (await sb.exec("sleep 100 & kill -0 $! && kill $! && echo mine")).stdout == "mine\n"

    async def test_few_processes(self, sb: Sandbox) -> None:
        """The first one is the supervisor, and knows nothing of the host's."""
        found = await ask(sb, inside.statuses, ["PPid"])
        assert len([told for told in found.values() if told[0] != "init"]) == 1
        assert len(found) <= 6
        told = await ask(sb, inside.everything_told_of_processes)
        assert "bwrap" not in told
        assert "--bind" not in told

    async def test_the_first_process_is_out_of_reach(self, sb: Sandbox) -> None:
        secret = [
            f"/proc/1/{name}"
            for name in ("mem", "environ", "maps", "fd", "root", "cwd", "map_files", "syscall", "stack")
        ]
        assert not_refused(await ask(sb, inside.read, secret)) == {}
        assert (
            not_refused(await ask(sb, inside.open_to_write, ["/proc/1/mem", "/proc/1/clear_refs", "/proc/1/comm"]))
            == {}
        )
        for number in ("KILL", "STOP", "TERM", "INT", "HUP", "SEGV", "ABRT", "USR1", "CHLD"):
            await sb.exec(["kill", f"-{number}", "1"])
        await ask(sb, inside.queue_signal, 1, signal.SIGTERM)
        assert set((await ask(sb, inside.read, ["/proc/self/environ", "/proc/self/maps"])).values()) == {"ok"}

    async def test_limits_of_others(self, sb: Sandbox) -> None:
        """A bound on the time or the descriptors of the first process would end the sandbox."""
        assert set((await ask(sb, inside.bound, [1, "parent"])).values()) == {"EPERM"}
        assert set((await ask(sb, inside.bound, [0])).values()) == {"ok"}
        assert (await sb.exec("ulimit -n 100; ulimit -n")).stdout == "100\n"

    async def test_no_environment_of_the_host(self, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOST_SECRET", "do-not-tell")
        monkeypatch.setenv("HOST_NAMED", "to-be-told")
        async with Sandbox.create(backend, env=["HOST_NAMED"]) as sb:
            told = await ask(sb, inside.everything_told_of_processes)
            assert "do-not-tell" not in told
            assert "to-be-told" in told
            for pid in ancestors(await sleeper(sb), os.getpid()):
                with suppress(PermissionError):  # only root can look into all of them
                    assert b"do-not-tell" not in Path(f"/proc/{pid}/environ").read_bytes()

    async def test_the_supervisor_has_no_environment(self, sb: Sandbox, contained: bool) -> None:
        """Nobody inside can look into it, and there would be nothing to see: in a container not even what is told by it."""
        chain = ancestors(await sleeper(sb), os.getpid())
        first = [pid for pid in chain if len(numbers(pid)) > 1 and numbers(pid)[-1] == 1]
        assert len(first) == 1
        with suppress(PermissionError):
            told = Path(f"/proc/{first[0]}/environ").read_bytes()
            if contained:
                names = {variable.partition(b"=")[0]: variable.partition(b"=")[2] for variable in told.split(b"\0")}
                assert names.keys() <= {b"", b"PATH", b"HOSTNAME", b"HOME", b"PADDOCK_SECRET", b"container"}
                assert not names.get(b"PADDOCK_SECRET")
            else:
                assert told in (b"", b"PWD=/\0")
        assert failed(await ask(sb, inside.read, ["/proc/self/environ"])) == {}

    async def test_no_descriptor_of_the_host(self, backend: Backend, tmp_path: Path) -> None:
        """One that could be inherited is in no process of the sandbox: the other end of this pipe is told of its end."""
        with (tmp_path / "secret").open("w+") as secret:
            os.set_inheritable(secret.fileno(), True)
            reading, writing = os.pipe2(os.O_NONBLOCK)
            os.set_inheritable(writing, True)
            try:
                async with Sandbox.create(backend) as sb:
                    os.close(writing)
                    found = await ask(sb, inside.descriptors)
                    assert set(found) <= {"0", "1", "2", "3"}
                    assert not [target for target in found.values() if str(tmp_path) in target]
                    assert await until(lambda: _at_its_end(reading), 5)
            finally:
                os.close(reading)

    async def test_every_namespace_is_its_own(self, sb: Sandbox, contained: bool) -> None:
        found = await ask(sb, inside.namespaces, list(NAMESPACES))
        shared = [name for name in NAMESPACES if found[name] == os.readlink(f"/proc/self/ns/{name}")]
        assert shared == (["user"] if contained else [])  # an engine's own affair; and nobody can make one either

    async def test_a_session_and_names_of_its_own(self, sb: Sandbox) -> None:
        found = await ask(sb, inside.identity)
        assert found["session of 1"] != 0
        assert found["terminal"] in ("ENXIO", "ENOENT")
        assert found["host"] != os.uname().nodename
        assert {line.split(":")[2][:3] for line in str(found["cgroups"]).split()} <= {"/", "/c1", "/c2"}

    async def test_nothing_is_typed_into_a_terminal(self, sb: Sandbox) -> None:
        found = await ask(sb, inside.type_into_terminal, pty=True)
        assert found.pop("size") == "ok"
        assert not_refused(found) == {}
