"""Commands: their words, environment, input, output, and how they end."""

import asyncio
import math

import pytest

from paddock.driver import BackendSpec, Capabilities
from paddock.errors import (
    CommandFailedError,
    ConfigError,
    ExecTimeoutError,
    NotFoundError,
    OutsideError,
    UnsupportedError,
)
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite, needs


class CommandsContract(Suite):
    """`exec`, `start`, `processes`; the programs are `echo cat env false pwd sleep touch`."""

    @needs("commands")
    async def test_exec(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            result = await sb.exec(["echo", "one  two", "$HOME"])
            assert (result.exit_code, result.stdout, result.stderr) == (0, "one  two $HOME\n", "")
            assert (await sb.exec("echo 'one  two'")).stdout == "one  two\n"
            failed = await sb.exec(["false"])
            assert failed.exit_code == 1
            with pytest.raises(CommandFailedError) as caught:
                await sb.exec(["false"], check=True)
            assert caught.value.result.exit_code == 1
            assert (await sb.exec(["no-such-program"])).exit_code == 127

    @needs("commands")
    async def test_files_are_shared(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            await sb.write("d/f", "content")
            assert (await sb.exec(["cat", "d/f"])).stdout == "content"
            assert (await sb.exec(["cat", "f"], cwd="d")).stdout == "content"
            await sb.exec(["touch", "made"], check=True)
            assert await sb.exists("made")
            await sb.set_workdir("d")
            assert (await sb.exec(["cat", "f"])).stdout == "content"
            with pytest.raises(NotFoundError):
                await sb.exec(["pwd"], cwd="missing")
            with pytest.raises(OutsideError):
                await sb.exec(["pwd"], cwd="/etc")

    @needs("commands")
    async def test_environment(
        self, backend: str | BackendSpec, can: Capabilities, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOST_SECRET", "never")
        monkeypatch.setenv("HOST_NAMED", "passed")
        async with Sandbox.create(backend, env=["HOST_NAMED", "HOST_UNSET"]) as sb:
            lines = (await sb.exec(["env"], env={"MINE": "1"})).stdout.splitlines()
            names = {line.split("=")[0] for line in lines}
            assert {"PATH", "HOME", "USER", "LANG", "TERM", "HOST_NAMED", "MINE"} <= names
            assert not {"HOST_SECRET", "HOST_UNSET"} & names
            assert "HOST_NAMED=passed" in lines

    @needs("commands")
    async def test_stdin(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async def parts() -> "object":
            for part in (b"a", b"b"):
                yield part

        async with Sandbox.create(backend) as sb:
            assert (await sb.exec(["cat"], stdin="text")).stdout == "text"
            assert (await sb.exec(["cat"], stdin=b"\0\xff")).stdout_bytes == b"\0\xff"
            assert (await sb.exec(["cat"], stdin=parts())).stdout == "ab"  # type: ignore[arg-type]
            assert (await sb.exec(["cat"])).stdout == ""
            assert (await sb.exec(["echo", "x"], stdin="nobody reads this")).stdout == "x\n"

    @needs("commands")
    async def test_output_is_bounded(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            await sb.write("large", b"x" * 100_000)
            result = await sb.exec(["cat", "large"], max_output=1_000)
            assert (len(result.stdout_bytes), result.truncated) == (1_000, True)
            assert not (await sb.exec(["cat", "large"])).truncated

    @needs("commands")
    async def test_timeout(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend, timeout=0.2) as sb:
            with pytest.raises(ExecTimeoutError) as caught:
                await sb.exec(["sleep", "100"])
            assert caught.value.result.exit_code == 137
            with pytest.raises(TimeoutError):
                await sb.exec(["sleep", "100"], timeout=0.05)
            assert (await sb.exec(["sleep", "0.3"], timeout=math.inf)).exit_code == 0
            assert await sb.processes() == []

    @needs("commands")
    async def test_cancel(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            task = asyncio.ensure_future(sb.exec(["sleep", "100"]))
            while not await sb.processes():
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await sb.processes() == []

    @needs("commands")
    async def test_start(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            process = await sb.start(["cat"], stdin=True)
            await process.write("one ")
            await process.write(b"two")
            assert [info.pid for info in await sb.processes()] == [process.pid]
            again = await sb.process(process.pid)
            await process.close_stdin()
            assert b"".join([chunk.data async for chunk in process]) == b"one two"
            assert (await again.wait()).stdout == "one two"
            assert process.exit_code == 0
            with pytest.raises(NotFoundError):
                await sb.process(process.pid)
            async with await sb.start(["sleep", "100"]) as sleeper:
                assert sleeper.exit_code is None
            assert sleeper.exit_code == 137
            for wrong in (sleeper.signal(0), sleeper.resize(0, 5)):
                with pytest.raises(ConfigError):
                    await wrong

    @needs("commands")
    async def test_signal(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            process = await sb.start(["sleep", "100"])
            await process.signal(15)
            assert (await process.wait()).exit_code == 143
            await process.signal(15)
            await process.kill()

    @needs("commands")
    async def test_many_at_once(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            results = await asyncio.gather(*(sb.exec(["echo", str(n)]) for n in range(100)))
            assert [result.stdout for result in results] == [f"{n}\n" for n in range(100)]

    @needs("commands")
    async def test_the_log_names_the_program_only(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            events = sb.events()
            await sb.exec("TOKEN=s3cr3t echo s3cr3t")
            await sb.exec(["echo", "s3cr3t"])
            assert [(await anext(events)).subject for _ in range(2)] == ["echo", "echo"]

    @needs("commands")
    async def test_malformed(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            for options in ({"timeout": 0}, {"timeout": "5"}, {"timeout": -1}, {"max_output": -1}, {"env": {"A": 5}}):
                with pytest.raises(ConfigError):
                    await sb.exec(["pwd"], **options)
            for bad in ("", " ", [], ["a\0"], [1], b"ls", None):
                with pytest.raises(ConfigError):
                    await sb.exec(bad)  # type: ignore[arg-type]
            with pytest.raises(ConfigError):
                await sb.exec("echo 'open") if not can.shell else await sb.exec("")

    async def test_what_there_is_no_shell_for(self, sb: Sandbox, can: Capabilities) -> None:
        if can.shell:
            assert (await sb.exec("echo a && echo b | cat")).stdout == "a\nb\n"
            return
        for text in ("echo a && echo b", "echo a | cat", "echo a > f", "echo a; echo b"):
            with pytest.raises(UnsupportedError):
                await sb.exec(text)
