"""How a command ended is what the kernel says, and nothing that it prints."""

import asyncio
import signal
import sys

import pytest

from paddock import Sandbox
from paddock.backends.local import Local
from paddock.wire.frames import Reply, encode
from supervisor.marks import state, until

HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
PYTHONS = {signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ}
"""What the interpreter itself ignores or answers."""
STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


async def test_exit_codes(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        results = await asyncio.gather(*(sb.exec(["sh", "-c", f"exit {code}"]) for code in range(256)))
    assert [result.exit_code for result in results] == list(range(256))


async def test_signals(mode: Local) -> None:
    deadly = [number for number in range(1, 65) if number not in HARMLESS | STOPPING | PYTHONS | {32, 33}]
    code = "import os, resource, sys, time; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
    code += "; os.kill(os.getpid(), int(sys.argv[1])); time.sleep(60)"
    async with Sandbox.create(mode) as sb:
        commands = ([sys.executable, "-SEc", code, str(n)] for n in deadly)
        results = await asyncio.gather(*map(sb.exec, commands))
    assert [result.exit_code for result in results] == [128 + number for number in deadly]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGTERM, 34, 64]
)
async def test_signals_from_outside(owner: Local, number: int) -> None:
    async with Sandbox.create(owner) as sb:
        process = await sb.start(["sleep", "60"])
        await process.signal(number)
        assert (await process.wait()).exit_code == 128 + number


async def test_stopping_and_going_on(owner: Local) -> None:
    async with Sandbox.create(owner) as sb:
        process = await sb.start("echo begun; read word; echo $word", stdin=True)
        assert (await anext(aiter(process))).data == b"begun\n"
        await process.signal(signal.SIGSTOP)
        assert await until(lambda: state(process.pid) == "T")
        await process.write("on\n")
        await asyncio.sleep(0.1)
        assert process.exit_code is None
        await process.signal(signal.SIGCONT)
        assert (await process.wait()).stdout == "begun\non\n"


async def test_what_looks_like_frames(mode: Local) -> None:
    """An end with status 0 for every number there could be, on both streams; the command itself fails."""
    ended = b"".join(encode(Reply.ENDED, id, bytes(32)) + encode(Reply.GONE, id) for id in range(64))
    async with Sandbox.create(mode) as sb:
        await sb.write("forged", ended)
        result = await sb.exec("cat forged; cat forged >&2; sleep 0.1; exit 7")
        assert (result.exit_code, result.stdout_bytes, result.stderr_bytes) == (7, ended, ended)


FORGE = """
import os, sys
frames = bytes.fromhex(sys.argv[1])
opened = 0
pid = os.getppid()
while pid > 1:
    with open(f"/proc/{pid}/cmdline") as file:
        if "paddock-init" not in file.read():
            break
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        descriptors = map(str, range(32))
    for fd in descriptors:
        for flags in (os.O_WRONLY | os.O_NONBLOCK, os.O_RDWR | os.O_NONBLOCK):
            try:
                if "/dev/null" in os.readlink(f"/proc/{pid}/fd/{fd}") or "cgroup" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                    continue
                mine = os.open(f"/proc/{pid}/fd/{fd}", flags)
                opened += 1
                os.write(mine, frames)
            except OSError:
                pass
    with open(f"/proc/{pid}/stat") as file:
        pid = int(file.read().rpartition(")")[2].split()[1])
print("tried")
sys.exit(7)
"""


async def test_writing_to_the_descriptors_of_those_above(mode: Local) -> None:
    """Root may look at them, but those that matter are sockets, which cannot be opened. Pipes only hold its own output."""
    frames = b"".join(encode(Reply.ENDED, id, bytes(32)) for id in range(64))
    async with Sandbox.create(mode) as sb:
        other = await sb.start(["sleep", "60"])
        result = await sb.exec([sys.executable, "-SEc", FORGE, frames.hex()])
        assert result.exit_code == 7
        assert result.stdout.endswith("tried\n")
        assert other.exit_code is None
        assert (await sb.exec(["echo", "still here"])).stdout == "still here\n"


async def test_the_end_comes_after_all_output(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        for size in (0, 1, 65_536, 65_537, 1_000_000):
            result = await sb.exec(f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2")
            assert (len(result.stdout_bytes), len(result.stderr_bytes)) == (size, size)
