"""Taking bytes apart: whatever comes is frames or `Malformed`, and no descriptor is lost on the way."""

import os
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.wire.fields import Fields, Malformed, pack_text, pack_texts, read_failure
from paddock.wire.frames import MAX_DESCRIPTORS, MAX_PAYLOAD, Decoder, Frame, encode
from paddock.wire.nodes import read_entries, read_node, read_watched
from paddock.wire.watch import _event
from wire.vectors import BAD, GOOD, kinds

U32 = st.integers(0, 2**32 - 1)
TEXTS = st.binary(max_size=40).map(lambda raw: raw.replace(b"\0", b""))
FRAMES = st.lists(
    st.builds(
        Frame,
        st.integers(0, 255),
        U32,
        st.binary(max_size=200),
        st.integers(0, MAX_DESCRIPTORS).map(lambda count: tuple(range(count))),
    ),
    max_size=8,
)


def _stream(frames: Sequence[Frame]) -> bytes:
    return b"".join(encode(frame.type, frame.id, frame.payload, len(frame.fds)) for frame in frames)


@given(FRAMES, st.data())
def test_however_a_stream_is_split(frames: list[Frame], data: st.DataObject) -> None:
    frames = [frame._replace(fds=()) for frame in frames]
    raw = _stream(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    decoder, found = Decoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        found += decoder.feed(raw[start:end])
    assert found == frames


@given(FRAMES, st.integers(1, 40))
def test_descriptors_come_to_their_frames(frames: list[Frame], piece: int) -> None:
    """They travel with the first byte of their frame, and the kernel puts no byte of a later message with them."""
    decoder, found, expected, number = Decoder(), [], [], 1000
    for frame in frames:
        fds = tuple(range(number, number + len(frame.fds)))
        number += len(fds)
        expected.append(frame._replace(fds=fds))
        raw = _stream([frame])
        for start in range(0, len(raw), piece):
            found += decoder.feed(raw[start : start + piece], fds if start == 0 else ())
    assert found == expected
    decoder.close()


def test_descriptors_may_come_with_earlier_bytes() -> None:
    raw = _stream([Frame(1, 1, b"x"), Frame(2, 2, b"", (7,))])
    assert [frame.fds for frame in Decoder().feed(raw, [7])] == [(), (7,)]


@pytest.mark.parametrize("raw", [b"", encode(0x82, 1), encode(0x84, 1, b"", 1)], ids=["nothing", "none", "one of two"])
def test_descriptors_that_belong_to_nothing(raw: bytes) -> None:
    decoder, fds = Decoder(), os.pipe()
    with pytest.raises(Malformed):
        list(decoder.feed(raw, fds))
    decoder.close()
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
            assert raw[5:6] == b"\1"  # the one that its frame took


def test_descriptors_are_not_hoarded() -> None:
    decoder = Decoder()
    list(decoder.feed(b"\0", range(1000, 1008)))
    with pytest.raises(Malformed):
        list(decoder.feed(b"\0", [2000]))


@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes(raw: bytes, piece: int) -> None:
    decoder = Decoder()
    with suppress(Malformed):
        for start in range(0, len(raw), piece):
            for frame in decoder.feed(raw[start : start + piece]):
                assert len(frame.payload) <= MAX_PAYLOAD


@given(st.binary(max_size=60), st.lists(st.sampled_from(["u8", "u16", "u32", "u64", "text", "texts", "rest"])))
def test_any_payload(raw: bytes, names: list[str]) -> None:
    fields = Fields(raw)
    with suppress(Malformed):
        for name in names:
            getattr(fields, name)()
        fields.end()


@given(st.lists(TEXTS, max_size=8), TEXTS)
def test_texts(texts: list[bytes], text: bytes) -> None:
    fields = Fields(pack_texts(texts) + pack_text(text))
    assert fields.texts() == texts
    assert fields.text() == text
    fields.end()


def test_a_text_holds_no_nul() -> None:
    with pytest.raises(ValueError, match="NUL"):
        pack_text(b"a\0b")


NODES = [v.data[12:] for v in (*GOOD, *BAD) if kinds(v.schema) in ("BQHQTT", "B(BQHQTT)", "BI(BT)", "IIT", "IB")]


@given(st.one_of(st.sampled_from(NODES), st.binary(max_size=80)), st.data())
def test_what_reads_answers_raises_nothing_else(raw: bytes, data: st.DataObject) -> None:
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(0, 4)) if raw else 0):
        changed[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    payload = bytes(changed)
    for read in (
        lambda: read_node(payload, "name"),
        lambda: read_entries([payload]),
        lambda: read_watched([payload, payload]),
        lambda: _event(payload),
        lambda: os.strerror(read_failure(payload)[0]),
    ):
        with suppress(Malformed):
            read()
