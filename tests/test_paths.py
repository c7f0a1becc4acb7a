"""Paths as text."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from paddock import InvalidPathError
from paddock.paths import below, decode, encode, join, name, normalise, parent, split, within

part = st.sampled_from(["a", "b", "..", ".", "", "a.b", ".a", "é", "..."])
text = st.builds(
    lambda parts, slash: ("/" if slash else "") + "/".join(parts), st.lists(part, min_size=1), st.booleans()
)


@given(text, st.sampled_from(["/", "/workspace", "/a/b"]))
def test_normalise(path: str, base: str) -> None:
    if not path:
        return
    result = normalise(path, base)
    assert result.startswith("/")
    assert not {"", ".", ".."} & set(result.split("/")[1:]) or result == "/"
    assert normalise(result) == result
    assert within(result, "/")
    assert join(parent(result), name(result)) == result or result == "/"


@given(st.binary(min_size=1).filter(lambda raw: b"\0" not in raw and b"/" not in raw and raw not in (b".", b"..")))
def test_every_name_has_a_path(raw: bytes) -> None:
    try:
        path = normalise(decode(raw), "/workspace")
    except InvalidPathError:
        assert len(raw) > 255
    else:
        assert encode(path) == b"/workspace/" + raw


@given(st.text(max_size=300))
def test_any_text_is_a_path_or_a_clear_error(path: str) -> None:
    with suppress(InvalidPathError):
        encode(normalise(path))


@given(text, text)
def test_within_compares_names(one: str, other: str) -> None:
    path, root = normalise(one or "."), normalise(other or ".")
    expected = (
        path.strip("/").split("/")[: len(root.strip("/").split("/"))] == root.strip("/").split("/") or root == "/"
    )
    assert within(path, root) == expected
    if expected:
        assert join(root, below(path, root)) == path


def test_split() -> None:
    assert split("a/b/c") == ("a/b", "c")
    assert split("c") == ("", "c")
    assert not within("/tmp/ab", "/tmp/a")
