"""Reviews that are kept: they outlive the sandbox, and keep to the same rules."""

import os
from pathlib import Path

import pytest

from paddock import state
from paddock.errors import (
    ConfigError,
    ConflictError,
    ExistsError,
    NotAuthorizedError,
    NotFoundError,
    SandboxError,
)
from paddock.review import kept, store
from review.layers import changes, consent, mounted, operations
from review.trees import tree

SCRIPT = "echo two > a; echo b > b; mkdir d; echo x > d/x; ln -s a l; rm gone; mv old new"


def project(top: Path) -> None:
    for name in ("a", "gone", "old"):
        (top / name).write_text(f"this is {name}\n")


async def keep(top: Path, name: str | None = None) -> tuple[str, Path]:
    """One that is kept; the sandbox and its layer are gone."""
    with mounted(top, project) as box:
        box.sh(SCRIPT)
        id = await changes(box.layer).keep(name)
        os.rename(box.lower, top / "kept")
        box.lower.mkdir()
    (top / "kept").rename(top / "lower")
    return id, top / "lower"


async def test_it_outlives_the_sandbox(tmp_path: Path) -> None:
    id, lower = await keep(tmp_path, "the first")
    (info,) = kept.list()
    assert (info.id, info.name, info.changes, info.directories) == (id, "the first", 7, (str(lower),))
    assert info.size == len("two\n") + len("b\n") + len("x\n") + len("this is old\n")
    review = kept.load(id, consent())
    assert operations(review)["new"] == "rename"
    assert review.conflicts == ()
    assert len(review) == 7
    await review.apply()
    assert sorted(tree(str(lower))) == ["a", "b", "d", "d/x", "l", "new"]
    assert (lower / "a").read_text() == "two\n"
    assert kept.list() == []
    assert os.listdir(state.state_directory() / "reviews") == []


async def test_by_its_name(tmp_path: Path) -> None:
    id, _ = await keep(tmp_path, "the first")
    assert kept.load("the first", consent()).info.id == id
    with pytest.raises(NotFoundError, match=rf"There are: {id} \(the first\)"):
        kept.load("the second", consent())
    for wrong in ("", "../applying", f"{id}/x", "*"):
        with pytest.raises(NotFoundError):
            kept.load(wrong, consent())
    store.discard("the first")
    with pytest.raises(NotFoundError, match="None is kept"):
        kept.load("the first", consent())


@pytest.mark.parametrize("name", ["", "x" * 65, "a\x1b[0m", "two\nlines"])
async def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        await keep(tmp_path, name)


async def test_some_of_it(tmp_path: Path) -> None:
    """What is applied leaves it, and the rest stays."""
    id, lower = await keep(tmp_path)
    review = kept.load(id, consent())
    await review.apply(["/workspace/d/x"])
    assert len(review) == 5
    assert len(kept.load(id, consent())) == kept.list()[0].changes == 5
    assert (lower / "d" / "x").read_text() == "x\n"
    with pytest.raises(NotFoundError):
        await kept.load(id, consent()).apply(["/workspace/d"])
    await kept.load(id, consent()).apply()
    assert kept.list() == []


async def test_conflicts_are_those_of_now(tmp_path: Path) -> None:
    id, lower = await keep(tmp_path)
    (lower / "a").write_text("theirs\n")
    (lower / "b").write_text("theirs\n")
    (lower / "old").write_text("theirs\n")
    review = kept.load(id, consent())
    assert [change.path for change in review.conflicts] == ["/workspace/a", "/workspace/b", "/workspace/new"]
    before = tree(str(lower))
    with pytest.raises(ConflictError, match="after it was kept"):
        await review.apply()
    (lower / "b").write_text("theirs again\n")
    with pytest.raises(ConflictError, match="since changes"):
        await review.apply(overwrite=True)
    assert {**tree(str(lower)), "b": 0} == {**before, "b": 0}
    await kept.load(id, consent()).apply(overwrite=True)
    assert (lower / "b").read_text() == "b\n"
    assert not (lower / "old").exists()


async def test_the_same_bytes_written_anew_are_no_conflict(tmp_path: Path) -> None:
    id, lower = await keep(tmp_path)
    text = (lower / "a").read_text()
    (lower / "a").unlink()
    (lower / "a").write_text(text)
    review = kept.load(id, consent())
    assert review.conflicts == ()
    await review.apply()
    assert (lower / "a").read_text() == "two\n"


async def test_it_needs_consent_too(tmp_path: Path) -> None:
    id, lower = await keep(tmp_path)
    before = tree(str(lower))
    with pytest.raises(NotAuthorizedError):
        await kept.load(id, consent("deny-all")).apply()
    assert tree(str(lower)) == before
    await kept.load(id, consent("approve-all")).apply()
    assert tree(str(lower)) != before


async def test_discard(tmp_path: Path) -> None:
    id, lower = await keep(tmp_path)
    before = tree(str(lower))
    review = kept.load(id, consent())
    await review.discard()
    with pytest.raises(ConflictError, match="discarded"):
        await review.apply()
    assert (kept.list(), tree(str(lower))) == ([], before)


async def test_what_was_not_shown_is_not_kept(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo shown > a")
        found = changes(box.layer)
        box.sh("echo later > a")
        with pytest.raises(ConflictError, match="changed since"):
            await found.keep()
        assert kept.list() == []
        assert os.listdir(state.state_directory() / "reviews") == []
        assert await changes(box.layer).keep() == kept.list()[0].id


async def test_contents_that_were_tampered_with(tmp_path: Path) -> None:
    id, lower = await keep(tmp_path)
    before = tree(str(lower))
    for path in (state.state_directory() / "reviews" / id / "contents").iterdir():
        path.write_text("something else")
    with pytest.raises(ConflictError):
        await kept.load(id, consent()).apply()
    assert tree(str(lower)) == before


async def test_what_a_crash_left_is_swept(tmp_path: Path) -> None:
    id, _ = await keep(tmp_path)
    reviews = state.state_directory() / "reviews"
    for name, age in (("rv-000000.new", 7200), ("rv-000001.new", 60)):
        (reviews / name / "contents").mkdir(parents=True)
        os.utime(reviews / name, (os.stat(reviews).st_mtime - age,) * 2)
    store.sweep()
    assert sorted(os.listdir(reviews)) == sorted(["rv-000001.new", id])
    assert [info.id for info in kept.list()] == [id]


async def test_what_came_into_a_directory_that_is_to_go(tmp_path: Path) -> None:
    """It is a conflict of the directory; nobody was shown the file, and it does not go."""
    (tmp_path / "lower" / "d" / "e").mkdir(parents=True)
    with mounted(tmp_path, lambda top: (top / "d" / "e" / "x").write_text("x\n")) as box:
        box.sh("rm -r d; echo other > other")
        id = await changes(box.layer).keep()
        assert kept.load(id, consent()).conflicts == ()
        (box.lower / "d" / "e" / "theirs").write_text("theirs\n")
        review = kept.load(id, consent())
        assert [change.path for change in review.conflicts] == ["/workspace/d/e"]
        for overwrite in (False, True):
            with pytest.raises(ConflictError) as caught:
                await review.apply(overwrite=overwrite)
            assert "apply the other changes by path" in caught.value.hint
            assert sorted(tree(str(box.lower))) == ["d", "d/e", "d/e/theirs", "d/e/x"]
        await review.apply(["/workspace/other"])
        assert (box.lower / "other").read_text() == "other\n"
        (box.lower / "d" / "e" / "theirs").unlink()
        await kept.load(id, consent()).apply()
        assert sorted(tree(str(box.lower))) == ["other"]


async def test_contents_go_with_what_is_applied(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo two > a; cp a same; echo three > b; mkfifo pipe")
        id = await changes(box.layer).keep()
        contents = state.state_directory() / "reviews" / id / "contents"
        assert len(os.listdir(contents)) == 2
        await kept.load(id, consent()).apply(["/workspace/a", "/workspace/b"])
        assert [path.read_text() for path in contents.iterdir()] == ["two\n"], "the one that is still needed"
        (info,) = kept.list()
        assert (info.changes, info.size) == (2, 4)
        review = kept.load(id, consent())
        assert (await review.apply()).skipped == ("/workspace/pipe",)
        assert (kept.list(), len(review)) == ([], 0), "what is left can never be applied"
        assert os.listdir(state.state_directory() / "reviews") == []


async def test_a_name_is_given_once(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo two > a")
        id = await changes(box.layer).keep("mine")
        with pytest.raises(ExistsError, match="'mine' is kept already"):
            await changes(box.layer).keep("mine")
        assert [info.id for info in kept.list()] == [id]
        assert kept.discard("mine") == id
        await changes(box.layer).keep("mine")


async def test_the_host_directory_is_gone(tmp_path: Path) -> None:
    id, lower = await keep(tmp_path, "orphan")
    os.rename(lower, tmp_path / "elsewhere")
    review = kept.load(id, consent())
    assert {change.conflict for change in review} == {"The host directory is gone."}
    assert review.choose().digest
    for overwrite in (False, True):
        with pytest.raises(NotFoundError, match=f"'{lower}'"):
            await review.apply(overwrite=overwrite)
    os.rename(tmp_path / "elsewhere", lower)
    assert kept.load(id, consent()).conflicts == ()
    os.rename(lower, tmp_path / "elsewhere")
    assert kept.discard("orphan") == id
    assert kept.list() == []


async def test_one_that_cannot_be_read_can_be_discarded(tmp_path: Path) -> None:
    id, _ = await keep(tmp_path)
    (state.state_directory() / "reviews" / id / "review.json").write_text("{")
    with pytest.raises(SandboxError, match="cannot be read"):
        kept.load(id, consent())
    assert kept.discard(id) == id
    assert os.listdir(state.state_directory() / "reviews") == []
