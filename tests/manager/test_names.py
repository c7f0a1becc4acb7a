"""Ids of any kind: never two with one name, never a name that leads elsewhere."""

import os
import re
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from manager.fakes import FakeClock, World
from paddock import ConfigError, Manager
from paddock.manager.keys import Key, Place, as_label, from_label, place
from paddock.manager.measuring import measure

HOSTILE = [
    "../../etc",
    "/etc/passwd",
    ".",
    "..",
    "a/b",
    "nul\0byte",
    "new\nline",
    "\x1b[2J",
    "\u202eevil",
    "e\u0301",
    "\u00e9",
    "A",
    "a",
    "-rf",
    "*",
    " ",
    "x" * 512,
    '"\\',
    "CON",
    "ws-0123",
    ".new-",
]
TEXT = some.text(some.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


async def test_hostile_ids(world: World, clock: FakeClock) -> None:
    async with Manager(backend="fake", clock=clock, policy="session", sweep_every=None) as m:
        for number, id in enumerate(HOSTILE):
            async with m.get_or_create(id, id[::-1]) as lease:
                assert await lease.sandbox.list() == []
                await lease.sandbox.write("f", str(number))
        infos = await m.workspaces()
        assert {(info.user, info.chat) for info in infos} == {(id, id[::-1]) for id in HOSTILE}
        above = {Path(info.path).parent for info in infos}
        assert len(above) == len(HOSTILE)
        assert len({path.name.casefold() for path in above}) == len(HOSTILE)
        assert len({path.parent for path in above}) == 1
        assert all(re.fullmatch(r"[a-z0-9_-]{1,40}\.ws-[0-9a-f]{32}", path.name) for path in above)
        for id in HOSTILE:
            assert [info.user for info in await m.list(id)] == [id]
            await m.remove(id, id[::-1])
        assert await m.list() == []


@pytest.mark.parametrize("id", ["", "x" * 513, "\ud800", None, 5, b"x"], ids=repr)
async def test_what_is_no_id(id: Any, world: World, clock: FakeClock) -> None:
    async with Manager(backend="fake", clock=clock, sweep_every=None) as m:
        for user, chat in ((id, "chat"), ("user", id)):
            with pytest.raises(ConfigError, match="="):
                await m.get_or_create(user, chat)
        assert world.made == 0
        with pytest.raises(ConfigError, match="it has 513 characters"):
            await m.get_or_create("x" * 513, "chat")
        async with m.get_or_create("x" * 512, "chat"):
            pass


@given(some.tuples(TEXT, TEXT), some.tuples(TEXT, TEXT))
def test_two_never_share_a_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    places = [place(user, chat, None) for user, chat in (one, other)]
    keys = [Key(user, None, "chat", chat) for user, chat in (one, other)]
    same = one == other
    assert (places[0].directory_name() == places[1].directory_name()) == same
    assert (keys[0].file_name() == keys[1].file_name()) == same
    assert (keys[0].sandbox_name("/d") == keys[1].sandbox_name("/d")) == same
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", keys[0].sandbox_name("/d"))
    assert len(places[0].directory_name()) < 80
    assert Place(*one, None) != Place(one[0], None, one[1])
    assert place(*one, None).id != place(one[0], "any", one[1]).id


@given(some.text(some.characters(exclude_categories=["Cs"])))
def test_labels_are_inert_and_can_be_read_again(text: str) -> None:
    assert from_label(as_label(text)) == text
    assert as_label(text).isascii()
    assert as_label(text).isprintable()


# Measuring what somebody hostile made


def test_measuring(tmp_path: Path) -> None:
    place = tmp_path / "place"
    deep = place
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (place / "out").symlink_to("/usr")
    (place / "file").write_bytes(b"x" * 100_000)
    os.link(place / "file", place / "again")
    os.mkfifo(place / "pipe")
    found = measure(place)
    assert found.complete
    assert 100_000 < found.size < 2_000_000
    assert found.entries == 304
    for n in range(50):
        (place / f"empty{n}").touch()
    assert not measure(place, entries=20).complete
    assert measure(place, entries=20).entries == 20
    assert not measure(place, seconds=-1).complete
    assert measure(tmp_path / "missing").size == 0


def test_measuring_what_is_wide_and_what_is_deep(tmp_path: Path) -> None:
    wide, deep = tmp_path / "wide", tmp_path / "deep"
    for n in range(600):
        (wide / f"d{n}" / "e").mkdir(parents=True)
    assert (measure(wide).complete, measure(wide).entries) == (True, 1200)
    path, before = deep, len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        (path / "other").mkdir(parents=True)
        path = path / "d"
    assert (measure(deep).complete, measure(deep).entries) == (True, 199)
    for _ in range(200):
        (path / "other").mkdir(parents=True)
        path = path / "d"
    assert not measure(deep).complete
    assert len(os.listdir("/proc/self/fd")) == before


def test_measuring_what_others_work_on(tmp_path: Path) -> None:
    """A request must not be refused because another one of the same chat removes files just then."""
    for n in range(300):
        (tmp_path / f"d{n}").mkdir()
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            for n in range(50):
                (tmp_path / f"new{n}").mkdir()
                (tmp_path / f"new{n}/f").touch()
            for n in range(50):
                (tmp_path / f"new{n}/f").unlink()
                (tmp_path / f"new{n}").rmdir()

    working = threading.Thread(target=work)
    working.start()
    try:
        assert all(measure(tmp_path).complete for _ in range(50))
    finally:
        over.set()
        working.join()
    assert measure(tmp_path).entries == 300


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody whose own modes keep him out")
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100, 0o077], ids=oct)
def test_measuring_what_is_closed(mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody hides bytes from a quota with chmod, and nobody is locked out by it."""
    closed = tmp_path / "a/closed"
    (closed / "below").mkdir(parents=True)
    (closed / "below/file").write_bytes(b"x" * 100_000)
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, 200_000, 200_000)
    (closed / "below").chmod(mode)
    closed.chmod(mode)
    monkeypatch.chdir(tmp_path)
    os.seteuid(200_000)
    try:
        found = measure(Path())
    finally:
        os.seteuid(0)
    assert (found.complete, found.entries, found.size > 100_000) == (True, 4, True)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (closed, closed / "below")] == [mode, mode]
