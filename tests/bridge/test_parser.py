"""Bytes that no client would send, given to the parser: always a message or a refusal, in time that grows with the size."""

import json
import os
import random
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.bridge.lines import MAX_DEPTH, Lines, Message, RefusedError, TooLongError, parse

ROUNDS = 20_000 if "PADDOCK_SOAK" in os.environ else 4000
GOOD = [
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "é\n\u2028"}}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x", "reason": '\\"[{'}},
    {"jsonrpc": "2.0", "id": "a", "result": {"content": [{"type": "text", "text": "[" * 200}]}},
    {"jsonrpc": "2.0", "id": 3, "error": {"code": -1, "message": "no", "data": [[[[[[]]]]]]}},
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


def outcome(line: bytes) -> Message | RefusedError:
    """What becomes of a line; anything else is what we look for."""
    try:
        return parse(line)
    except RefusedError as error:
        refused = error
    assert refused.code in (-32700, -32600, -32602)
    assert refused.id is None or isinstance(refused.id, (int, str))
    return refused


def changed(source: random.Random, line: bytes) -> bytes:
    """The line with a few bytes removed, doubled, swapped or replaced."""
    data = bytearray(line)
    for _ in range(source.randrange(1, 6)):
        at = source.randrange(len(data) + 1)
        what = source.randrange(5)
        if what == 0:
            del data[at : at + source.randrange(1, 9)]
        elif what == 1:
            data[at:at] = bytes([source.randrange(256)])
        elif what == 2:
            data[at:at] = source.choice([b"[", b"{", b'"', b"\\", b"\\ud800", b"\0", b"NaN", b"1e999", b"\xff", b":"])
        elif what == 3:
            data[at:at] = data[at : at + source.randrange(1, 40)]
        else:
            data[at : at + 1] = source.randbytes(1)
    return bytes(data)


def test_changed_messages() -> None:
    source = random.Random(7)
    lines = [json.dumps(one).encode() for one in GOOD] + [json.dumps(one, ensure_ascii=False).encode() for one in GOOD]
    found = {type(outcome(changed(source, source.choice(lines)))) for _ in range(ROUNDS)}
    assert found == {Message, RefusedError}


def test_bytes_that_mean_nothing() -> None:
    source = random.Random(8)
    for _ in range(ROUNDS):
        outcome(source.randbytes(source.randrange(200)))
        outcome(bytes(source.choices(b'[]{}",:\\u0d8-1e9nft \t', k=source.randrange(200))))


@given(VALUES)
def test_any_value(value: object) -> None:
    outcome(json.dumps(value).encode())
    message = {"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"value": value}}
    deep = json.dumps(message)
    found = outcome(deep.encode())
    assert isinstance(found, RefusedError) or found.data == message


@pytest.mark.parametrize("one", GOOD)
def test_good_ones(one: dict[str, object]) -> None:
    found = parse(json.dumps(one).encode())
    assert (found.data, found.method, found.id) == (one, one.get("method"), one.get("id"))


@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=20), st.randoms())
def test_any_split_gives_the_same_lines(lines: list[bytes], source: random.Random) -> None:
    whole = b"".join(line + b"\n" for line in lines[:-1]) + b"".join(lines[-1:])
    reader, found = Lines(1000), []
    while whole:
        size = source.randrange(1, 12)
        found += reader.feed(whole[:size])
        whole = whole[size:]
    assert found + reader.rest() == [line for line in lines if line.strip()]


def test_a_line_in_small_pieces_is_kept_as_one() -> None:
    """Not as many small things, each of which takes more than its bytes."""
    reader = Lines(200_000)
    tracemalloc.start()
    for number in range(100_000):
        reader.feed(b"%02d" % (number % 100))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1 << 20
    assert len(reader.feed(b"\n")[0]) == 200_000


def test_a_line_that_is_too_long() -> None:
    for pieces in (1, 7, 1000):
        reader = Lines(1000)
        assert reader.feed(b"x" * 1000 + b"\n") == [b"x" * 1000]
        for _ in range(1000 // pieces):
            assert reader.feed(b"x" * pieces) == []
        with pytest.raises(TooLongError):
            reader.feed(b"x" * 1000)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":', b"[[]," * 1 + b"["])
def test_depth(opening: bytes) -> None:
    for line in (opening * 100_000, opening * (MAX_DEPTH + 1)):
        refused = outcome(line)
        assert isinstance(refused, RefusedError)
        assert refused.code == -32700
    inner = b"[" * (MAX_DEPTH - 2) + b"]" * (MAX_DEPTH - 2)
    fine = b'{"jsonrpc": "2.0", "method": "x", "params": {"a": %s}}'
    assert isinstance(outcome(fine % inner), Message)
    assert isinstance(outcome(fine % b"[%s]" % inner), RefusedError)
    assert isinstance(outcome(fine % b'"[[%s"' % (b"[" * 1000)), Message)  # in a text they are no brackets


@pytest.mark.parametrize(
    "unit",
    [b"[]", b'\\"', b'"', b'"\\', b"[" * 65 + b'"' * 30, b'"a"', b"{}[]", b"\\", b'"[\\"]"', b"1", b" ", b"-", b"[1,"],
)
def test_the_largest_lines_take_little_time(unit: bytes) -> None:
    """Of every kind: none takes time that grows faster than its size."""
    line = (b"[" * 65 + unit * ((1 << 20) // len(unit)))[: 1 << 20]
    started = time.process_time()
    outcome(line)
    outcome(unit * ((1 << 20) // len(unit)))
    assert time.process_time() - started < 5
