"""Servers inside, reached from the host; and tools of the host, reached from inside."""

import asyncio

import pytest

from paddock.driver import BackendSpec, Capabilities
from paddock.errors import ConfigError, ExecTimeoutError, UnsupportedError
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite, needs

_SERVER = """
import socket
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"hello " + connection.recv(100))
    connection.close()
"""
_FREE = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"


class PortsContract(Suite):
    """`expose`, `wait_for_port`, `tools=`."""

    @needs("relays")
    async def test_a_server_inside(self, sb: Sandbox, backend: str | BackendSpec, can: Capabilities) -> None:
        early = await sb.expose(1)  # nothing has to listen there yet
        await early.close()
        async with await sb.start(["python3", "-c", _SERVER]) as process:
            port = int((await anext(aiter(process))).text)
            await sb.wait_for_port(port, timeout=30)
            async with await sb.expose(port) as endpoint:
                assert (endpoint.host, endpoint.inside) == ("127.0.0.1", port)
                assert endpoint.url == f"http://127.0.0.1:{endpoint.port}/"
                assert await _answer(endpoint.port) == b"hello you"
            with pytest.raises(OSError, match=r"refused|failed"):
                await _answer(endpoint.port)

    @needs("relays")
    async def test_a_port_that_nobody_listens_at(
        self, sb: Sandbox, backend: str | BackendSpec, can: Capabilities
    ) -> None:
        for port in (0, 65536, "80"):
            with pytest.raises((ConfigError, UnsupportedError)):
                await sb.expose(port)  # type: ignore[arg-type]
        async with await sb.expose(1):
            free = int((await sb.exec(["python3", "-c", _FREE])).stdout)
        with pytest.raises(ExecTimeoutError):
            await sb.wait_for_port(free, timeout=0.2)
        for timeout in (-1, None, "1"):
            with pytest.raises(ConfigError):
                await sb.wait_for_port(free, timeout=timeout)  # type: ignore[arg-type]
        async with await sb.expose(free) as endpoint:
            assert await _answer(endpoint.port) == b""
        with pytest.raises(UnsupportedError):
            await sb.restrict("/workspace").expose(free)

    @needs("tools")
    async def test_taking_tools(self, backend: str | BackendSpec, can: Capabilities) -> None:
        """That a backend takes them, or says so; they are of no use without an MCP client."""
        pytest.importorskip("mcp")
        async with Sandbox.create(backend, tools=[_doubled]) as sb:
            assert [grant.name for grant in sb.tools] == ["_doubled"]
            assert (await sb.exec('test -S "$PADDOCK_BRIDGE"')).exit_code == 0
            await sb.revoke("_doubled")
            assert sb.tools == ()


def _doubled(number: int) -> int:
    return 2 * number


async def _answer(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"you")
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
