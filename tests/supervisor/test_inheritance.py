"""What a command is given, and that it is given nothing else."""

import asyncio
import json
import os
import resource
import signal
import sys

import pytest

from paddock import ConfigError, NotFoundError, Sandbox
from paddock.backends.local import Local

SHOW = """
import json, os, resource
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "descriptors": sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")),
    "blocked": int(status["SigBlk"], 16),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "leads": os.getsid(0) == os.getpid() == os.getpgrp(),
    "umask": int(status["Umask"], 8),
    "stdin": os.readlink("/proc/self/fd/0"),
}))
"""


async def _ignored(sb: Sandbox) -> int:
    """The signals that a command finds ignored: by a program that changes nothing about them itself."""
    result = await sb.exec(["grep", "SigIgn", "/proc/self/status"])
    return int(result.stdout.split()[1], 16)


async def test_process_state(mode: Local) -> None:
    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    old = os.umask(0o077)
    try:
        async with Sandbox.create(mode) as sb:
            other = await sb.start(["cat"], stdin=True)
            shown = json.loads((await sb.exec([sys.executable, "-SEc", SHOW], check=True)).stdout)
            assert await _ignored(sb) == 0
            await other.kill()
    finally:
        os.umask(old)
        os.close(leaked)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2, signal.SIGTERM])
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGHUP, before[1])
    assert shown == {
        "descriptors": [0, 1, 2],
        "blocked": 0,
        "files": list(resource.getrlimit(resource.RLIMIT_NOFILE)),
        "leads": True,
        "umask": 0o022,
        "stdin": "/dev/null",
    }


async def test_the_environment_is_what_was_given(mode: Local) -> None:
    async with Sandbox.create(mode, env={"A": "1"}) as sb:
        shown = (await sb.exec(["env", "-0"], env={"B": "two\nlines", "new\nline": "x", "EMPTY": ""})).stdout.split(
            "\0"
        )
        found = dict(word.split("=", 1) for word in shown if word)
        real = {
            name: sb.resolve(path)
            for name, path in (("PADDOCK_WORKSPACE", "/workspace"), ("PADDOCK_CACHE", "/cache"), ("TMPDIR", "/tmp"))
        }
        assert found == {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": sb.resolve("/home/agent"),
            "USER": "agent",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "A": "1",
            "B": "two\nlines",
            "new\nline": "x",
            "EMPTY": "",
            "PADDOCK_SOCKETS": found["PADDOCK_SOCKETS"],
            **real,
        }
        assert os.path.isabs(found["PADDOCK_SOCKETS"])
        assert not os.path.exists(found["PADDOCK_SOCKETS"])  # before the host wants one there


async def test_strange_words(mode: Local) -> None:
    words = ["", "a\nb", "-rf", "\x1b[31m", os.fsdecode(b"\xff\xfe"), "'\"$(x)`", "é", "x" * 100_000, ""]
    code = "import os, sys; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    async with Sandbox.create(mode) as sb:
        result = await sb.exec([sys.executable, "-SEc", code, *words], env={"LC": os.fsdecode(b"\xff")})
        assert result.stdout_bytes == b"\0".join(map(os.fsencode, words))
        shown = await sb.exec(["env", "-0"], env={os.fsdecode(b"N\xff"): os.fsdecode(b"\xfe")})
        assert b"N\xff=\xfe" in shown.stdout_bytes.split(b"\0")


async def test_words_that_cannot_be(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        for wrong in (["true", "a\0b"], [""], [], ["true", 1], "a\0b", ["true", "\ud800"]):
            with pytest.raises(ConfigError):
                await sb.exec(wrong)  # type: ignore[arg-type]
        for name, value in (("", "x"), ("a=b", "x"), ("a\0", "x"), ("a", "x\0")):
            with pytest.raises(ConfigError):
                await sb.exec(["true"], env={name: value})
        for long in (["true", "x" * 200_000], ["true", "x" * 2_000_000], "true " + "x" * 200_000):
            with pytest.raises(ConfigError, match="too long"):
                await sb.exec(long)
        with pytest.raises(ConfigError, match="too long"):
            await sb.start(["true", "x" * 200_000])
        assert (await sb.exec(["true", *["x" * 1_000] * 500])).exit_code == 0


async def test_programs_that_cannot_be_run(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        await sb.write("text", "no program\n", mode=0o644)
        for words, code in ((["missing"], 127), (["./missing"], 127), (["./text"], 126), (["."], 126)):
            result = await sb.exec(words)
            assert (words, result.exit_code) == (words, code)
            process = await sb.start(words)
            assert (await process.wait()).exit_code == code


async def test_a_directory_that_is_removed(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        await sb.mkdir("gone")
        await sb.set_workdir("gone")
        assert (await sb.exec("rmdir $PADDOCK_WORKSPACE/gone; echo removed")).stdout == "removed\n"
        with pytest.raises(NotFoundError):
            await sb.exec(["true"])
        with pytest.raises(NotFoundError):
            await sb.start(["true"])
        assert (await sb.exec("pwd", cwd="/workspace")).exit_code == 0


async def test_a_directory_that_comes_and_goes(way: Local) -> None:
    """Whatever the moment: it runs there, or it is an error that says so."""
    async with Sandbox.create(way) as sb:
        flapping = await sb.start("while :; do mkdir d; rmdir d; done 2> /dev/null")
        for _ in range(100):
            try:
                assert (await sb.exec(["true"], cwd="d")).exit_code == 0
            except NotFoundError:
                await asyncio.sleep(0)
        await flapping.kill()
