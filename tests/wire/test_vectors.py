"""The vectors decide both sides: the host's bytes, the supervisor's functions, and a supervisor that runs."""

import subprocess
from pathlib import Path

import pytest

from paddock.wire.fields import Malformed
from paddock.wire.frames import MAX_PAYLOAD, Decoder, Reply, Request, encode
from wire.building import Sanitized
from wire.talk import Talk
from wire.vectors import BAD, GOOD, INCOMPLETE, RAW, REFUSED, Vector, flat, kinds, pack, unpack

HOST_BAD = [vector for vector in BAD if vector.side != "replies"]


def test_there_is_one_of_every_type() -> None:
    asked, told = RAW["requests"], RAW["replies"]
    assert {name: shape["type"] for name, shape in asked.items()} == {request.name: request for request in Request}
    assert {name: shape["type"] for name, shape in told.items()} == {reply.name: reply for reply in Reply}
    assert {vector.type for vector in GOOD} == {*Request, *Reply}


@pytest.mark.parametrize("vector", GOOD, ids=str)
def test_good(vector: Vector) -> None:
    payload = pack(vector.schema, vector.fields)
    assert encode(vector.type, vector.id, payload, vector.descriptors) == vector.data
    fds = range(1000, 1000 + vector.descriptors)
    (frame,) = Decoder().feed(vector.data, fds)
    assert (frame.type, frame.id, frame.fds) == (vector.type, vector.id, tuple(fds))
    assert unpack(vector.schema, frame.payload) == vector.fields


@pytest.mark.parametrize("vector", BAD, ids=str)
def test_bad(vector: Vector) -> None:
    with pytest.raises(Malformed):
        _take_apart(vector)


def _take_apart(vector: Vector) -> None:
    for frame in Decoder().feed(vector.data):
        unpack(vector.schema, frame.payload)


@pytest.mark.parametrize("vector", INCOMPLETE, ids=str)
def test_incomplete(vector: Vector) -> None:
    assert list(Decoder().feed(vector.data)) == []


def test_a_payload_that_is_too_large_is_not_sent() -> None:
    assert encode(Request.INPUT, 1, bytes(MAX_PAYLOAD))[:4] == b"\0\0\x20\0"
    with pytest.raises(ValueError, match="too large"):
        encode(Request.INPUT, 1, bytes(MAX_PAYLOAD + 1))


def _decoded(program: Path, vectors: list[Vector]) -> list[str]:
    lines = "".join(f"{kinds(vector.schema)} {vector.data.hex()}\n" for vector in vectors)
    done = subprocess.run([program], input=lines, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_good_in_c(decode_program: Path) -> None:
    for vector, line in zip(GOOD, _decoded(decode_program, GOOD), strict=True):
        head = [str(number) for number in (vector.type, vector.id, vector.descriptors)]
        assert line.split() == [*head, *flat(vector.schema, vector.fields), vector.data.hex()], vector.name


def test_bad_in_c(decode_program: Path) -> None:
    for vector, line in zip(BAD, _decoded(decode_program, BAD), strict=True):
        assert line.endswith("bad payload" if vector.side else "bad header"), vector.name


GOOD_REQUESTS = [vector for vector in GOOD if vector.side == "requests" and vector.descriptors == 0]


def test_a_supervisor_takes_the_good(sanitized: Sanitized) -> None:
    with sanitized.clean(), Talk(sanitized.program) as talk:
        for vector in GOOD_REQUESTS:
            if vector.type not in (Request.ROOT, Request.END):  # which are a path of this host, and what its name says
                talk.send(vector.data)
        frames = talk.finish()
        assert Reply.ERROR not in [frame.type for frame in frames]
        assert talk.status == 0
        assert len(frames) >= len(GOOD_REQUESTS) // 2


@pytest.mark.parametrize("vector", [*HOST_BAD, *REFUSED], ids=str)
def test_a_supervisor_refuses_the_bad(sanitized: Sanitized, vector: Vector) -> None:
    with sanitized.clean(), Talk(sanitized.program) as talk:
        talk.send(vector.data)
        frames = talk.read_to_end()
        assert frames[-1].type == Reply.ERROR
        assert talk.status == 0


@pytest.mark.parametrize("vector", INCOMPLETE, ids=str)
def test_a_supervisor_waits_for_the_rest(sanitized: Sanitized, vector: Vector) -> None:
    with sanitized.clean(), Talk(sanitized.program) as talk:
        talk.send(vector.data)
        assert [frame.type for frame in talk.finish()] == [Reply.HELLO]
        assert talk.status == 0


def test_a_type_that_nobody_knows_is_no_harm(sanitized: Sanitized) -> None:
    with sanitized.clean(), Talk(sanitized.program) as talk:
        for type_ in (0x00, 0x19, 0x2E, 0x46, 0x4F, 0x82, 0xFF):
            talk.send(encode(type_, 7, b"whatever"))
        talk.send(encode(Request.PROCESSES, 8))
        frames = talk.finish()
        assert [frame.type for frame in frames] == [Reply.HELLO, *[Reply.FAILED] * 7, Reply.PROCESSES]
        assert talk.status == 0
