"""Who can be spoken to: the sandbox's own processes, and nobody else."""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from paddock import Sandbox
from security import inside
from security.suite import Suite, ask, failed, not_refused

UNREACHABLE = {"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ENOENT", "EACCES", "EPERM"}


@contextmanager
def listening(family: int, address: object) -> Iterator[socket.socket]:
    """A server of the host's. Nobody may come to it."""
    with socket.socket(family) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen()
        server.setblocking(False)
        yield server


def own_addresses() -> list[str]:
    """An address of this host that is not its loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [probe.getsockname()[0]]


class NetworkSecurity(Suite):
    """Sockets, and memory that processes share."""

    async def test_nothing_but_loopback(self, sb: Sandbox) -> None:
        assert await ask(sb, inside.network) == {"interfaces": "lo", "routes": ""}
        assert failed(await ask(sb, inside.own_servers, "/tmp")) == {}

    async def test_servers_of_the_host(self, sb: Sandbox) -> None:
        with listening(socket.AF_INET, ("0.0.0.0", 0)) as server:
            port = server.getsockname()[1]
            targets = [["tcp", [address, port]] for address in ("127.0.0.1", "0.0.0.0", *own_addresses())]
            others = [["tcp", ["192.0.2.1", 80]], ["udp", ["192.0.2.1", 53]], ["udp", ["169.254.169.254", 80]]]
            assert not_refused(await ask(sb, inside.connect, [*targets, *others]), UNREACHABLE) == {}

    async def test_unix_sockets_of_the_host(self, sb: Sandbox, tmp_path: Path) -> None:
        name = uuid4().hex
        paths = [f"/tmp/paddock-test-{name}", f"/dev/shm/paddock-test-{name}"]
        with ExitStack() as stack:
            for address in (*paths, f"\0{name}"):
                stack.enter_context(listening(socket.AF_UNIX, address))
            targets = [
                ["unix", address] for address in (*paths, f"@{name}", "/run/docker.sock", "/run/dbus/system_bus_socket")
            ]
            try:
                assert not_refused(await ask(sb, inside.connect, targets), UNREACHABLE) == {}
            finally:
                for path in paths:
                    os.unlink(path)

    async def test_shared_memory_of_the_host(self, sb: Sandbox) -> None:
        key, name = 0x5AD0000 + os.getpid() % 0xFFFF, f"paddock-test-{uuid4().hex}"
        libc = ctypes.CDLL(None)
        memory, semaphores, queue = (
            libc.shmget(key, 4096, 0o1666),
            libc.semget(key, 1, 0o1666),
            libc.msgget(key, 0o1666),
        )
        Path(f"/dev/shm/{name}").touch()
        named = libc.mq_open(f"/{name}".encode(), os.O_RDWR | os.O_CREAT, 0o666, None)
        try:
            found = await ask(sb, inside.shared_memory, key, name)
            assert {found.pop("own memory"), found.pop("own name")} == {"ok"}
            assert not_refused(found, {"ENOENT", "ENOSYS"}) == {}
        finally:
            libc.shmctl(memory, 0, None)
            libc.semctl(semaphores, 0, 0)
            libc.msgctl(queue, 0, None)
            os.unlink(f"/dev/shm/{name}")
            os.close(named)
            libc.mq_unlink(f"/{name}".encode())
