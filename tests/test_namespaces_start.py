"""How a sandbox of `namespaces` is started: by which bubblewrap, as whom, and what is said where it cannot be."""

import asyncio
import errno
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import descriptors
import forbidding
from paddock import ConfigError, LimitReachedError, Limits, Sandbox, UnavailableError, cgroups, state
from paddock.backends.namespaces import bwrap, failing, forbidden, identity, start
from paddock.wire.binary import supervisor_path
from security.resources import few_descriptors


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    bwrap.find.cache_clear()
    yield
    bwrap.find.cache_clear()


# Which bubblewrap


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch) -> bwrap.Bubblewrap:
    """A host that has only the one of the package."""
    monkeypatch.setattr(bwrap, "_of_the_system", lambda: "the system has none")
    try:
        return bwrap.find()
    except UnavailableError as error:
        pytest.skip(error.message)


async def test_the_package_will_do(packaged: bwrap.Bubblewrap, tmp_path: Path) -> None:
    """For root too, whose sandbox cannot reach a package that lies below root's home."""
    assert packaged.version >= (0, 11)
    async with Sandbox.create("namespaces", workspace=tmp_path / "work") as sb:
        assert (await sb.exec("id -u; echo made > f; env | grep -c LD_")).stdout == "1000\n0\n"
        assert await sb.read("f") == "made\n"
    assert (tmp_path / "work/f").read_text() == "made\n"


async def test_its_libraries_are_for_nobody_else(packaged: bwrap.Bubblewrap) -> None:
    async with Sandbox.create("namespaces") as sb:
        shown = await sb.exec("cat /proc/1/environ /proc/self/environ | tr '\\0' '\\n'; ls /proc/1/fd")
        assert "LD_LIBRARY_PATH" not in shown.stdout


async def test_the_systems_comes_first() -> None:
    system = bwrap._of_the_system()
    if isinstance(system, str):
        pytest.skip(system)
    assert bwrap.find() == system


async def test_none_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bwrap, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"the system has none; .*apt-get install bubblewrap.*paddock\[bwrap\]"):
        await Sandbox.create("namespaces")
    assert list((tmp_path / "state/sandboxes").iterdir()) == []


# As whom


def test_root_in_a_smaller_namespace() -> None:
    """As in a container that has some users of its own."""
    whole, few, one = [range(1 << 32)], [range(65536)], [range(1)]
    assert identity._spare(whole, whole) == (identity._FIRST, identity._COUNT)
    assert identity._spare(few, few) == (32768, 32768)
    assert identity._spare(whole, few) == (32768, 32768)
    assert identity._spare([range(1), range(1, 65537)], few) == (32768, 32768)
    nothing: list[list[range]] = [[], []]
    for maps in ([one, one], [one, whole], nothing):
        with pytest.raises(UnavailableError, match="never root"):
            identity._spare(*maps)


# By which process


def _launched(script: str) -> tuple[start.Process, "subprocess.Popen[bytes]"]:
    """A process as the launcher leaves it, which says here what it should not, or too late."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    launcher = subprocess.Popen(["/bin/sh", "-c", script], stderr=writing)
    os.close(writing)
    return start.Process(launcher, reading, born=True), launcher


def test_the_number_of_the_process_comes_late() -> None:
    other = subprocess.Popen(["/bin/sh", "-c", "exit 7"])
    process, _ = _launched(f"sleep 0.2; echo 'paddock-launch: pid: {other.pid}' >&2")
    process.settle()
    assert process.pid == other.pid
    process.kill()
    assert other.wait() in (7, -9)


def test_the_number_of_the_process_never_comes() -> None:
    """No other child of this process is taken for it."""
    process, launcher = _launched("exit 0")
    with pytest.raises(UnavailableError, match="says nothing"):
        process.let_go()
    assert 0 not in start._let_go
    assert (launcher.returncode, process.poll()) == (0, 1)
    mine = subprocess.Popen(["/bin/sh", "-c", "exit 7"])
    os.waitid(os.P_PID, mine.pid, os.WEXITED | os.WNOWAIT)
    start.collect()
    assert mine.wait() == 7


async def test_signals_of_a_terminal_are_not_for_a_sandbox() -> None:
    """Ctrl-C goes to the group of processes in its foreground; what is detached has left the terminal."""
    before = set(start.children(os.getpid()))
    async with Sandbox.create("namespaces"):
        (bubblewrap,) = set(start.children(os.getpid())) - before
        assert os.getpgid(bubblewrap) != os.getpgrp()
        (first,) = start.children(bubblewrap)
        assert os.getsid(first) != os.getsid(0)
    sandbox = await Sandbox.create("namespaces", detached=True, lifetime=60)
    try:
        (bubblewrap,) = set(start.children(os.getpid())) - before
        assert os.getsid(bubblewrap) != os.getsid(0)
    finally:
        await sandbox.close()
        await Sandbox.remove(sandbox.id)


async def test_private_directories_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bubblewrap is on its way by then, and ends at once: it is told nothing."""

    def full(self: state.PrivateDirectory, name: str) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with Sandbox.create("namespaces"):
        pass
    before = descriptors.count()
    monkeypatch.setattr(state.PrivateDirectory, "make", full)
    began = time.monotonic()
    with pytest.raises(UnavailableError, match="No space left"):
        await Sandbox.create("namespaces")
    assert time.monotonic() - began < 3
    assert descriptors.count() <= before
    assert list((tmp_path / "state/sandboxes").iterdir()) == []


@pytest.mark.parametrize("detached", [False, True])
async def test_a_kernel_that_watches_no_more_descriptors(
    detached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It bounds them for each user, in all sandboxes together. What has been started by then is ended."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    other = await Sandbox.create("namespaces", detached=True, lifetime=60)
    try:
        children, before = set(start.children(os.getpid())), descriptors.count()
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "add_reader", full)
            with pytest.raises(UnavailableError, match="No space left"):
                await Sandbox.create("namespaces", detached=detached)
            with pytest.raises(UnavailableError, match="No space left"):
                await Sandbox.connect(other.id)
        assert set(start.children(os.getpid())) == children
        assert await descriptors.soon_back_to(before)
        assert {path.stem for path in (tmp_path / "state/sandboxes").glob("sb-*")} == {other.id}
        async with await Sandbox.connect(other.id) as again:
            assert (await again.exec("echo fine")).stdout == "fine\n"
    finally:
        await other.close()
        await Sandbox.remove(other.id)


async def test_a_start_that_fails_half_way_leaves_no_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox.create("namespaces"):
        pass
    before = descriptors.count()
    (tmp_path / "cgroup.procs").touch()
    made = cgroups.make

    def gone(*arguments: Any, **options: Any) -> cgroups.Group:
        group = made(*arguments, **options)
        return replace(group, joined=(str(tmp_path), str(tmp_path / "missing")))

    monkeypatch.setattr(cgroups, "make", gone)
    with pytest.raises(UnavailableError, match="cannot be started"):
        await Sandbox.create("namespaces")
    assert await descriptors.soon_back_to(before)


# Where it cannot be started


_CREATE = """
import asyncio
from paddock import Sandbox, UnavailableError

try:
    asyncio.run(Sandbox.create().__aenter__())
except UnavailableError as error:
    print(error)
"""


def test_user_namespaces_are_forbidden() -> None:
    """For real: where this runs, the kernel has none to give."""
    done = forbidding.run("-c", _CREATE)
    assert "User namespaces are forbidden here: the kernel's setting user.max_user_namespaces is 0 (" in done.stdout
    assert "As root: sysctl user.max_user_namespaces=10000." in done.stdout
    assert 'backend="local"' in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("switch", "value", "cause", "fix"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor", "apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone is 0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "max_user_namespaces is 0", "user.max_user_namespaces="),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user "
        "namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'.",
        "bwrap: setting up uid map: Permission denied",
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
        "paddock-launch: user namespace: 28",
    ],
    ids=["new", "map", "loopback", "launcher"],
)
def test_what_forbids_them(
    words: str, switch: str, value: str, cause: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / switch).parent.mkdir()
    (tmp_path / switch).write_text(f"{value}\n")
    monkeypatch.setattr(forbidden, "SWITCHES", str(tmp_path))
    error = failing.failure(f"paddock-launch: pid: 12\n{words}\n", {})
    assert error.message.startswith("User namespaces are forbidden here: ")
    assert cause in error.message
    assert "likely" not in error.message
    assert fix in error.hint
    assert 'backend="local"' in error.hint


@pytest.mark.parametrize(
    ("found", "words"), [("_in_chroot", "chroot"), ("in_container", "container"), ("_filtered", "seccomp filter")]
)
def test_what_else_may(found: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forbidden, "SWITCHES", str(tmp_path))
    for name in ("_in_chroot", "in_container", "_filtered"):
        monkeypatch.setattr(forbidden, name, lambda: False)
    assert "a policy of this host" in forbidden.cause().what
    monkeypatch.setattr(forbidden, found, lambda: True)
    assert words in forbidden.cause().what


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            "A fresh /proc",
            "systempaths=unconfined",
        ),
        ("paddock-launch: id-mapped mount: 22", "id-mapped mount", "chown"),
        ("paddock-launch: mount namespace: 1", "may not mount", "CAP_SYS_ADMIN"),
        ("paddock-launch: cgroup: 13", "cgroup cannot be entered", "doctor"),
        (
            "bwrap: Can't find source path /home/me/secret/x: No such file",
            "Can't find source path /workspace/x",
            "doctor",
        ),
        ("", "it says nothing", "doctor"),
        (
            "bwrap: Creating new namespace failed: Resource temporarily unavailable",
            "There are too many processes or threads",
            "ulimit -u",
        ),
        ("paddock-launch: user namespace: 11", "There are too many processes or threads", "ulimit -u"),
    ],
)
def test_other_reasons(said: str, message: str, hint: str) -> None:
    error = failing.failure(said, {"/workspace": "/home/me/secret"})
    assert message in error.message
    assert hint in error.hint
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    "limits", [Limits(pids=15), Limits(memory="1k"), Limits(memory="64m", tmp="1.5g"), Limits(memory="64m", disk="65m")]
)
async def test_limits_that_nothing_could_run_in(limits: Limits) -> None:
    with pytest.raises(ConfigError, match=r"(?i)memory|pids"):
        await Sandbox.create("namespaces", limits=limits)


async def test_the_fewest_processes() -> None:
    async with Sandbox.create("namespaces", limits=Limits(pids=16)) as sb, await sb.start(["sleep", "1000"]):
        for _ in range(10):
            assert (await sb.exec("echo fine | cat")).stdout == "fine\n"


# What bubblewrap sees of the host


MOUNTS = ("/bin/cat", "/proc/self/mountinfo")
HOST = """
mount --make-rprivate / && mount --make-rshared / && mount -t tmpfs none /usr/local/src && mount -t tmpfs none /mnt || exit 1
before=$(cat /proc/self/mountinfo)
"$@" 9<"$0" || exit 1
test "$before" = "$(cat /proc/self/mountinfo)"
"""
"""One that has more mounts, and shows every new one to all namespaces that were made from it, as hosts with systemd do."""


def _mounted(directory: Path, *options: str) -> set[str]:
    """Where something is mounted for what the launcher starts, of which that host has seen nothing."""
    words = [supervisor_path(), "launch", "--user", "70000", "70000", *options, "--show", "9", "0", "0", "--", *MOUNTS]
    host = ["unshare", "--mount", "sh", "-c", HOST, str(directory)]
    done = subprocess.run([*host, *words], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    return {line.split()[4] for line in done.stdout.splitlines()}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root shows its directories")
def test_only_what_is_kept(tmp_path: Path) -> None:
    """With all that is mounted below it, which the sandbox is to see there."""
    seen = _mounted(tmp_path, "--keep", "/usr", "--keep", "/proc", "--keep", "/dev")
    assert {"/", "/usr", "/proc", "/dev", "/tmp", "/tmp/0", "/usr/local/src"} <= seen
    assert all(path == "/" or path.startswith(("/usr", "/proc", "/dev", "/tmp")) for path in seen)
    assert {"/mnt", "/usr/local/src", "/tmp/0"} <= _mounted(tmp_path)


@pytest.mark.parametrize("words", [("--keep",), ("--keep", "usr"), ("--keep", "/usr") * 17])
def test_what_cannot_be_kept(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [supervisor_path(), "launch", *words, "--", "true"], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (1, f"paddock-launch: options: {errno.EINVAL}\n")


@pytest.mark.parametrize(
    "words", [("--layer",), ("--layer", "0"), ("--layer", "0", "1", "0"), ("--show", "0", "0", "0")]
)
def test_what_cannot_be_shown(words: tuple[str, ...]) -> None:
    """What is not whole; and without another user to become, there is nothing to show but layers."""
    done = subprocess.run(
        [supervisor_path(), "launch", *words, "--", "true"], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (1, f"paddock-launch: options: {errno.EINVAL}\n")


# Too many


@pytest.mark.parametrize("fewer", range(9))
@pytest.mark.parametrize("backend", ["namespaces", "local"])
async def test_no_more_descriptors(backend: str, fewer: int) -> None:
    """Those that are there go on, and what is said tells what to do, wherever they run out."""
    made: list[Sandbox] = []

    async def a_hundred(stack: AsyncExitStack) -> None:
        while len(made) < 100:
            made.append(await stack.enter_async_context(Sandbox.create(backend)))

    async with AsyncExitStack() as stack:
        with few_descriptors(150 - fewer), pytest.raises(LimitReachedError, match="ulimit -n") as error:
            await a_hundred(stack)
        assert error.value.limit == "open_files"
        assert (await made[-1].exec("echo fine")).stdout == "fine\n"
