"""Terminals: sizes, keys, echo, the end of input."""

import asyncio
import sys

import pytest

from paddock import ConfigError, Process, Sandbox
from paddock.backends.local import Local


async def _until(process: Process, words: bytes) -> bytes:
    """Read until these words come."""
    found = b""
    async with asyncio.timeout(30):
        async for chunk in process:
            found += chunk.data
            if words in found:
                return found
    raise AssertionError(f"it ended with {found!r}")


SIZES = """
import os, signal, sys, time
def show(*_):
    size = os.get_terminal_size(0)
    os.write(1, (f"size {size.lines} {size.columns}" + chr(10)).encode())
signal.signal(signal.SIGWINCH, show)
show()
while True:
    time.sleep(60)
"""


async def test_sizes(mode: Local) -> None:
    async with Sandbox.create(mode) as sb, await sb.start([sys.executable, "-SEc", SIZES], pty=True) as process:
        await _until(process, b"size 24 80\r\n")
        for rows, columns in ((50, 132), (1, 1), (65535, 65535)):
            await process.resize(rows, columns)
            await _until(process, f"size {rows} {columns}\r\n".encode())
        for rows, columns in ((0, 80), (24, 0), (65536, 80), (-1, 80)):
            with pytest.raises(ConfigError):
                await process.resize(rows, columns)


async def test_it_is_one(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start("tty; test -t 0 && test -t 1 && test -t 2 && echo all; echo $TERM; exit 3", pty=True)
        result = await process.wait()
        assert result.exit_code == 3
        assert "/dev/pts/" in result.stdout
        assert "all\r\nxterm-256color\r\n" in result.stdout
        assert "not a tty" in (await sb.exec("tty")).stdout


async def test_the_interrupt_key(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        script = (
            "trap 'echo interrupted; x=1' INT; echo ready; while [ -z \"$x\" ]; do sleep 0.1; done; echo on; exit 5"
        )
        process = await sb.start(script, pty=True)
        await _until(process, b"ready")
        await asyncio.sleep(0.1)
        await process.write(b"\x03")
        result = await asyncio.wait_for(process.wait(), 30)
        assert result.exit_code == 5
        assert "interrupted\r\non" in result.stdout
        plain = await sb.start(["sleep", "60"], pty=True)
        await asyncio.sleep(0.1)
        await plain.write(b"\x03")
        assert (await asyncio.wait_for(plain.wait(), 30)).exit_code == 130


async def test_echo_and_the_end_of_input(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start(["cat"], pty=True)
        await process.write("word\n")
        await _until(process, b"word\r\nword\r\n")
        await process.close_stdin()
        assert (await asyncio.wait_for(process.wait(), 30)).exit_code == 0


async def test_all_output_comes(mode: Local) -> None:
    async with Sandbox.create(mode) as sb:
        process = await sb.start(["seq", "20000"], pty=True)
        result = await asyncio.wait_for(process.wait(), 30)
        assert result.stdout == "".join(f"{n}\r\n" for n in range(1, 20_001))


async def test_its_end_is_heard(mode: Local) -> None:
    """What is left of the session gets a SIGHUP when the command has ended; what left the session lives on."""
    async with Sandbox.create(mode) as sb:
        left = "(trap 'touch heard; exit' HUP; touch ready; while :; do sleep 0.05; done) &"
        process = await sb.start(f"{left} while [ ! -e ready ]; do sleep 0.01; done", pty=True)
        assert (await asyncio.wait_for(process.wait(), 30)).exit_code == 0
        async with asyncio.timeout(30):
            while not await sb.exists("heard"):
                await asyncio.sleep(0.02)
