"""The supervisor makes its relays under the same filters as everybody, before and after commands have more of them."""

import struct
from collections.abc import Iterator

import pytest

from paddock.wire.fields import pack_text
from paddock.wire.frames import Reply, Request
from seccomp.inside import BASE, BOTH, Inside, inside


@pytest.fixture(scope="module", params=[BASE, BOTH])
def filtered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with inside(request.param, tmp_path_factory.mktemp("relays")) as there:
        yield there


@pytest.mark.parametrize("kind", ["port", "path"])
def test_a_relay(filtered: Inside, kind: str) -> None:
    host = filtered.host
    path = b"/tmp/relay" if kind == "path" else b""
    listener, accepted, connected = host.new_id(), host.new_id(), host.new_id()
    host.send(Request.LISTEN, listener, pack_text(path) + b"\0\0")
    (port,) = struct.unpack("<H", host.wait(Reply.LISTENING, listener).payload)
    host.send(Request.ACCEPT, accepted, struct.pack("<IBI", listener, 0, 1000))
    host.send(Request.CONNECT, connected, pack_text(path) + struct.pack("<HBI", port, 0, 1000))
    for id_ in (accepted, connected):
        host.wait(Reply.CONNECTED, id_)
    host.send(Request.PASS, connected, b"hello")
    assert host.wait(Reply.DATA, accepted).payload == b"hello"
    host.send(Request.HANG_UP, accepted, b"\1")
    host.send(Request.HANG_UP, listener, b"\0")
    host.wait(Reply.OK, listener)
    assert filtered.run("test ! -e /tmp/relay")[0] == 0
