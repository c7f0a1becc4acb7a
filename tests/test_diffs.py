"""Diffs: they say exactly how one text comes from the other, which `patch`-like reading proves, and they always end."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import diffs

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")
texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "é\n"]), max_size=30).map("".join)
endings = st.sampled_from(["", "x", "a"])


def patched(old: str, diff: str) -> str:
    """What applying a diff to `old` gives; it has to fit exactly."""
    lines = old.splitlines(keepends=True) if old else []
    result: list[str] = []
    at = 0
    for hunk in re.split(r"(?=^@@ )", diff.partition("+++ ")[2].partition("\n")[2], flags=re.MULTILINE):
        if not (match := HUNK.match(hunk)):
            assert not hunk
            continue
        first, count = int(match[1]), int(match[2] or "1")
        begin = first - 1 if count else first
        result += lines[at:begin]
        at = begin
        for line in _hunk_lines(hunk[match.end() :]):
            if line[0] != "+":
                assert lines[at] == line[1:]
                at += 1
            if line[0] != "-":
                result.append(line[1:])
    return "".join(result + lines[at:])


def _hunk_lines(text: str) -> list[str]:
    found: list[str] = []
    for line in text.split("\n")[:-1]:
        if line.startswith("\\"):
            found[-1] = found[-1][:-1]
        else:
            found.append(line + "\n")
    return found


@given(texts, endings, texts, endings)
def test_a_diff_says_how_one_text_comes_from_the_other(old: str, old_end: str, new: str, new_end: str) -> None:
    before, after = old + old_end, new + new_end
    diff = diffs.unified(before.encode(), after.encode(), "f", "f")
    assert diff is not None
    assert patched(before, diff.text) == after
    assert bool(diff.text) == (before != after)


def test_what_it_looks_like() -> None:
    diff = diffs.unified(b"1\n2\n3\n4\n5\n6\n", b"1\n2\n3\nfour\n5\n6", "a/f", "b/f")
    assert diff is not None
    assert diff.text.splitlines() == [
        "--- a/f",
        "+++ b/f",
        "@@ -1,6 +1,6 @@",
        " 1",
        " 2",
        " 3",
        "-4",
        "+four",
        " 5",
        "-6",
        "+6",
        "\\ No newline at end of file",
    ]
    assert (diff.added, diff.removed) == (2, 2)


def test_a_file_that_is_new_or_gone() -> None:
    new = diffs.unified(b"", b"x\n", None, "f")
    assert new is not None
    assert new.text == "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+x\n"
    gone = diffs.unified(b"x\n", b"", "f", None)
    assert gone is not None
    assert gone.text == "--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfe", b"a" * (diffs.MOST_BYTES + 1)])
def test_binary_and_large_is_not_shown(data: bytes) -> None:
    assert diffs.unified(b"", data, "f", "f") is None
    assert diffs.unified(data, b"", "f", "f") is None


def test_texts_that_have_nothing_in_common_end_too() -> None:
    old = "".join(f"{n}\n" for n in range(100_000)).encode()[: diffs.MOST_BYTES]
    new = "".join(f"x{n % 7}\n" for n in range(100_000)).encode()[: diffs.MOST_BYTES]
    diff = diffs.unified(old, new, "f", "f")
    assert diff is not None
    assert patched(old.decode(), diff.text) == new.decode()


def test_a_change_far_down_is_found_where_it_is() -> None:
    old = "".join(f"{n}\n" for n in range(5000))
    new = old.replace("2500\n", "changed\n").replace("4000\n", "")
    diff = diffs.unified(old.encode(), new.encode(), "f", "f")
    assert diff is not None
    assert (diff.added, diff.removed) == (1, 2)
    assert diff.text.count("@@ -") == 2
