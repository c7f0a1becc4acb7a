"""LangChain's own tests of a sandbox, and what they do not ask."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import deepagents
import pytest
from deepagents.backends import CompositeBackend, protocol
from deepagents.backends.protocol import BackendProtocol
from langchain_tests.integration_tests import SandboxIntegrationTests

from paddock import ApprovalPolicy, Sandbox
from paddock.adapters.deepagents import MOST_SHOWN, PaddockBackend, _Page
from paddock.backends.memory import Memory
from paddock.consent import Rule
from paddock.errors import ClosedError, ConfigError
from paddock.sync import Sandbox as BlockingSandbox
from paddock.testing import COMMANDS
from paddock.types import FileInfo

NEWER = hasattr(protocol, "DeleteResult")
_ABSOLUTE = "deepagents 0.7 says that `glob` gives absolute paths; the suite asks for relative ones"
_FILES = "deepagents 0.7 says that `glob` gives only files; the suite asks for directories too"
CONTRADICTED = {
    "test_write_existing_file_fails": "from deepagents 0.7 on `write` replaces a file; the suite asks that it refuses",
}
CONTRADICTED |= dict.fromkeys(
    (
        *("test_glob", "test_glob_basic_pattern", "test_glob_hidden_files_explicitly"),
        *("test_glob_with_character_class", "test_glob_with_question_mark"),
    ),
    _ABSOLUTE,
)
CONTRADICTED |= {"test_glob_with_directories": _FILES}
"""Where the suite and the newest version of what it tests disagree."""
NO_SHELL = (
    *("test_execute_large_stdout_payload", "test_aexecute_large_stdout_payload", "test_write_empty_file"),
    *("test_upload_large_file_reports_expected_size", "test_aupload_adownload_large_file_roundtrip"),
    *("test_write_content_with_only_newlines", "test_awrite_aread_large_text_payload", "test_grep_empty_directory"),
    *("test_ls_lists_nested_directories", "test_ls_large_directory", "test_glob_with_directories"),
)
"""What is asked with programs or a shell. Commands of `memory` are Python functions."""
PYTHON = '#!/bin/sh\nexec python3 "$@"\n'
"""The suite calls it `python`, which not every system does."""


def test_the_version() -> None:
    """The suite goes with the one that is installed here; the newest has a run of its own."""
    assert (tuple(map(int, deepagents.__version__.split(".")[:2])) >= (0, 7)) == NEWER


class TestBackend(SandboxIntegrationTests):
    @pytest.fixture
    def sandbox(self, blocking: BlockingSandbox, request: pytest.FixtureRequest) -> PaddockBackend:
        name = request.node.originalname
        if NEWER and name in CONTRADICTED:
            request.applymarker(pytest.mark.xfail(reason=CONTRADICTED[name], strict=True))
        if blocking.backend == "memory" and name in NO_SHELL:
            request.applymarker(pytest.mark.xfail(reason="memory has no shell", strict=True))
        elif "python" in name or "stdout" in name:
            blocking.write("/workspace/bin/python", PYTHON, mode=0o755)
        return PaddockBackend(blocking)

    @pytest.fixture
    def sandbox_backend(self, sandbox: PaddockBackend) -> PaddockBackend:
        return sandbox


@pytest.fixture
def backend(blocking: BlockingSandbox) -> PaddockBackend:
    return PaddockBackend(blocking)


@pytest.fixture
def quick() -> Iterator[PaddockBackend]:
    with BlockingSandbox.create(Memory(commands=COMMANDS)) as sandbox:
        yield PaddockBackend(sandbox)


def test_output_is_in_order(backend: PaddockBackend) -> None:
    if backend._sandbox.backend == "memory":
        assert backend.execute("false").output == "no\n"
    else:
        assert backend.execute("echo 1; echo 2 >&2; echo 3").output == "1\n2\n3\n"


def test_running_out_of_time_is_a_result(backend: PaddockBackend) -> None:
    result = backend.execute("sleep 60", timeout=1)
    assert (result.exit_code, result.output[:8]) == (124, "TIMEOUT:")
    assert backend.execute("sleep 0", timeout=0).exit_code == 0


def test_lines_end_as_they_did(quick: PaddockBackend) -> None:
    quick.upload_files([("/workspace/dos", b"one\r\ntwo\r\n"), ("/workspace/unix", b"one\ntwo\n")])
    assert quick.edit("/workspace/dos", "one\ntwo", "1\n2").occurrences == 1
    assert quick.edit("/workspace/unix", "one\r\ntwo", "1\r\n2").occurrences == 1
    contents = [file.content for file in quick.download_files(["/workspace/dos", "/workspace/unix"])]
    assert contents == [b"1\r\n2\r\n", b"1\n2\n"]
    assert quick.read("/workspace/dos").file_data == {"content": "1\n2", "encoding": "utf-8"}
    assert "not found" in (quick.edit("/workspace/dos", "", "x").error or "")


def test_more_lines_in_place_of_one(quick: PaddockBackend) -> None:
    quick.upload_files([("/workspace/dos", b"one\r\ntwo\r\n"), ("/workspace/both", b"one\r\ntwo\n")])
    assert quick.edit("/workspace/dos", "two", "2\n3").occurrences == 1
    assert quick.edit("/workspace/both", "two", "2\n3").occurrences == 1
    contents = [file.content for file in quick.download_files(["/workspace/dos", "/workspace/both"])]
    assert contents == [b"one\r\n2\r\n3\r\n", b"one\r\n2\n3\n"]


def test_an_edit_does_not_grow_without_a_bound(quick: PaddockBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.adapters.deepagents.MOST_EDITED", 1000)
    quick.write("/workspace/f", "a" * 100)
    assert "too large" in (quick.edit("/workspace/f", "a", "b" * 11, replace_all=True).error or "")
    assert quick.edit("/workspace/f", "a", "b" * 10, replace_all=True).occurrences == 100


async def test_edits_at_once_are_all_made(backend: PaddockBackend) -> None:
    """Agents call their tools in parallel, and none is lost between another one's reading and writing."""
    await backend.aupload_files([("/workspace/m", b"".join(b"<%d>\n" % number for number in range(30)))])
    edits = (backend.aedit("/workspace/m", f"<{number}>", f"[{number}]") for number in range(30))
    assert [result.error for result in await asyncio.gather(*edits)] == [None] * 30
    (found,) = await backend.adownload_files(["/workspace/m"])
    assert found.content == b"".join(b"[%d]\n" % number for number in range(30))


def test_times_that_no_date_can_be(quick: PaddockBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is inside sets them; not every file system here keeps such ones."""
    scan = Sandbox.scan

    async def late(sandbox: Sandbox, path: str) -> list[FileInfo]:
        return [replace(entry, mod_time=float(entry.name)) for entry in await scan(sandbox, path)]

    monkeypatch.setattr(Sandbox, "scan", late)
    quick.upload_files([(f"/workspace/{seconds}", b"") for seconds in ("0", "1e18", "-1e18")])
    years = {entry["path"]: entry["modified_at"][:4] for entry in quick.ls("/workspace").entries or []}
    assert years == {"/workspace/0": "1970", "/workspace/1e18": "9999", "/workspace/-1e18": "0001"}


def test_a_file_without_an_end(tmp_path: Path) -> None:
    """What is asked for is shown; lines are not looked for to the end of the world."""
    sparse = tmp_path / "place" / "sparse.txt"
    sparse.parent.mkdir()
    with BlockingSandbox.create("local", workspace=sparse.parent) as sandbox:
        backend = PaddockBackend(sandbox)
        sparse.write_text("first\n")
        os.truncate(sparse, 1 << 40)
        shown = backend.read("/workspace/sparse.txt", limit=1).file_data
        assert shown is not None
        assert shown["content"] == "first"
        assert backend.read("/workspace/sparse.txt").error is None
        assert "too far" in (backend.read("/workspace/sparse.txt", offset=2).error or "")


def test_what_is_no_sandbox() -> None:
    with pytest.raises(ConfigError, match="no sandbox"):
        PaddockBackend("namespaces")  # type: ignore[arg-type]


def test_what_the_sandbox_blocks() -> None:
    """A rule of its policy holds for an agent whatever its framework, and what an agent does is recorded as its own."""
    policy = ApprovalPolicy("approve-all", rules={"run": "blocked", "delete": "blocked"})
    with BlockingSandbox.create(Memory(commands=COMMANDS), approve=policy) as sandbox:
        backend = PaddockBackend(sandbox)
        with sandbox.events() as events:
            assert backend.write("/workspace/f", "x").error is None
            assert next(iter(events)).initiator == "model"
        refused = backend.execute("touch made")
        assert (refused.exit_code, "NOT_AUTHORIZED" in refused.output) == (1, True)
        assert "NOT_AUTHORIZED" in backend.delete("/workspace/f").error
        assert sandbox.list() == ["f"]
    rules: dict[str, Rule] = {"write": "blocked"}
    with BlockingSandbox.create(Memory(commands=COMMANDS), approve=ApprovalPolicy(rules=rules)) as sandbox:
        sandbox.write("f", "x")
        backend = PaddockBackend(sandbox)
        (uploaded,) = backend.upload_files([("/workspace/h", b"")])
        for error in (
            backend.write("/workspace/g", "").error,
            backend.edit("/workspace/f", "x", "y").error,
            uploaded.error,
        ):
            assert "NOT_AUTHORIZED" in (error or "")
        assert backend.execute("touch made").exit_code == 0
        assert (sandbox.list(), sandbox.read("f")) == (["f", "made"], "x")


def test_what_was_not_found_does_not_come_back_whole(quick: PaddockBackend) -> None:
    quick.write("/workspace/f", "text")
    assert len(quick.edit("/workspace/f", "x" * 1_000_000, "").error or "") < 2000


def test_what_cannot_be_edited(quick: PaddockBackend) -> None:
    quick.upload_files([("/workspace/binary", b"\xff\xfe")])
    assert "NOT_TEXT" in (quick.edit("/workspace/binary", "a", "b").error or "")
    assert "permission_denied" in (quick.edit("/etc/passwd", "a", "b").error or "")
    assert "is_directory" in (quick.read("/workspace").error or "")


def test_long_texts_come_in_pages(quick: PaddockBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.adapters.deepagents.PIECE", 1000)
    lines = [f"{number}:" + "x" * 99 for number in range(9000)]
    quick.write("/workspace/long", "\n".join(lines))
    shown = quick.read("/workspace/long", limit=9000).file_data
    assert shown is not None
    assert len(shown["content"]) < MOST_SHOWN + 200
    assert shown["content"].endswith("or a smaller limit.]")
    shown = quick.read("/workspace/long", offset=8998, limit=10).file_data
    assert shown is not None
    assert shown["content"] == "\n".join(lines[-2:])
    assert "9000 lines" in (quick.read("/workspace/long", offset=9000).error or "")


def test_a_line_without_an_end(quick: PaddockBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of it is kept than is shown, however long it is."""
    monkeypatch.setattr("paddock.adapters.deepagents.PIECE", 1 << 16)
    quick.upload_files([("/workspace/long", b"x" * (4 << 20) + b"\nend")])
    page, add = [], _Page.add

    def watched(self: _Page, piece: bytes) -> None:
        add(self, piece)
        page.append(len(self._rest))

    monkeypatch.setattr(_Page, "add", watched)
    shown = quick.read("/workspace/long").file_data
    assert shown is not None
    assert len(shown["content"]) < MOST_SHOWN + 200
    assert max(page) < MOST_SHOWN + (1 << 16)
    again = quick.read("/workspace/long", offset=1).file_data
    assert again is not None
    assert again["content"] == "end"


def _globbed(backend: BackendProtocol, pattern: str, path: str | None = None) -> list[str]:
    result = backend.glob(pattern, path)
    assert result.error is None
    return [found["path"] for found in result.matches or []]


def test_what_is_found_can_be_read(quick: PaddockBackend) -> None:
    """Also where it is one of several backends, whose names for it are what rules about files go by."""
    for name in ("top.txt", "src/a.txt", ".git/b.txt"):
        quick.upload_files([(f"/workspace/{name}", b"text")])
    several = CompositeBackend(default=quick, routes={"/sb/": quick})
    if not NEWER:
        assert _globbed(quick, "**/*.txt", "/workspace") == [".git/b.txt", "src/a.txt", "top.txt"]
        return
    found = _globbed(several, "**/*", "/sb/workspace")
    assert found == ["/sb/workspace/src/a.txt", "/sb/workspace/top.txt"]
    assert [several.read(path).error for path in found] == [None, None]
    assert _globbed(quick, "*.txt", "/workspace/") == [
        f"/workspace/{name}" for name in (".git/b.txt", "src/a.txt", "top.txt")
    ]
    assert _globbed(quick, "/*.txt", "/workspace") == ["/workspace/top.txt"]
    assert _globbed(quick, "{top,none}.txt") == ["/workspace/top.txt"]
    assert "INVALID_PATH" in (quick.glob("../*").error or "")


def test_where_a_search_begins(backend: PaddockBackend) -> None:
    backend.upload_files([("/workspace/src/a.py", b"needle"), ("/workspace/b.txt", b"hay")])
    assert _globbed(backend, "**/*.py") == ["/workspace/src/a.py" if NEWER else "src/a.py"]
    assert _globbed(backend, "/src/*.py" if NEWER else "/workspace/src/*") == ["/workspace/src/a.py"]
    assert [found["path"] for found in backend.grep("needle").matches or []] == ["/workspace/src/a.py"]
    assert "file_not_found" in (backend.glob("*", "/workspace/nothing").error or "")
    assert [found["path"] for found in backend.grep("e", glob="*.py", max_count=1).matches or []] == [
        "/workspace/src/a.py"
    ]
    assert backend.delete("/workspace/src").error is None
    assert "NOT_FOUND" in backend.delete("/workspace/src").error


def test_a_link_that_nobody_can_follow_hides_nothing() -> None:
    with BlockingSandbox.create("namespaces") as sandbox:
        sandbox.exec("mkdir shut; ln -s shut/x denied; ln -s none gone; ln -s loop loop; chmod 0 shut; touch f")
        found = PaddockBackend(sandbox).glob("*")
        expected = [{"path": "f", "is_dir": False}, {"path": "shut", "is_dir": True}]
        assert found.matches == ([{"path": "/workspace/f", "is_dir": False}] if NEWER else expected), found.error


async def test_in_the_loop_of_the_sandbox() -> None:
    async with Sandbox.create("namespaces") as sandbox:
        backend = PaddockBackend(sandbox)
        assert (await backend.awrite("/workspace/f", "text")).error is None
        assert (await backend.aexecute("cat f; pwd")).output == "text/workspace\n"
        assert backend.id == sandbox.id
        with pytest.raises(ConfigError, match="ainvoke"):
            backend.execute("true")
    with pytest.raises(ClosedError):
        await backend.aexecute("true")


async def test_cancelled_from_another_loop() -> None:
    sandbox = await asyncio.to_thread(BlockingSandbox.create, "namespaces")
    try:
        task = asyncio.create_task(PaddockBackend(sandbox).aexecute("echo $$ > pid; sleep 1000"))
        while not await asyncio.to_thread(sandbox.exists, "pid"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while await asyncio.to_thread(sandbox.processes):
            await asyncio.sleep(0.01)
    finally:
        await asyncio.to_thread(sandbox.close)
