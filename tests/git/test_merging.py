"""Two versions of a text into one."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.git.merging import Merged, merge

LABELS = ("ours", "theirs")


def merged(base: str | None, ours: str, theirs: str) -> Merged:
    found = merge(None if base is None else base.encode(), ours.encode(), theirs.encode(), LABELS)
    assert found is not None
    return found


def test_changes_in_different_places() -> None:
    base = "a\nb\nc\nd\ne\n"
    assert merged(base, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n") == Merged(b"A\nb\nc\nd\nE\n", 0)
    assert merged(base, "a\nb\nnew\nc\nd\ne\n", "a\nb\nc\nd\n") == Merged(b"a\nb\nnew\nc\nd\n", 0)
    assert merged(base, "", base) == Merged(b"", 0)
    assert merged(base, base.replace("c", "X"), base.replace("c", "X")) == Merged(b"a\nb\nX\nd\ne\n", 0)


def test_the_same_place() -> None:
    found = merged("a\nb\nc\n", "a\n1\nc\n", "a\n2\nc\n")
    assert found == Merged(b"a\n<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\nc\n", 1)
    found = merged("a\n", "a\n1", "a\n2")
    assert found == Merged(b"a\n<<<<<<< ours\n1\n=======\n2\n>>>>>>> theirs\n", 1)
    found = merged("a\r\n", "b\r\n", "c\r\n")
    assert found == Merged(b"<<<<<<< ours\r\nb\r\n=======\r\nc\r\n>>>>>>> theirs\r\n", 1)


def test_without_a_base() -> None:
    found = merged(None, "a\nb\nc\n", "a\nX\nc\nd\n")
    assert found.conflicts == 2
    assert found.data == (
        b"a\n<<<<<<< ours\nb\n=======\nX\n>>>>>>> theirs\nc\n<<<<<<< ours\n=======\nd\n>>>>>>> theirs\n"
    )
    assert merged(None, "same\n", "same\n") == Merged(b"same\n", 0)


def test_binary_and_large() -> None:
    assert merge(b"a", b"\0", b"b", LABELS) is None
    assert merge(b"a", b"b", b"\xff", LABELS) is None
    assert merge(None, b"x" * (2 << 20), b"b", LABELS) is None


lines = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12).map(lambda found: "".join(f"{x}\n" for x in found))


@given(lines, lines)
def test_one_side_alone_wins(base: str, changed: str) -> None:
    assert merged(base, changed, base) == Merged(changed.encode(), 0)
    assert merged(base, base, changed) == Merged(changed.encode(), 0)
    assert merged(base, changed, changed) == Merged(changed.encode(), 0)


@given(lines, lines, lines)
def test_nothing_is_invented(base: str, ours: str, theirs: str) -> None:
    """Taking our side of every conflict, and theirs, differ only where there are conflicts; sides swap with the arguments."""
    found, turned = merged(base, ours, theirs), merged(base, theirs, ours)
    assert found.conflicts == turned.conflicts
    if not found.conflicts:
        assert found.data == turned.data
        assert set(found.data.split()) <= set((ours + theirs).encode().split())


@given(lines, lines)
def test_both_sides_can_be_got_back(ours: str, theirs: str) -> None:
    sides: dict[str, list[str]] = {"ours": [], "theirs": []}
    where = ("ours", "theirs")
    for line in merged(None, ours, theirs).data.decode().splitlines(keepends=True):
        if line.startswith("<<<<<<<"):
            where = ("ours",)  # type: ignore[assignment]
        elif line.startswith("======="):
            where = ("theirs",)  # type: ignore[assignment]
        elif line.startswith(">>>>>>>"):
            where = ("ours", "theirs")
        else:
            for side in where:
                sides[side].append(line)
    assert ("".join(sides["ours"]), "".join(sides["theirs"])) == (ours, theirs)
