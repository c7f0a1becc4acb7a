"""`glob`, `grep` and `watch`."""

import asyncio

import pytest

from paddock.errors import ConfigError, InvalidPathError, NotFoundError, OutsideError
from paddock.sandbox import Sandbox, Watch
from paddock.testing.contract.suite import Suite
from paddock.types import FileEvent

TREE: dict[str, str | bytes] = {
    "a.py": "import os\nprint('Hello')\n",
    "b.txt": "hello there\n",
    "pkg/mod.py": "def hello():\n    return 'x'\n",
    "pkg/sub/deep.py": "needle\r\nlast line without end",
    "pkg/data.bin": b"\0hello",
    ".hidden/x.py": "hello hidden",
}


class SearchContract(Suite):
    """Finding files by name and by content, and seeing them change."""

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("*.py", ["a.py"]),
            ("**/*.py", [".hidden/x.py", "a.py", "pkg/mod.py", "pkg/sub/deep.py"]),
            ("pkg/*", ["pkg/data.bin", "pkg/mod.py", "pkg/sub"]),
            ("pkg/**", ["pkg/data.bin", "pkg/mod.py", "pkg/sub", "pkg/sub/deep.py"]),
            ("**/sub/*.py", ["pkg/sub/deep.py"]),
            ("pkg/**/deep.py", ["pkg/sub/deep.py"]),
            ("?.*", ["a.py", "b.txt"]),
            ("[ab].*", ["a.py", "b.txt"]),
            ("[!a].*", ["b.txt"]),
            ("a.py", ["a.py"]),
            ("./pkg/../a.py", ["a.py"]),
            ("no*such", []),
            ("no/such/*", []),
            ("**/**/**/deep.py", ["pkg/sub/deep.py"]),
        ],
    )
    async def test_glob(self, sb: Sandbox, pattern: str, found: list[str]) -> None:
        await sb.write_files(TREE)
        assert await sb.glob(pattern) == sorted(f"/workspace/{path}" for path in found)

    async def test_glob_from_somewhere(self, sb: Sandbox) -> None:
        await sb.write_files(TREE)
        assert await sb.glob("*.py", "pkg") == ["/workspace/pkg/mod.py"]
        assert await sb.glob("/workspace/*.txt") == ["/workspace/b.txt"]
        assert await sb.glob("/*/a.py") == ["/workspace/a.py"]
        assert await sb.glob("*", "/etc") == []
        for bad in ("", "a\0", "*/../x", "/".join(["*"] * 100)):
            with pytest.raises(InvalidPathError):
                await sb.glob(bad)

    async def test_glob_is_not_catastrophic(self, sb: Sandbox) -> None:
        await sb.write("a" * 200, "")
        assert await sb.glob("*a" * 60 + "b") == []
        assert await sb.glob("/".join(["**"] * 30 + ["x"])) == []

    async def test_grep(self, sb: Sandbox) -> None:
        await sb.write_files(TREE)
        assert [(match.path, match.line, match.text) for match in await sb.grep("hello")] == [
            ("/workspace/b.txt", 1, "hello there"),
            ("/workspace/.hidden/x.py", 1, "hello hidden"),
            ("/workspace/pkg/mod.py", 1, "def hello():"),
        ]
        assert len(await sb.grep("HELLO", ignore_case=True)) == 4
        assert [m.path for m in await sb.grep("hello", glob="*.txt")] == ["/workspace/b.txt"]
        assert [m.path for m in await sb.grep("hello", glob="pkg/**/*.py")] == ["/workspace/pkg/mod.py"]
        assert [(m.line, m.text) for m in await sb.grep("^last|^needle$", "pkg/sub")] == [
            (1, "needle"),
            (2, "last line without end"),
        ]
        assert [m.line for m in await sb.grep("print", "a.py")] == [2]
        assert len(await sb.grep(".", limit=2)) == 2
        assert await sb.grep("^$") == []

    async def test_plain_and_regular_agree(self, sb: Sandbox) -> None:
        await sb.write_files(TREE | {"many": "x\n" * 10 + "needle x\n" + "needle\n" * 3})
        for text in ("hello", "x", "needle", "e"):
            assert await sb.grep(text, limit=1000) == await sb.grep(f"(?:{text})", limit=1000)

    async def test_grep_that_cannot_be(self, sb: Sandbox) -> None:
        for bad in ("(", "", "a\nb", "(?P<x>", "[z-a]"):
            with pytest.raises(ConfigError):
                await sb.grep(bad)
        with pytest.raises(ConfigError):
            await sb.grep("x", limit=0)
        with pytest.raises(NotFoundError):
            await sb.grep("x", "missing")
        with pytest.raises(OutsideError):
            await sb.grep("x", "/etc")

    async def test_grep_that_would_never_end(self, sb: Sandbox) -> None:
        await sb.write("f", "a" * 5_000)
        search = asyncio.ensure_future(sb.grep("(a|aa)+c|(a+)+b"))
        await asyncio.sleep(0.3)
        assert await sb.read("f") != ""
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search

    async def test_long_lines_are_cut(self, sb: Sandbox) -> None:
        await sb.write("f", "é" * 5_000 + "needle")
        for pattern in ("needle", "needl[e]"):
            assert [len(match.text) for match in await sb.grep(pattern)] == [1_000]

    async def test_watch(self, sb: Sandbox) -> None:
        await sb.write_files({"old": "1", "gone/f": "2"})
        async with sb.watch("/workspace") as watch:
            await sb.write("old", "2")
            await sb.write("new/deep/f", "3")
            await sb.delete("gone", recursive=True)
            await sb.write("brief", "")
            await sb.delete("brief")
            seen = await _gather(watch, 6)
            assert {(event.kind, event.path) for event in seen} == {
                ("modified", "/workspace/old"),
                ("created", "/workspace/new"),
                ("created", "/workspace/new/deep"),
                ("created", "/workspace/new/deep/f"),
                ("deleted", "/workspace/gone"),
                ("deleted", "/workspace/gone/f"),
            }
            await sb.write("new/deep/f", "4")
            await sb.move("new", "moved")
            later = await _gather(watch, 6)
            kinds = {(event.kind, event.path) for event in later}
            assert ("created", "/workspace/moved/deep/f") in kinds
            assert ("deleted", "/workspace/new") in kinds

    async def test_watch_ends_with_the_sandbox(self, sb: Sandbox) -> None:
        watch = sb.watch()
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.05)
        await sb.close()
        with pytest.raises(StopAsyncIteration):
            await waiting

    async def test_watch_of_what_is_not_a_directory(self, sb: Sandbox) -> None:
        await sb.write("f", "")
        for path, error in (("f", NotADirectoryError), ("missing", FileNotFoundError), ("/etc", PermissionError)):
            with pytest.raises(error):
                async with sb.watch(path):
                    pass


async def _gather(watch: Watch, count: int) -> list[FileEvent]:
    events: list[FileEvent] = []
    async with asyncio.timeout(20):
        while len(events) < count:
            events.append(await anext(watch))
    return events
