"""`expose` and `wait_for_port`: servers inside, used by programs on this host."""

import asyncio
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

import descriptors
from paddock import ConfigError, ExecTimeoutError, Sandbox, SandboxDiedError, SandboxError, ports
from paddock.driver import BackendSpec
from paddock.ports import expose, wait_for_port
from paddock.types.ports import Endpoint
from relays import inside
from relays.conftest import Subject, until

SERVER = ["python3", "-m", "http.server", "--bind", "127.0.0.1", "8123"]
OFFLINE = urllib.request.build_opener(urllib.request.ProxyHandler({}))


async def free_port(there: Subject) -> int:
    """One that nothing listens at; `local` shares them with the host."""
    program = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
    return int((await there.sandbox.exec(["python3", "-c", program])).stdout)


def fetched(url: str) -> bytes:
    with OFFLINE.open(url, timeout=60) as answer:
        found: bytes = answer.read()
        return found


async def test_a_port_of_this_host_that_was_asked_for(here: Subject) -> None:
    async with await expose(here.driver, 8123) as one:
        taken = one.port
        with pytest.raises(ConfigError, match=f"Port {taken} of this host .* Address already in use"):
            await expose(here.driver, 8123, taken)
        for wrong in (-1, 65536, "80"):
            with pytest.raises(ConfigError):
                await expose(here.driver, 8123, wrong)  # type: ignore[arg-type]
    async with await expose(here.driver, 8123, taken) as again:
        assert (again.port, again.inside) == (taken, 8123)


async def test_a_web_server(sb: Subject) -> None:
    await sb.sandbox.write("index.html", "<h1>hello</h1>")
    await sb.sandbox.write("large.bin", bytes(range(256)) * 8192)
    port = str(await free_port(sb))
    async with await sb.sandbox.start([*SERVER[:-1], port], cwd="/workspace"):
        await wait_for_port(sb.driver, int(port), timeout=60)
        async with await expose(sb.driver, int(port)) as endpoint:
            assert endpoint.url == f"http://127.0.0.1:{endpoint.port}/"
            assert await asyncio.to_thread(fetched, endpoint.url) == b"<h1>hello</h1>"
            many = (asyncio.to_thread(fetched, f"{endpoint.url}large.bin") for _ in range(8))
            assert set(await asyncio.gather(*many)) == {bytes(range(256)) * 8192}
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(fetched, endpoint.url)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl(here: Subject, tmp_path: Path) -> None:
    await here.sandbox.write("page", "by curl")
    port = str(await free_port(here))
    async with await here.sandbox.start([*SERVER[:-1], port], cwd="/workspace"):
        await wait_for_port(here.driver, int(port))
        async with await expose(here.driver, int(port)) as endpoint:
            words = ["curl", "--silent", "--noproxy", "*", "--max-time", "30", f"{endpoint.url}page"]
            done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (0, "by curl")


async def test_half_of_it_may_end_first(here: Subject) -> None:
    """As with a connection that nobody forwards: what was said arrives, and then the answer to it."""
    async with here.serving(inside.echo, 0) as address, await expose(here.driver, address.port) as endpoint:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        said = bytes(range(256)) * 20_000

        async def say() -> None:
            writer.write(said)
            await writer.drain()
            writer.write_eof()

        saying = asyncio.create_task(say())
        assert await reader.read() == said
        await saying
        writer.close()
        await writer.wait_closed()


async def test_a_server_that_does_not_mind_that_its_client_is_gone(
    here: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "SECONDS_TO_ANSWER", 0.5)
    async with here.serving(inside.deaf, 0) as address, await expose(here.driver, address.port) as endpoint:
        before = descriptors.count()
        for _ in range(5):
            _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            writer.close()
            await writer.wait_closed()
        _, patient = await asyncio.open_connection(endpoint.host, endpoint.port)  # it has not ended, and stays
        await until(lambda: descriptors.count() <= before + 3)
        await asyncio.sleep(1)
        patient.write(b"x")
        await patient.drain()
        assert descriptors.count() >= before + 2
        patient.close()


async def test_one_who_is_cut_off(here: Subject) -> None:
    """A client that vanishes, a server that cuts off: the other side hears of it, and others go on."""
    program = """
import socket, sys
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept()
    word = c.recv(1)
    if word == b"r":
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
        c.close()
    elif word == b"w":
        c.sendall(b"k")
        try:
            while c.recv(65536): pass
            print("end", flush=True)
        except ConnectionResetError:
            print("reset", flush=True)
"""
    async with await here.sandbox.start(["python3", "-c", program]) as process:
        chunks = aiter(process)
        port = int((await anext(chunks)).text)
        async with await expose(here.driver, port) as endpoint:
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            writer.write(b"r")
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            writer.write(b"w")
            assert await reader.read(1) == b"k"
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, *bytes(7)]))
            writer.transport.abort()
            assert (await anext(chunks)).text == "reset\n"


async def test_nobody_has_to_be_there_yet(here: Subject) -> None:
    port = await free_port(here)
    async with await expose(here.driver, port) as endpoint:
        with pytest.raises(OSError, match=r"closed|reset|Remote end"):
            await asyncio.to_thread(fetched, endpoint.url)
        async with here.serving(inside.echo, port):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            writer.write(b"now")
            assert await reader.read(10) == b"now"
            writer.close()


async def test_it_is_on_this_hosts_loopback_alone(here: Subject) -> None:
    async with await expose(here.driver, 8123) as endpoint:
        assert endpoint.host == "127.0.0.1"
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        listening = [line.split()[1] for line in lines if line.split()[3] == "0A"]
        assert [where for where in listening if where.endswith(f":{endpoint.port:04X}")] == [
            f"0100007F:{endpoint.port:04X}"
        ]
        assert repr(endpoint) == f"Endpoint(host='127.0.0.1', port={endpoint.port}, inside=8123)"


async def test_it_ends_with_its_sandbox(backend: BackendSpec) -> None:
    before, tasks = descriptors.count(), asyncio.all_tasks()
    sandbox = await Sandbox.create(backend)
    there = Subject(sandbox)
    async with there.serving(inside.echo, 0) as address:
        endpoint = await expose(there.driver, address.port)
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        await sandbox.close()
    with pytest.raises(ConnectionResetError):
        assert await reader.read() != b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(endpoint.host, endpoint.port)
    await endpoint.close()
    await until(lambda: not asyncio.all_tasks() - tasks)
    assert await descriptors.soon_back_to(before + 2)
    with pytest.raises(SandboxError):
        await expose(there.driver, 8123)
    with pytest.raises(SandboxError):
        await wait_for_port(there.driver, 8123)


async def test_two_of_the_same(here: Subject) -> None:
    async with here.serving(inside.echo, 0) as address:
        one, other = await expose(here.driver, address.port), await expose(here.driver, address.port)
        assert one.port != other.port
        await one.close()
        await one.close()
        reader, writer = await asyncio.open_connection(other.host, other.port)
        writer.write(b"the other")
        assert await reader.read(20) == b"the other"
        writer.close()
        await other.close()


async def test_waiting(here: Subject) -> None:
    port = await free_port(here)
    waiting = asyncio.create_task(wait_for_port(here.driver, port, timeout=60))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    async with here.serving(inside.echo, port):
        await asyncio.wait_for(waiting, 30)
        await wait_for_port(here.driver, port, timeout=0)  # it is there already


async def test_waiting_in_vain(here: Subject) -> None:
    port, begin, used = await free_port(here), time.monotonic(), time.process_time()
    with pytest.raises(ExecTimeoutError, match=rf"Nothing listens at port {port} inside after 1 seconds") as caught:
        await wait_for_port(here.driver, port, timeout=1)
    assert isinstance(caught.value, TimeoutError)
    assert 1 <= time.monotonic() - begin < 20
    assert time.process_time() - used < 0.5


async def test_waiting_for_a_sandbox_that_dies(backend: BackendSpec) -> None:
    sandbox = await Sandbox.create(backend)
    there = Subject(sandbox)
    waiting = asyncio.create_task(wait_for_port(there.driver, await free_port(there), timeout=60))
    await asyncio.sleep(0.05)
    await sandbox.close()
    with pytest.raises((SandboxDiedError, SandboxError)):
        await asyncio.wait_for(waiting, 30)


@pytest.mark.parametrize("port", [0, -1, 65536])
async def test_what_is_no_port(here: Subject, port: int) -> None:
    for call in (expose(here.driver, port), wait_for_port(here.driver, port)):
        with pytest.raises(ConfigError):
            await call


async def test_an_endpoint_by_itself() -> None:
    ended = []

    async def end() -> None:
        ended.append(True)

    async with Endpoint("127.0.0.1", 4000, 80, end) as endpoint:
        assert endpoint == Endpoint("127.0.0.1", 4000, 80, end)
    assert ended == [True]
