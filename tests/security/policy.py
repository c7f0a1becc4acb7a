"""What a caller's words cannot make of a sandbox, whoever chose them; and what `direct` mode leaves on the host."""

import asyncio
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

from paddock import ConfigError, Mount, Namespaces, NotFoundError, OutsideError, ReadOnlyError, Sandbox, SandboxError
from paddock.dirs.remove import remove_tree
from security import inside
from security.kernel import NUMBERS
from security.suite import Backend, Suite, ask, failed, not_refused, own_id

ROOT = os.geteuid() == 0
OTHER = 1000
"""A user of this host who is neither root nor the one who runs this."""

SYSTEM = (
    "/",
    "/usr",
    "/usr/bin",
    "/etc",
    "/proc",
    "/proc/sys",
    "/dev/shm",
    "/sys",
    "/run/paddock",
    "/var/tmp",
    "/bin",
    "/lib64",
)
HOSTILE_NAMES = ("", "A=B", "A\0B", "=", "\ud800")


@contextmanager
def directory_of(uid: int) -> Iterator[Path]:
    """A directory with a file, both of this user's and closed to all others."""
    path = Path(mkdtemp(prefix="paddock-test-"))
    try:
        (path / "ws").mkdir(mode=0o700)
        (path / "ws/old").write_text("old")
        for made in (path, path / "ws", path / "ws/old"):
            os.chown(made, uid, uid)
        yield path / "ws"
    finally:
        parent = os.open(path.parent, os.O_RDONLY)
        remove_tree(parent, os.fsencode(path.name))
        os.close(parent)


def owners_below(path: Path) -> dict[str, tuple[int, int]]:
    """Who has what, seen from the host."""
    return {str(p.relative_to(path)): (p.lstat().st_uid, p.lstat().st_gid) for p in path.rglob("*")}


class PolicySecurity(Suite):
    """Requests that widen nothing, and directories that are shared with the host."""

    async def test_where_commands_start(self, sb: Sandbox) -> None:
        for outside in ("/", "..", "../..", "/etc", "/usr", "/proc/self", "/workspace/..", "/home", "/proc/1/root"):
            with pytest.raises((OutsideError, NotFoundError)):
                await sb.exec("pwd", cwd=outside)
        await ask(sb, inside.plant, "/workspace", ["root", "cwd", "up"])
        for link in ("root", "cwd", "up"):
            with pytest.raises(SandboxError):
                await sb.exec("pwd", cwd=link)
        await sb.mkdir("d")
        for inner, seen in (
            ("d", "/workspace/d"),
            ("d/..", "/workspace"),
            ("/tmp", "/tmp"),
            ("/home/agent", "/home/agent"),
        ):
            assert (await sb.exec("pwd -P", cwd=inner)).stdout.strip() == seen

    async def test_mounts_over_the_system(self, backend: Backend, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        for target in SYSTEM:
            with pytest.raises(ConfigError):
                await Sandbox.create(backend, mounts=[Mount(tmp_path / "a", target, "rw")])
        async with Sandbox.create(backend, mounts=[Mount(tmp_path / "a", "/data", "rw")]) as sb:
            assert failed(await ask(sb, inside.create_in, ["/data"])) == {}

    async def test_mounts_where_commands_can_write(self, backend: Backend, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        for target in ("/workspace/x", "/tmp/x", "/home/agent/.ssh", "/cache/deep/er", "/workspace"):
            with pytest.raises(ConfigError):
                await Sandbox.create(backend, mounts=[Mount(tmp_path / "a", target)])
        (tmp_path / "a/inner").mkdir()
        (tmp_path / "b").mkdir()
        mounts = [Mount(tmp_path / "a", "/data"), Mount(tmp_path / "b", "/data/inner", "rw")]
        async with Sandbox.create(backend, mounts=mounts) as sb:
            found = await ask(sb, inside.create_in, ["/data", "/data/inner"])
            assert found == {"/data": "EROFS", "/data/inner": "ok"}

    async def test_paths_of_the_host_that_would_hide_things(self, backend: Backend, tmp_path: Path) -> None:
        if backend != "namespaces":
            return
        for path in ("/", "/etc", "/proc", "/dev", "/run", "/tmp", "/usr"):
            with pytest.raises(ConfigError):
                await Sandbox.create(Namespaces(host_paths=[path]))
        place = Path(mkdtemp(prefix="paddock-test-", dir="/var/tmp"))
        try:
            (place / "tool").write_text("mine")
            with pytest.raises(ConfigError):  # what is in /var is the sandbox's own
                await Sandbox.create(Namespaces(host_paths=[place]))
        finally:
            (place / "tool").unlink()
            place.rmdir()
        async with Sandbox.create(Namespaces(host_paths=["/usr/lib"])) as sb:
            assert not_refused(await ask(sb, inside.create_in, ["/usr/lib"])) == {}

    async def test_hostile_names_of_variables(self, sb: Sandbox) -> None:
        for name in HOSTILE_NAMES:
            with pytest.raises(ConfigError):
                await sb.exec(["true"], env={name: "x"})
        told = await sb.exec(["env"], env={"LD_PRELOAD": "", "BASH_ENV": "/x", "é": "1", "a b": "2", "X": "-rf\n$(id)"})
        assert "X=-rf\n$(id)" in told.stdout
        assert "a b=2" in told.stdout

    async def test_variables_do_not_reach_the_supervisor(self, sb: Sandbox, tmp_path: Path) -> None:
        """What is for a command is loaded by that command, and by nothing before it."""
        (tmp_path / "evil.c").write_text(
            "#include <stdlib.h>\n__attribute__((constructor)) void f(void) { exit(55); }\n"
        )
        words = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "evil.so"), str(tmp_path / "evil.c")]
        await asyncio.to_thread(subprocess.run, words, check=True)
        await sb.upload(tmp_path / "evil.so", "/workspace/evil.so")
        assert (await sb.exec(["env"], env={"LD_PRELOAD": "/workspace/evil.so"})).exit_code == 55
        assert (await sb.exec(["env"])).exit_code == 0

    async def test_hostile_words(self, sb: Sandbox) -> None:
        words = ["-rf", "--", "$(id)", "`id`", ";id", "a\nb", "\x1b[2J", "*", "", "é", "'", '"', "--bind", "\u202e"]
        for program in ("--help", "-c", "--bind", "$(id)", "no/such", "../../bin/sh "):
            assert (await sb.exec([program, "x"])).exit_code in (126, 127)
        assert (await sb.exec(["printf", "%s\\0", *words])).stdout.split("\0")[:-1] == words
        with pytest.raises(ConfigError):
            await sb.exec(["printf", "a\0b"])

    async def test_no_set_uid_file_on_the_host(self, backend: Backend, tmp_path: Path) -> None:
        workspace = tmp_path / "ws"
        workspace.mkdir()
        async with Sandbox.create(backend, workspace=workspace) as sb:
            await sb.mkdir("in")
            found = await ask(sb, inside.set_id_bits, "/workspace/in", NUMBERS)
            ordinary = {call: found.pop(call) for call in list(found) if call.startswith("ordinary")}
            assert not_refused(found) == {}
            assert set(ordinary.values()) <= {"ok", "ENOSYS"}
            await sb.write("tool", "x", mode=0o755)
            assert not_refused({"cp": "EPERM" if (await sb.exec("cp tool c && chmod u+s c")).exit_code else "ok"}) == {}
            with pytest.raises(SandboxError):
                await sb.write("worse", "x", mode=0o4755)
        assert [p for p in workspace.rglob("*") if stat.S_IMODE(p.lstat().st_mode) & 0o6000] == []

    @pytest.mark.parametrize("uid", [0, OTHER] if ROOT else [os.geteuid()])
    async def test_owners_on_the_host(self, backend: Backend, uid: int) -> None:
        """What a sandbox makes belongs to whoever has the directory, by commands and by file calls alike."""
        with directory_of(uid) as workspace:
            async with Sandbox.create(backend, workspace=workspace) as sb:
                await sb.exec(
                    "mkdir by-command && echo x > by-command/f && ln -s f by-command/l && echo new >> old", check=True
                )
                await sb.write_files({"by-call/f": "x", "by-call/g": "y"})
                await sb.mkdir("made/deep")
                await sb.copy("by-command", "copied")
                await sb.write("by-command/f", "again")
                await sb.exec("echo more >> by-call/f && rm by-call/g && mv made moved", check=True)
                assert await sb.read("old") == "oldnew\n"
                seen = set((await sb.exec("stat -c %u . old by-call by-call/f")).stdout.split())
                assert seen == {str(await own_id(sb))}
            assert set(owners_below(workspace).values()) == {(uid, uid)} if ROOT else True
            assert {owner for owner, _ in owners_below(workspace).values()} == {uid}

    async def test_git_of_a_direct_workspace(self, backend: Backend, tmp_path: Path) -> None:
        """Whole and in place: a hook that is put there would be run by the user's own git."""
        git = tmp_path / "ws/.git"
        (git / "hooks").mkdir(parents=True)
        (git / "config").write_text("[core]\n")
        async with Sandbox.create(backend, workspace=tmp_path / "ws") as sb:
            found = await ask(sb, inside.change_protected, "/workspace/.git")
            assert not_refused(found, {"EROFS", "EBUSY", "EXDEV", "EPERM", "EACCES", "ENOTEMPTY"}) == {}
            script = (
                "rm -rf .git; mv .git x; mkdir -p .git/hooks && echo > .git/hooks/post-checkout; mv . ../x; rmdir .git"
            )
            assert (await sb.exec(script)).exit_code != 0
            with pytest.raises(ReadOnlyError):
                await sb.write(".git/hooks/post-checkout", "evil")
            assert (
                await sb.exec("cat .git/config; touch beside .gitignore; mkdir -p sub/.git/hooks")
            ).stdout == "[core]\n"
        assert sorted(p.name for p in git.rglob("*")) == ["config", "hooks"]
        assert (git / "config").read_text() == "[core]\n"
        assert (tmp_path / "ws/beside").exists()

    async def test_git_of_a_private_workspace(self, sb: Sandbox) -> None:
        await sb.exec("mkdir -p .git/hooks && touch .git/config", check=True)
        assert failed(await ask(sb, inside.create_in, ["/workspace/.git", "/workspace/.git/hooks"])) == {}
