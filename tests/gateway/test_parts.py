"""Bodies that are changed in one place, and answers without the key."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway.body import Body
from paddock.gateway.connectors import Connector
from paddock.gateway.errors import BadRequest
from paddock.gateway.fronts import Front
from paddock.gateway.routing import (
    add_options,
    answers,
    bound_output,
    check_countable,
    choose,
    most_output,
    thinks,
)
from paddock.gateway.translate import Wire
from paddock.http.scrubbing import Scrubber

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=6)


@given(OBJECTS, st.sampled_from([None, 1, 4]), st.booleans())
def test_what_is_not_changed_stays_as_it_was(value: dict[str, Any], indent: int | None, ascii: bool) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        with pytest.raises(BadRequest):
            Body(data)
        return
    body = Body(data)
    assert body.value == value
    assert body.bytes() == data


@given(OBJECTS, OBJECTS, st.sampled_from([None, 1]))
def test_what_is_put_is_there(value: dict[str, Any], more: dict[str, Any], indent: int | None) -> None:
    body = Body(json.dumps(value, indent=indent).encode())
    for name, one in more.items():
        body.put(name, one)
    assert json.loads(body.bytes()) == {**value, **more}
    assert all(body.get(name) == one for name, one in more.items())


def test_only_the_value_changes() -> None:
    body = Body(b' {"a" : 1e2,\n "model":"x" , "b":"\\u00e4"}\n')
    body.put("model", "yy")
    assert body.bytes() == b' {"a" : 1e2,\n "model":"yy" , "b":"\\u00e4"}\n'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"3",
        b"{",
        b'{"a"}',
        b'{"a":}',
        b'{"a":1,}',
        b'{"a":1}{}',
        b"{a:1}",
        b"\xff\xfe",
        b'{"model":"a","model":"b"}',
        b'{"a":' + b"[" * 200_000,
        b'{"a":1',
    ],
)
def test_bodies_that_are_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        Body(data)


SECRET = "sk-abab-ab"


@given(st.lists(st.sampled_from([SECRET, "sk-", "ab", "s", "-", "sk-abab-a", "x y"]), max_size=12), st.data())
def test_the_key_is_gone_however_it_is_cut(words: list[str], data: st.DataObject) -> None:
    text = "".join(words).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    scrubber, out = Scrubber([SECRET]), b""
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        out += scrubber.feed(text[begin:end])
    out += scrubber.rest()
    assert out == text.replace(SECRET.encode(), b"*" * len(SECRET))


def test_nothing_is_held_back_that_the_key_does_not_begin_with() -> None:
    scrubber = Scrubber([SECRET])
    assert scrubber.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert scrubber.feed(b"a sk-ab") == b"a "
    assert scrubber.feed(b"c") == b"sk-abc"
    assert Scrubber([""]).feed(b"anything") == b"anything"


CONNECTOR = Connector("c", "https://x.example", model="big", background="small", think="deep", models=("other",))


@pytest.mark.parametrize(
    ("asked", "thinking", "model"),
    [
        ("claude-opus-5", False, "big"),
        ("claude-opus-5", True, "deep"),
        ("claude-haiku-5", True, "small"),
        ("gpt-6-mini", False, "small"),
        ("other", True, "other"),
        ("deep", False, "deep"),
        (None, False, "big"),
    ],
)
def test_models_are_chosen(asked: str | None, thinking: bool, model: str) -> None:
    assert choose(CONNECTOR, asked, thinks=thinking) == model


def test_a_connector_without_a_model_lets_choose() -> None:
    assert choose(Connector("c", "https://x.example"), "claude-opus-5", thinks=True) == "claude-opus-5"


@pytest.mark.parametrize(
    ("wire", "body", "expected"),
    [
        ("anthropic", {"thinking": {"type": "enabled"}}, True),
        ("anthropic", {"thinking": {"type": "disabled"}}, False),
        ("anthropic", {"thinking": 3}, False),
        ("chat", {"reasoning_effort": "high"}, True),
        ("responses", {"reasoning": {"effort": "low"}}, True),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1}}}, True),
        ("gemini", {"generationConfig": 4}, False),
    ],
)
def test_who_thinks(wire: Wire, body: dict[str, Any], expected: bool) -> None:
    assert thinks(Body(json.dumps(body).encode()), Front(wire)) == expected


@pytest.mark.parametrize(
    ("wire", "body", "found", "after"),
    [
        ("anthropic", {"max_tokens": 9}, 9, {"max_tokens": 5}),
        ("anthropic", {"max_tokens": "many"}, None, {"max_tokens": 5}),
        ("chat", {"max_completion_tokens": 9}, 9, {"max_completion_tokens": 5}),
        ("chat", {}, None, {"max_tokens": 5}),
        ("responses", {}, None, {"max_output_tokens": 5}),
        ("gemini", {"generationConfig": {"a": 1}}, None, {"generationConfig": {"a": 1, "maxOutputTokens": 5}}),
        (
            "chat",
            {"max_completion_tokens": 3, "max_tokens": 9},
            9,
            {"max_completion_tokens": 3, "max_tokens": 5},
        ),
        (
            "chat",
            {"max_completion_tokens": 9e9, "max_tokens": 4},
            None,
            {"max_completion_tokens": 5, "max_tokens": 4},
        ),
        ("chat", {"max_tokens": 10**3000}, 1 << 32, {"max_tokens": 5}),
    ],
)
def test_output_is_bounded(wire: str, body: dict[str, Any], found: int | None, after: dict[str, Any]) -> None:
    one = Body(json.dumps(body).encode())
    assert most_output(one, wire) == found
    bound_output(one, wire, 5, new_name=False)
    assert json.loads(one.bytes()) == after
    assert most_output(one, wire) == 5


def test_what_is_bounded_is_not_there_twice() -> None:
    body = Body(b'{"generationConfig": {"maxOutputTokens": 9999, "maxOutputTokens": 5}}')
    bound_output(body, "gemini", 5, new_name=False)
    assert b"9999" not in body.bytes()


@pytest.mark.parametrize(
    ("wire", "body", "found"),
    [
        ("chat", {}, 1),
        ("chat", {"n": 3}, 3),
        ("gemini", {"generationConfig": {"candidateCount": 2}}, 2),
        ("anthropic", {"n": 3}, 1),
        ("chat", {"n": 0}, None),
        ("chat", {"n": 3.0}, None),
        ("chat", {"n": "3"}, None),
        ("chat", {"n": 1000}, None),
    ],
)
def test_how_many_answers(wire: str, body: dict[str, Any], found: int | None) -> None:
    one = Body(json.dumps(body).encode())
    if found is None:
        with pytest.raises(BadRequest):
            answers(one, wire)
    else:
        assert answers(one, wire) == found


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("responses", {"background": True}),
        ("gemini", {"generation_config": {"max_output_tokens": 9}}),
        ("gemini", {"generationConfig": {"max_output_tokens": 9, "maxOutputTokens": 1}}),
        ("gemini", {"generationConfig": {"candidate_count": 9}}),
    ],
)
def test_what_would_not_be_counted(wire: str, body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        check_countable(Body(json.dumps(body).encode()), wire)
    check_countable(Body(b'{"background": false, "generationConfig": {"maxOutputTokens": 1}}'), wire)


def test_options_are_added_but_for_what_a_request_decides() -> None:
    connector = Connector(
        "c",
        "https://x.example",
        options={"top_k": 40, "max_tokens": 1, "temperature": 0, "model": "x", "key": "k", "proxy": "p"},
    )
    body = Body(b'{"max_tokens": 9}')
    add_options(body, connector)
    assert json.loads(body.bytes()) == {"max_tokens": 9, "top_k": 40}
