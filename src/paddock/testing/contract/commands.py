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
from paddock.types import ExecResult


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
            for wrong in (sleeper.signal(0), sleeper.signal("TERM"), sleeper.resize(0, 5)):  # type: ignore[arg-type]
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
            with pytest.raises(ConfigError, match="write"):
                await sb.start(["cat"], stdin="text")  # type: ignore[arg-type]
            with pytest.raises(ConfigError):
                await sb.exec("echo 'open") if not can.shell else await sb.exec("")

    @needs("shell")
    async def test_exit_codes(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            for code in (0, 1, 2, 126, 127, 128, 200, 255):
                assert (await sb.exec(f"(exit {code})")).exit_code == code
            for number in (1, 2, 9, 15, 31):
                assert (await sb.exec(f"kill -{number} $$; true")).exit_code == 128 + number

    @needs("shell")
    async def test_a_child_in_the_background_delays_nothing(
        self, backend: str | BackendSpec, can: Capabilities
    ) -> None:
        async with Sandbox.create(backend) as sb:
            result = await sb.exec("(sleep 0.2; echo late; touch done; sleep 100) & echo early", timeout=30)
            assert result.stdout == "early\n"
            while not await sb.exists("done"):  # it printed to a pipe that nobody reads, and lived on
                await asyncio.sleep(0.02)

    @needs("shell")
    async def test_a_tree_ends_whole(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            await sb.write("beat.sh", "while :; do date +%s%N > $1; sleep 0.05; done")
            other = await sb.start(["sh", "beat.sh", "other"])
            with pytest.raises(ExecTimeoutError):
                await sb.exec("trap '' TERM HUP INT; setsid sh beat.sh a & (sh beat.sh b &) & wait", timeout=3)
            seen = {name: await sb.read_bytes(name) for name in ("a", "b", "other")}
            await asyncio.sleep(1)
            while await sb.read_bytes("other") in (seen["other"], b""):  # empty for a moment with each beat
                await asyncio.sleep(0.05)
            for name in ("a", "b"):
                assert await sb.read_bytes(name) == seen[name], name
            await other.kill()

    @needs("shell")
    async def test_usage(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            result = await sb.exec("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
            assert 0 < result.usage.cpu < 60
            assert result.usage.memory > 100_000
            assert result.duration > 0

    @needs("shell")
    async def test_output_as_it_comes(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            process = await sb.start("echo one; echo two >&2; read line; echo $line", stdin=True)
            seen = []
            async for chunk in process:
                seen.append((chunk.stream, chunk.text))
                if len(seen) == 2:
                    await process.write("three\n")
            assert sorted(seen) == [("stderr", "two\n"), ("stdout", "one\n"), ("stdout", "three\n")]
            assert (await process.wait()).stdout == "one\nthree\n"

    @needs("shell")
    async def test_a_text_is_whole_where_its_bytes_were_cut(
        self, backend: str | BackendSpec, can: Capabilities
    ) -> None:
        async with Sandbox.create(backend) as sb:
            process = await sb.start("printf 'a\\303'; read x; printf '\\251b\\303'", stdin=True)
            chunks = []
            async for chunk in process:
                chunks.append(chunk)
                await process.close_stdin()
            assert b"".join(chunk.data for chunk in chunks) == b"a\xc3\xa9b\xc3"
            assert "".join(chunk.text for chunk in chunks) == "a\u00e9b\ufffd"

    @needs("shell")
    async def test_nobody_reads(self, backend: str | BackendSpec, can: Capabilities) -> None:
        """The last of it is kept, and the command is not held up."""
        async with Sandbox.create(backend) as sb:
            process = await sb.start("yes | head -c 3000000; echo end", max_output=1_000)
            result = await process.wait()
            assert (len(result.stdout_bytes), result.truncated, result.stdout[-6:]) == (1_000, True, "y\nend\n")

    @needs("shell")
    async def test_a_slow_reader_loses_nothing(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            process = await sb.start("yes | head -c 6000000")
            size = 0
            async for chunk in process:
                size += len(chunk.data)
                await asyncio.sleep(0.001)
            assert size == 6_000_000

    @needs("shell")
    async def test_what_looks_like_protocol_is_output(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            await sb.write("frame", bytes.fromhex("1c0000008600000001000000") + b"\0" * 28)
            result = await sb.exec("cat frame frame; cat frame >&2; exit 3")
            assert (result.exit_code, len(result.stdout_bytes), len(result.stderr_bytes)) == (3, 80, 40)

    @needs("pty")
    async def test_a_terminal(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            script = "test -t 0 && test -t 1 && test -t 2 && stty size; read a; stty size; echo got $a; exit 7"
            process = await sb.start(script, pty=True)
            text = ""
            async for chunk in process:
                text += chunk.text
                if "24 80" in text and "40 100" not in text and "x" not in text:
                    await process.resize(40, 100)
                    await process.write("x\n")
            assert "40 100" in text
            assert "got x\r\n" in text
            assert (await process.wait()).exit_code == 7

    @needs("pty")
    async def test_keys_of_a_terminal(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            process = await sb.start(["cat"], pty=True)
            await process.write("ready\n")
            seen = b""
            async for chunk in process:
                seen += chunk.data
                if seen.count(b"ready") == 2:  # once by the terminal, once by the program, which runs by now
                    break
            await process.write("\x03")
            assert (await process.wait()).exit_code == 130
            process = await sb.start(["cat"], pty=True)
            await process.write("line\n")
            await process.close_stdin()
            assert (await process.wait()).stdout == "line\r\nline\r\n"

    @needs("commands")
    async def test_close_ends_commands(self, backend: str | BackendSpec, can: Capabilities) -> None:
        async with Sandbox.create(backend) as sb:
            process = await sb.start(["sleep", "100"])
            waiting = asyncio.ensure_future(process.wait())
            await asyncio.sleep(0)
            await sb.close()
            done = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(done[0], ExecResult)
        assert done[0].exit_code == process.exit_code == 137

    async def test_what_there_is_no_shell_for(self, sb: Sandbox, can: Capabilities) -> None:
        if can.shell:
            assert (await sb.exec("echo a && echo b | cat")).stdout == "a\nb\n"
            return
        for text in ("echo a && echo b", "echo a | cat", "echo a > f", "echo a; echo b"):
            with pytest.raises(UnsupportedError):
                await sb.exec(text)
