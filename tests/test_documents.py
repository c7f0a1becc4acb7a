"""YAML that people write: what is read, what is refused, and where it says that it is."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from paddock import ConfigError, UnavailableError, documents
from paddock.documents import load, load_frontmatter, parse


def test_what_words_mean() -> None:
    text = (
        "a: no\nb: 1.50\nc: 2026-01-01\nd: !!str 5\ne: ~\nf: True\ng: -3\nh: 1:30\ni: '7'\nj: [1, {k: v}]\nk: 1e3\nl:\n"
    )
    expected: dict[str, Any] = {"a": "no", "b": 1.5, "c": "2026-01-01", "d": "5", "e": None, "f": True, "g": -3}
    expected |= {"h": "1:30", "i": "7", "j": [1, {"k": "v"}], "k": 1000.0, "l": None}
    found = parse(text, "f.yml")
    assert found.plain() == expected
    assert found.mapping()["b"].text() == "1.50"
    assert parse("", "f.yml").mapping() == {}


def test_each_value_knows_its_place() -> None:
    found = parse("a:\n  b:\n    - x\n    - c: |\n        y\n", "f.yml", line=10)
    inner = found.mapping()["a"].mapping()["b"].items()[1].mapping()["c"]
    assert (inner.file, inner.line, inner.key, inner.content) == ("f.yml", 13, "a.b[1].c", "y\n")
    with pytest.raises(ConfigError, match=r"^f.yml, line 13: a\.b\[1\]\.c: it is odd\. Change it\.$"):
        raise inner.error("it is odd.", "Change it.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2", "line 4: b.c: it is there already, on line 3"),
        ("a: [1\nb: 2", "line 2: expected ',' or ']'"),
        ("a: 1\n---\nb: 2", "line 2: expected a single document in the stream but found another document"),
        ("a:\n\tb: 1", "line 2: found character"),
        ("a: b: c", "line 1: mapping values are not allowed here. Correct it; a text with a colon"),
        ("a: 1\nb: \x07", "line 2: there is a character that YAML does not allow"),
        ("? [a]\n: 1", "line 1: a key has to be a word"),
        ("a: *b", "line 1: found undefined alias"),
        ("a: !!python/object/apply:os.system [x]", "line 1: a: the tag tag:yaml.org,2002:python/object"),
        ("a: !b c", "line 1: a: the tag !b is not known here"),
        ("a: !!set {b}", "line 1: a: the tag"),
        ("a: !!int b", "line 1: a: this is not a number"),
        ("a: 1e999", "line 1: a: this is not a number"),
        ("a: " + "9" * 5000, "line 1: a: this is not a number"),
        ("a: &a [*a]", "too much here, or it is nested too deep"),
        ("[" * 60 + "]" * 60, "too much here, or it is nested too deep"),
        ("[" * 100_000, "nested too deep"),
        ("- " * 100_000, "nested too deep"),
        ("a: '" + "x" * (256 << 10) + "'", "has too much YAML"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as told:
        parse(text, "f.yml")
    assert str(told.value).startswith("f.yml")
    assert said in str(told.value)


def test_aliases() -> None:
    assert parse("a: &x {b: 1}\nc: [*x, *x]", "f.yml").plain() == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)),
        "a: &a '" + "x" * 200_000 + "'\nb: [" + ",".join(["*a"] * 1000) + "]",
        '? "' + "k" * 200_000 + '"\n: [' + ",".join(["1"] * 10_000) + "]",
    ],
    ids=["values", "text", "keys"],
)
def test_little_text_does_not_become_much(text: str) -> None:
    """Memory that is taken, and what the values would be if they were written out."""
    tracemalloc.start()
    try:
        written = _written_out(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert written < 2 << 20


def _written_out(text: str) -> int:
    try:
        return len(str(parse(text, "f.yml").plain()))
    except ConfigError:
        return 0


def test_what_is_asked_of_a_value() -> None:
    found = parse("a: {b: 1}\nc: [1]\nd: x\ne: ''", "f.yml").mapping(("a", "c", "d", "e", "for"))
    for call, said in (
        (found["a"].items, "line 1: a: a mapping is not a list"),
        (found["c"].text, "line 2: c: a list is not text"),
        (found["d"].mapping, "line 3: d: 'x' is not a mapping"),
        (found["e"].text, "line 4: e: it is empty"),
        (lambda: found["d"].text(longest=0), "d: it has 1 characters. Keep it to 0"),
        (lambda: found["a"].mapping(("bb",)), "line 1: a.b: there is no such key here. Did you mean 'bb'? Known: bb"),
    ):
        with pytest.raises(ConfigError) as told:
            call()
        assert said in str(told.value)


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "f.yml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert load(file).plain() == {"a": 1, "b": 2}
    file.write_text("---\na: 1\n---\ntext\n---\nmore\n")
    top, text = load_frontmatter(file)
    assert (top.plain(), top.mapping()["a"].line, text) == ({"a": 1}, 2, "text\n---\nmore\n")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.yml")
    with pytest.raises(ConfigError, match="is not a file"):
        load(tmp_path)
    file.write_bytes(b" " * (300 << 10))
    with pytest.raises(ConfigError, match=r"larger than such a file can be\. Keep it below 256 KiB"):
        load(file)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "find_spec", lambda _: None)
    with pytest.raises(UnavailableError, match=r"pip install 'paddock\[agents\]'"):
        parse("a: 1", "f.yml")
