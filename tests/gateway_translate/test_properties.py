"""What holds for any bytes, however they are split, and for any answer."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.gateway.translate import (
    AnswerReader,
    AnswerWriter,
    BadRequest,
    Began,
    Delta,
    Ended,
    Failed,
    PartEnded,
    Target,
    TextDelta,
    ThinkingDelta,
    ThinkingSealed,
    ToolArguments,
    ToolBegan,
    Translated,
    Usage,
    UsageReader,
    Used,
    dump_json,
    load_json,
    plain_system,
    read_answer,
    read_failure,
    read_request,
    write_answer,
    write_request,
)
from paddock.gateway.translate.model import Seal

from .samples import REQUESTS, WIRES, answer, ask

ROUNDS = settings(max_examples=40, deadline=None)
wires = st.sampled_from(WIRES)
words = st.text(min_size=1, max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def parts(draw: st.DrawFn, wire: Translated) -> list[Delta]:
    kind = draw(st.sampled_from(["text", "thinking", "tool"]))
    pieces = draw(st.lists(words, min_size=1, max_size=3))
    if kind == "text":
        return [*map(TextDelta, pieces), PartEnded()]
    if kind == "thinking":
        seal = Seal("chat") if wire == "chat" else Seal(wire, "", "c2ln")
        return [*map(ThinkingDelta, pieces), ThinkingSealed(seal), PartEnded()]
    id = f"call_{draw(st.uuids())}"
    return [ToolBegan(id, draw(st.sampled_from(["f", "g"]))), *map(ToolArguments, pieces), PartEnded()]


@st.composite
def answers(draw: st.DrawFn, wire: Translated) -> list[Delta]:
    middle = [delta for part in draw(st.lists(parts(wire), max_size=5)) for delta in part]
    called = any(isinstance(delta, ToolBegan) for delta in middle)
    input, output = draw(st.integers(8, 999)), draw(st.integers(1, 999))
    return [Began("id", ""), *middle, Used(Usage(input, output, 5, 3, 1)), Ended("tool" if called else "end")]


def normal(deltas: list[Delta]) -> list[Delta]:
    """`deltas` with neighbouring pieces as one, and without what only some formats say."""
    result: list[Delta] = []
    for delta in deltas:
        last = result[-1] if result else None
        if isinstance(delta, Began):
            result.append(Began("id"))
        elif isinstance(delta, ThinkingSealed):
            result.append(ThinkingSealed(Seal("")))
        elif isinstance(delta, TextDelta | ThinkingDelta | ToolArguments) and type(last) is type(delta):
            result[-1] = type(delta)(last.text + delta.text)
        else:
            result.append(delta)
    return _joined(result)


def _joined(deltas: list[Delta]) -> list[Delta]:
    """Neighbouring parts of the same kind as one: Chat Completions knows no borders between them."""
    result: list[Delta] = []
    for delta in deltas:
        kind = TextDelta if isinstance(delta, TextDelta) else ThinkingDelta
        if isinstance(delta, TextDelta | ThinkingDelta) and len(result) > 1 and isinstance(result[-1], PartEnded):
            at = -2 if kind is TextDelta else -3
            if len(result) >= -at and isinstance(before := result[at], kind):
                result[at:] = [kind(before.text + delta.text)]
                continue
        result.append(delta)
    return result


@ROUNDS
@given(data=st.data(), wire=wires)
def test_what_is_written_is_read(data: st.DataObject, wire: Translated) -> None:
    deltas = data.draw(answers(wire))
    reader = AnswerReader(wire)
    stream = AnswerWriter(wire, ask("anthropic")).write(deltas)
    assert normal(reader.feed(stream) + reader.end()) == normal(deltas)


@ROUNDS
@given(wire=wires, ends=st.sampled_from([b"\n", b"\r\n", b"\r"]), cuts=st.lists(st.integers(0, 9000), max_size=40))
def test_any_split_gives_the_same(wire: Translated, ends: bytes, cuts: list[int]) -> None:
    stream = b"\xef\xbb\xbf: hello\n\n" + AnswerWriter(wire, ask("anthropic")).write(answer(wire))
    stream = stream.replace(b"\n", ends)
    whole = AnswerReader(wire)
    expected = whole.feed(stream) + whole.end()
    assert isinstance(expected[-1], Ended)
    assert fed(wire, stream, sorted(cuts)) == expected


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("wire", WIRES)
def test_one_byte_after_another(wire: Translated, ends: bytes) -> None:
    stream = AnswerWriter(wire, ask("anthropic")).write(answer(wire)).replace(b"\n", ends)
    assert fed(wire, stream, list(range(len(stream)))) == fed(wire, stream, [])


def fed(wire: Translated, stream: bytes, cuts: list[int]) -> list[Delta]:
    reader, usage, deltas = AnswerReader(wire), UsageReader(wire), []
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        deltas += reader.feed(stream[start:end])
        usage.feed(stream[start:end])
    usage.end()
    assert usage.usage == Usage(100, 40, 20, 10, 5)
    return deltas + reader.end()


@ROUNDS
@given(
    wire=wires, data=st.binary(max_size=200), prefix=st.sampled_from([b"", b"data: ", b'data: {"type":', b"event: x\n"])
)
def test_any_bytes_are_an_answer_or_a_failure(wire: Translated, data: bytes, prefix: bytes) -> None:
    reader = AnswerReader(wire)
    deltas = reader.feed(prefix + data + b"\n\n") + reader.end()
    assert isinstance(deltas[-1], Ended | Failed)
    UsageReader(wire).feed(data)
    read_failure(500, data)


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """`value` with something in it replaced by something else."""
    if draw(st.integers(0, 9)) == 0 or not isinstance(value, dict | list) or not value:
        return draw(json_values)
    at = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    changed = value.copy()
    changed[at] = draw(damaged(value[at]))
    return changed


@settings(max_examples=150, deadline=None)
@given(data=st.data(), wire=wires, back=wires)
def test_a_damaged_request_is_understood_or_refused(data: st.DataObject, wire: Translated, back: Translated) -> None:
    body = data.draw(damaged(REQUESTS[wire]))
    try:
        dump_json(write_request(back, read_request(wire, body), Target("m", reasoning="budget")).body)
        if isinstance(body, dict):
            plain_system(body)
    except BadRequest:
        pass  # which names the place, as other tests show


@settings(max_examples=150, deadline=None)
@given(data=st.data(), wire=wires, front=wires)
def test_a_damaged_answer_is_understood_or_a_failure(data: st.DataObject, wire: Translated, front: Translated) -> None:
    body = data.draw(damaged(write_answer(wire, ask("anthropic"), answer(wire))))
    deltas = read_answer(wire, body)
    assert isinstance(deltas[-1], Ended | Failed)
    AnswerWriter(front, ask("anthropic")).write(deltas)
    for line in AnswerWriter(wire, ask("anthropic")).write(answer(wire)).splitlines():
        if line.startswith(b"data: {"):
            event = data.draw(damaged(json.loads(line[6:])))
            reader = AnswerReader(wire)
            assert isinstance((reader.feed(b"data: " + dump_json(event) + b"\n\n") + reader.end())[-1], Ended | Failed)
            break


@ROUNDS
@given(value=json_values)
def test_json_survives(value: Any) -> None:
    assert load_json(dump_json(value)) == value
