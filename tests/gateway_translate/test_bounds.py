"""Deep, huge and odd input."""

import time

import pytest

from paddock.gateway.translate import (
    AnswerReader,
    BadRequest,
    Failed,
    Target,
    Translated,
    UsageReader,
    dump_json,
    load_json,
    plain_system,
    read_request,
    write_request,
)

from .samples import WIRES


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"a":' * 100_000, b"{", b"\xff", b"NaN", b"", b"1" * 5000])
def test_what_is_no_json(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        load_json(raw)


def test_deep_input_is_refused_and_not_a_traceback() -> None:
    schema: dict[str, object] = {}
    inner = schema
    for _ in range(5000):
        inner["a"] = inner = {}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"name": "f", "input_schema": schema}],
    }
    asked = read_request("anthropic", body)
    for wire in WIRES:
        with pytest.raises(BadRequest, match="nested too deeply"):
            dump_json(write_request(wire, asked, Target("m")).body)
    call = {"type": "tool_use", "id": "t", "name": "f", "input": schema}
    with pytest.raises(BadRequest, match="nested too deeply"):
        read_request("anthropic", {"model": "m", "messages": [{"role": "assistant", "content": [call]}]})


@pytest.mark.parametrize("wire", WIRES)
def test_deep_answers_are_failures(wire: Translated) -> None:
    reader = AnswerReader(wire)
    assert isinstance(reader.feed(b"data: " + b"[" * 100_000 + b"\n\n")[0], Failed)


def test_how_deep_is_too_deep() -> None:
    dump_json(load_json(b"[" * 250 + b"]" * 250))
    with pytest.raises(BadRequest, match="nested too deeply"):
        load_json(b"[" * 260 + b"]" * 260)
    load_json(b"[" + b"[]," * 1000 + b"1]")


def test_half_a_surrogate_pair_stays_what_it_is() -> None:
    raw = b'{"a":"\\ud83d"}'
    assert dump_json(load_json(raw)) == raw


def test_a_path_is_not_endless() -> None:
    with pytest.raises(BadRequest) as caught:
        read_request("anthropic", {"model": "m", "messages": [{"role": "x" * 10_000}]})
    assert len(str(caught.value)) < 400
    warnings = read_request("anthropic", {"model": "m", "z" * 10_000: 1}).warnings
    assert len(warnings[0]) < 400


def test_the_reader_of_usage_keeps_little() -> None:
    reader = UsageReader("anthropic")
    reader.feed(b"data: ")
    for _ in range(64):
        reader.feed(b"x" * 1_000_000)
        assert len(reader._kept) < 500_000
    reader.feed(b'"usage":{"input_tokens":3}}\n\n')
    assert reader.usage is not None
    assert reader.usage.input == 3


def test_many_things_take_time_in_proportion() -> None:
    """What a client or provider could send to keep this host busy: tens of thousands of anything."""
    many = 10_000
    begun = time.process_time()
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": ""}
    note = {"role": "system", "content": "x"}
    asked = read_request("responses", {"model": "m", "input": [call] * many + [note] * many + [output] * many})
    for wire in WIRES:
        write_request(wire, asked, Target("m"))
    plain_system({"messages": [{"role": "user", "content": "x"}, note] * many})
    reader, usage = AnswerReader("chat", max_answer=8 * 2**20), UsageReader("chat")
    while not reader.done:
        reader.feed(b"\n" * 2**20)
        usage.feed(b"\n" * 2**20)
    assert time.process_time() - begun < 15


def test_tokens_beyond_anything_real_are_cut_off() -> None:
    reader = UsageReader("chat")
    reader.feed(b'{"usage":{"prompt_tokens":1' + b"0" * 4000 + b"}}")
    reader.end()
    assert reader.usage is not None
    assert reader.usage.input < 2**50
