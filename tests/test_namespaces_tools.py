"""Everyday tools work in a sandbox of `namespaces`, with no configuration and no network."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock import ConfigError, ExecResult, Mount, Namespaces, OutsideError, ReadOnlyError, Sandbox
from paddock.backends.namespaces import system

USUAL = "/usr/local/bin:/usr/bin:/bin"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Where one of them is not installed there is nothing to test, and that is shown."""
    missing = [program for program in programs if shutil.which(program, path=USUAL) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


async def done(sb: Sandbox, command: str | list[str]) -> str:
    """Its standard output; anything but success is a failure that shows what it said."""
    result: ExecResult = await sb.exec(command, timeout=60)
    assert result.exit_code == 0, f"{result.exit_code}: {result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory outside of what a sandbox sees or covers, with a tool in it."""
    top = Path("/opt") / f"paddock-test-{os.getpid()}"
    try:
        (top / "python/bin").mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"nothing can be made in /opt: {error.strerror}")
    try:
        tool = top / "python/bin/tool"
        tool.write_text("#!/bin/sh\necho tool $1\n")
        tool.chmod(0o755)
        yield top
    finally:
        shutil.rmtree(top)


# Interpreters and compilers


@needs("python3")
async def test_python() -> None:
    """With threads, processes, temporary files, its own certificates and its own user."""
    script = """
import getpass, multiprocessing, os, pathlib, sqlite3, ssl, tempfile, threading

def square(n):
    return n * n

if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, range(4)))
    with tempfile.NamedTemporaryFile() as file:
        print(os.path.dirname(file.name))
    sqlite3.connect("data.db").execute("create table t (x)")
    thread = threading.Thread(target=print, args=("thread",))
    thread.start(); thread.join()
    print(getpass.getuser(), pathlib.Path.home(), os.getuid(), os.uname().nodename)
    ssl.create_default_context()
"""
    async with Sandbox.create("namespaces") as sb:
        await sb.write("work.py", script)
        assert (await done(sb, "python3 work.py")).splitlines() == [
            "[0, 1, 4, 9]",
            "/tmp",
            "thread",
            "agent /home/agent 1000 sandbox",
        ]


async def test_the_interpreter_of_the_host() -> None:
    """Wherever it is: the one that runs Paddock can be run inside too."""
    program = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    async with Sandbox.create("namespaces") as sb:
        shown = await done(sb, [str(program), "-c", "import sys, ssl, ctypes; print(sys.base_prefix)"])
        assert shown.strip() == os.path.realpath(sys.base_prefix)


async def test_an_interpreter_elsewhere(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a Python below a home directory: only that directory is shown, and its programs are on the path."""
    (elsewhere / "private").write_text("no")
    monkeypatch.setattr(system, "interpreter", lambda: str(elsewhere / "python"))
    async with Sandbox.create("namespaces") as sb:
        assert await done(sb, "tool here") == "tool here\n"
        assert await done(sb, f"ls {elsewhere}") == "python\n"


@needs("python3")
async def test_pip_without_a_network(tmp_path: Path) -> None:
    """A virtual environment by ensurepip, and a package from a directory."""
    async with Sandbox.create("namespaces") as sb:
        if (await sb.exec("python3 -c 'import ensurepip, venv'")).exit_code:
            pytest.skip("python3-venv is not installed")
        await sb.write_files(
            {
                "hello/hello.py": "def main():\n    print('hello from a package')\n",
                "hello/hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
                "hello/hello-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                "hello/hello-1.0.dist-info/entry_points.txt": "[console_scripts]\nhello = hello:main\n",
                "hello/hello-1.0.dist-info/RECORD": "",
            }
        )
        await done(sb, "cd hello && python3 -m zipfile -c ../hello-1.0-py3-none-any.whl hello.py hello-1.0.dist-info")
        await done(sb, "python3 -m venv env && env/bin/pip install --no-index --find-links . hello")
        assert await done(sb, "env/bin/hello") == "hello from a package\n"


@needs("node")
async def test_node() -> None:
    async with Sandbox.create("namespaces") as sb:
        await sb.write(
            "work.js", "setTimeout(() => console.log(os.userInfo().username), 10); const os = require('os');"
        )
        assert await done(sb, "node work.js") == "agent\n"


@needs("npm")
async def test_npm_test() -> None:
    async with Sandbox.create("namespaces") as sb:
        package = {"name": "demo", "version": "1.0.0", "scripts": {"test": "node -e \"console.log('success')\""}}
        await sb.write("package.json", json.dumps(package))
        assert "\nsuccess\n" in await done(sb, "npm test")


@needs("gcc")
async def test_a_compiler() -> None:
    async with Sandbox.create("namespaces") as sb:
        await sb.write("work.c", '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n')
        assert await done(sb, "gcc -O2 -Wall -Werror -o work work.c && ./work") == "compiled\n"


@needs("make", "sh")
async def test_make() -> None:
    async with Sandbox.create("namespaces") as sb:
        await sb.write("Makefile", "all: one two\n\t@echo made $^\n%:\n\t@touch $@\n")
        assert await done(sb, "make -s -j4") == "made one two\n"


# Git


@needs("git")
async def test_a_commit_in_a_private_workspace() -> None:
    async with Sandbox.create("namespaces") as sb:
        await sb.write("notes.md", "# Notes\n")
        await done(sb, "git init -q -b main . && git config user.name agent && git config user.email agent@sandbox")
        await done(sb, "git add . && git commit -q -m first && git switch -q -c other && git gc -q")
        assert await done(sb, "git log --format='%an %s' other") == "agent first\n"
        assert await done(sb, "git status --porcelain") == ""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One of the host, with one commit."""
    path = tmp_path / "project"
    path.mkdir()
    who = ["-c", "user.name=me", "-c", "user.email=me@host"]
    for words in (["init", "-q", "-b", "main", "."], [*who, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], cwd=path, check=True, env={"PATH": USUAL, "HOME": str(tmp_path)})
    return path


@needs("git")
async def test_a_project_of_the_host(project: Path) -> None:
    """Git reads it, whoever it belongs to inside; its `.git` cannot be changed."""
    async with Sandbox.create("namespaces", workspace=project) as sb:
        await sb.write("new.txt", "x")
        assert await done(sb, "git log --format=%s && git status --porcelain") == "first\n?? new.txt\n"
        refused = await sb.exec("git add new.txt; echo evil > .git/hooks/pre-commit; mv .git gone")
        assert refused.stderr.count("Read-only file system") >= 2
    assert not (project / ".git/hooks/pre-commit").exists()


# Other systems


async def test_a_tool_chain_of_the_host(elsewhere: Path) -> None:
    chain = elsewhere / "python"
    async with Sandbox.create(Namespaces(host_paths=[chain]), env={"PATH": f"{USUAL}:{chain}/bin"}) as sb:
        assert await done(sb, "tool here") == "tool here\n"
        assert (await sb.exec(f"echo evil > {chain}/bin/tool")).exit_code != 0
        assert await done(sb, f"ls {elsewhere}") == "python\n"
    async with Sandbox.create("namespaces") as sb:
        assert (await sb.exec(f"ls {chain}")).exit_code != 0


_PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char text[64];
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text);
    printf("%d ", (int)getuid());
    fflush(stdout);
    return write(1, text, size) < 0 || open("/etc/made", O_WRONLY | O_CREAT, 0644) >= 0;
}
"""


@pytest.fixture(scope="module")
def another_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system of one program, which needs nothing else."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    root = tmp_path_factory.mktemp("another")
    for name in ("usr/bin", "etc", "proc", "dev", "opt/data"):
        (root / name).mkdir(parents=True)
    (root / "program.c").write_text(_PROGRAM)
    built = [compiler, "-static", "-o", str(root / "usr/bin/show"), str(root / "program.c")]
    if subprocess.run(built, capture_output=True).returncode:
        pytest.skip("a static program cannot be compiled")
    (root / "bin").symlink_to("usr/bin")
    (root / "etc/motd").write_text("another root\n")
    (root / "etc/secret").write_text("x")
    (root / "etc/secret").chmod(0o000)
    (root / "opt/data/out").symlink_to("/proc/self/environ")
    (root / "opt/data/in").symlink_to("/etc/motd")
    for path in (root, *root.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    return root


async def test_another_root(another_root: Path) -> None:
    async with Sandbox.create(Namespaces(rootfs=another_root)) as sb:
        assert await done(sb, ["show", "/etc/motd"]) == "1000 another root\n"
        assert (await sb.exec("true")).exit_code == 127, "it has no shell"
        await sb.write("f", "files work")
        assert await done(sb, ["/bin/show", "/workspace/f"]) == "1000 files work"
    assert not (another_root / "etc/made").exists()


async def test_file_calls_reach_another_root(another_root: Path) -> None:
    """All of its directories, only to read, and as the sandbox's user."""
    async with Sandbox.create(Namespaces(rootfs=another_root)) as sb:
        assert await sb.read("/etc/motd") == await sb.read("/opt/data/in") == "another root\n"
        assert {"bin", "etc", "opt", "usr", "workspace"} <= set(await sb.list("/"))
        assert await sb.list("/bin") == ["show"]
        assert await sb.glob("/opt/**") == ["/opt/data", "/opt/data/in", "/opt/data/out"]
        for change in (
            sb.write("/etc/motd", ""),
            sb.delete("/etc/motd"),
            sb.mkdir("/opt/data/d"),
            sb.write("/bin/x", ""),
        ):
            with pytest.raises(ReadOnlyError):
                await change
        with pytest.raises(PermissionError):
            await sb.read("/etc/secret")
        for path in (
            "/proc/self/environ",
            "/opt/data/out",
            "/dev/null",
            "/sys/kernel",
            "/run/paddock/init",
            "/program.c",
        ):
            with pytest.raises(OutsideError):
                await sb.read(path)


async def test_a_view_of_another_root(another_root: Path) -> None:
    async with Sandbox.create(Namespaces(rootfs=another_root)) as sb:
        view = sb.restrict("/etc")
        assert await view.list("/etc") == ["motd", "secret"]
        with pytest.raises(OutsideError):
            await view.read("/opt/data/in")


@needs("busybox")
async def test_busybox(tmp_path: Path) -> None:
    (tmp_path / "root/bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox", path=USUAL) or "", tmp_path / "root/bin/busybox")
    for name in ("sh", "ls", "cat"):
        (tmp_path / f"root/bin/{name}").symlink_to("busybox")
    async with Sandbox.create(Namespaces(rootfs=tmp_path / "root")) as sb:
        assert await done(sb, "ls / | cat") == "bin\ncache\ndev\nhome\nproc\nrun\ntmp\nworkspace\n"


@pytest.mark.parametrize("target", ["/link/inner", "/link", "/opt/data/link/inner"])
async def test_links_of_another_root_on_the_way_to_a_mount(target: str, tmp_path: Path) -> None:
    """While bubblewrap builds a root, the host's is at /oldroot: it would make the place for the mount there."""
    for name in ("root/opt/data", "root/opt/place", "outside", "shown"):
        (tmp_path / name).mkdir(parents=True)
    for link in ("root/link", "root/opt/data/link"):
        (tmp_path / link).symlink_to(f"/oldroot{tmp_path}/outside")
    with pytest.raises(ConfigError, match="link on the way"):
        await Sandbox.create(Namespaces(rootfs=tmp_path / "root"), mounts=[Mount(tmp_path / "shown", target)])
    assert list((tmp_path / "outside").iterdir()) == []
    for beside in ("/beside/inner", "/opt/place"):
        mounts = [Mount(tmp_path / "shown", beside)]
        async with Sandbox.create(Namespaces(rootfs=tmp_path / "root"), mounts=mounts) as sb:
            assert await sb.list(beside) == []
