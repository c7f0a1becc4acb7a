"""SOCKS version 5, as much of it as there has to be: no passwords, and connecting to names and addresses."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from paddock.egress.refusing import Refused, Reply, no_host
from paddock.egress.streams import Ahead
from paddock.types import hosts

VERSION = 5
_CONNECT = 1
_NO_PASSWORD, _NONE_OF_THESE = 0, 0xFF
_V4, _NAME, _V6 = 1, 3, 4


@dataclass(frozen=True, slots=True)
class Place:
    """What is asked for, as it was said."""

    text: str
    port: int

    @property
    def shown(self) -> str:
        """For the log."""
        return hosts.shown(self.text, self.port)

    def host(self) -> str:
        """In its usual form; `Refused` if it is not in that."""
        try:
            return hosts.host(self.text)
        except ValueError:
            raise no_host() from None


async def asked(client: Ahead) -> Place:
    """Greet, and hear what is wanted: `Refused` for what there is not, `ConnectionError` for what is no SOCKS."""
    version, count = await client.exactly(2)
    methods = await client.exactly(count)
    if version != VERSION or _NO_PASSWORD not in methods:
        await client.write(bytes([VERSION, _NONE_OF_THESE]))
        raise ConnectionResetError("no way to begin")
    await client.write(bytes([VERSION, _NO_PASSWORD]))
    version, command, _, kind = await client.exactly(4)
    if version != VERSION:
        raise ConnectionResetError("another version")
    text = await _host(client, kind)
    port = int.from_bytes(await client.exactly(2), "big")
    if command != _CONNECT:
        raise Refused("Only connecting is possible.", reply=Reply.UNKNOWN_COMMAND, outcome="UNSUPPORTED")
    if port == 0:
        raise no_host()
    return Place(text, port)


async def _host(client: Ahead, kind: int) -> str:
    if kind == _V4:
        return str(IPv4Address(await client.exactly(4)))
    if kind == _V6:
        return IPv6Address(await client.exactly(16)).compressed
    if kind == _NAME:
        (length,) = await client.exactly(1)
        return (await client.exactly(length)).decode("latin-1")
    raise Refused("There is no such kind of address.", reply=Reply.UNKNOWN_ADDRESS, outcome="UNSUPPORTED")


def answer(reply: Reply) -> bytes:
    """Whether it is done. From where is nobody's business inside."""
    return bytes([VERSION, reply, 0, _V4, 0, 0, 0, 0, 0, 0])
