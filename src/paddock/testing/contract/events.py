"""Events: every call is one, and tells sizes and times but no contents."""

import asyncio
import json
from pathlib import Path

import pytest

from paddock.driver import BackendSpec
from paddock.errors import InvalidPathError, NotFoundError, OutsideError
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite
from paddock.types import Event

SECRET = "s3cr3t-content"  # noqa: S105 - what must not show up


class EventsContract(Suite):
    """The stream, and the log."""

    async def test_every_call_is_an_event(self, sb: Sandbox) -> None:
        events = sb.events()
        await sb.write("f", SECRET)
        await sb.read("f")
        await sb.list()
        await sb.write_files({"d/a": "1", "d/b": "22"})
        await sb.move("d/a", "d/c")
        with pytest.raises(NotFoundError):
            await sb.read("missing")
        with pytest.raises(OutsideError):
            await sb.read("/etc/shadow")
        with pytest.raises(InvalidPathError):
            await sb.read("")
        await sb.close()
        seen = [event async for event in events]
        told = [(e.kind, e.operation, e.subject, e.outcome, e.size, e.count) for e in seen]
        assert told == [
            ("file", "write", "/workspace/f", "ok", len(SECRET), None),
            ("file", "read", "/workspace/f", "ok", len(SECRET), None),
            ("file", "list", "/workspace", "ok", None, 1),
            ("file", "write_files", "/workspace/d", "ok", 3, 2),
            ("file", "move", "/workspace/d/a", "ok", None, None),
            ("file", "read", "/workspace/missing", "NOT_FOUND", None, None),
            ("file", "read", "/etc/shadow", "OUTSIDE", None, None),
            ("file", "read", "", "INVALID_PATH", None, None),
            ("sandbox", "close", None, "ok", None, None),
        ]
        assert seen[4].target == "/workspace/d/c"
        assert [e.operation for e in seen if e.denied] == ["read"]
        assert all(e.sandbox == sb.id and e.duration >= 0 and e.time > 0 for e in seen)
        assert SECRET not in repr(seen)

    async def test_several_listeners(self, sb: Sandbox) -> None:
        async with sb.events() as one:
            two = sb.events()
            await sb.list()
            assert (await anext(one)).operation == (await anext(two)).operation == "list"
        await sb.exists("f")
        assert (await anext(two)).operation == "exists"
        with pytest.raises(StopAsyncIteration):
            await anext(one)

    async def test_two_readers_of_one_stream(self, sb: Sandbox) -> None:
        events = sb.events()
        readers = [asyncio.ensure_future(anext(events)) for _ in range(2)]
        await asyncio.sleep(0)
        readers.pop().cancel()
        readers.append(asyncio.ensure_future(anext(events)))
        await asyncio.sleep(0)
        await sb.exists("a")
        await sb.list()
        assert {event.operation for event in await asyncio.gather(*readers)} == {"exists", "list"}

    async def test_a_slow_listener_is_told(self, sb: Sandbox) -> None:
        events = sb.events()
        for _ in range(10_005):
            await sb.exists("f")
        first = await anext(events)
        assert (first.kind, first.operation, first.count) == ("events", "missed", 5)
        assert (await anext(events)).operation == "exists"

    async def test_the_log(self, backend: str | BackendSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = tmp_path / "log/audit.jsonl"
        monkeypatch.setenv("PADDOCK_AUDIT", str(log))
        async with Sandbox.create(backend) as sb:
            await sb.write("esc\x1b\udcff", SECRET)
        lines = [Event.from_dict(json.loads(line)) for line in log.read_text().splitlines()]
        assert [event.operation for event in lines] == ["create", "write", "close"]
        assert lines[1].subject == "/workspace/esc\x1b\udcff"
        assert SECRET not in log.read_text()
        assert "\x1b" not in log.read_text()
        assert log.stat().st_mode & 0o077 == 0
