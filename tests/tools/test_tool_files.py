"""The tools for files: what models get, what is refused with a hint, and twins that work."""

import asyncio
import json

import pytest

from paddock import Sandbox
from paddock.testing import plant_link
from paddock.tools import Tools, sandbox_tools
from paddock.tools import files as file_tools
from paddock.tools.text import is_binary, window


async def test_a_round(tools: Tools, sb: Sandbox) -> None:
    """Written, read, changed, looked at, listed and deleted."""
    written = await tools.call("write_file", {"path": "a/b.txt", "content": "one\ntwo\n"})
    told = {"success": True, "path": "a/b.txt", "is_new": True, "bytes": 8}
    assert written.to_dict() == told | {"original": None, "modified": "one\ntwo\n"}
    again = await tools.call("write_file", {"path": "a/b.txt", "content": "one\ntwo\nthree"})
    assert (again.data["is_new"], again.data["original"]) == (False, "one\ntwo\n")
    assert json.loads(again.text) == told | {"is_new": False, "bytes": 13}
    read = await tools.call("read_file", {"path": "a/b.txt"})
    assert read.text == "one\ntwo\nthree"
    assert (read.data["total_lines"], read.data["truncated"]) == (3, False)
    edited = await tools.call("edit_file", {"path": "a/b.txt", "old_text": "two", "new_text": "2"})
    assert edited.data["replacements"] == 1
    assert (edited.data["original"], edited.data["modified"]) == ("one\ntwo\nthree", "one\n2\nthree")
    assert await sb.read("a/b.txt") == "one\n2\nthree"
    assert (await tools.call("file_info", {"path": "a/b.txt"})).data["size"] == 11
    assert (await tools.call("list_files", {})).text == "a/"
    assert (await tools.call("list_files", {"path": "a"})).data["entries"] == ["b.txt"]
    assert (await tools.call("delete_file", {"path": "a/b.txt"})).to_dict() == {"success": True, "path": "a/b.txt"}
    assert not await sb.exists("a/b.txt")


async def test_errors_are_results(tools: Tools, sb: Sandbox) -> None:
    """Each says what to do, in the words of tools."""
    missing = await tools.call("read_file", {"path": "none.txt"})
    assert not missing.success
    assert (missing.data["code"], missing.data["path"]) == ("NOT_FOUND", "/workspace/none.txt")
    assert missing.data["hint"]
    outside = await tools.call("read_file", {"path": "/nowhere/x"})
    assert (outside.data["code"], outside.success) == ("OUTSIDE", False)
    await sb.write("d/f", "x")
    folder = await tools.call("delete_file", {"path": "d"})
    assert not folder.success
    assert "run_command" in folder.data["hint"]
    assert await sb.exists("d/f")
    for tool in tools:
        nothing = await tool.call({"unknown": 1})
        assert (nothing.success, "do not fit" in nothing.data["error"]) == (False, True)


async def test_discovery(tools: Tools, sb: Sandbox) -> None:
    """What is reachable is found out, and not told beforehand."""
    top = (await tools.call("list_files", {"path": "/"})).data["entries"]
    assert "workspace/" in top
    told = " ".join(tool.description + str(tool.schema) for tool in sandbox_tools(sb, git=True))
    assert not any(mount.target in told for mount in sb.mounts)


async def test_windows_of_lines(tools: Tools, sb: Sandbox) -> None:
    await sb.write("n.txt", "".join(f"{number}\n" for number in range(1, 5001)))
    first = await tools.call("read_file", {"path": "n.txt"})
    assert first.data["last_line"] == file_tools.LINES
    assert first.text.endswith("2000\n[Lines 1 to 2000 of 5000. To see the rest: offset=2001.]")
    middle = await tools.call("read_file", {"path": "n.txt", "offset": 4999, "limit": 1})
    assert middle.data["content"] == "4999\n"
    end = await tools.call("read_file", {"path": "n.txt", "offset": 4999})
    assert (end.text, end.data["truncated"]) == ("4999\n5000\n", False)
    behind = await tools.call("read_file", {"path": "n.txt", "offset": 5001})
    assert (behind.success, behind.data["hint"]) == (False, "Give an offset from 1 to 5000.")
    assert not (await tools.call("read_file", {"path": "n.txt", "offset": 0})).success
    await sb.write("empty", "")
    assert (await tools.call("read_file", {"path": "empty"})).success


async def test_what_is_long(real: Sandbox) -> None:
    """Neither a large file nor a long line comes whole, and both say how to see the rest."""
    tools = sandbox_tools(real, max_chars=1000)
    await real.write("long", "x" * 5000 + "\nend\n")
    cut = await tools.call("read_file", {"path": "long"})
    assert len(cut.data["content"]) == 1000
    assert "sed -n 1p FILE | cut -c1001-2000" in cut.text
    assert (await tools.call("read_file", {"path": "long", "offset": 2})).text == "end\n"
    await real.write("large", "".join(f"line {number:06}\n" for number in range(200_000)))
    part = await tools.call("read_file", {"path": "large", "offset": 150_001, "limit": 10_000})
    assert part.data["content"].startswith("line 150000\n")
    assert len(part.data["content"]) <= 1000
    assert part.data["total_lines"] is None
    follow = await tools.call("read_file", {"path": "large", "offset": part.data["last_line"] + 1, "limit": 1})
    assert follow.data["content"] == f"line {part.data['last_line']:06}\n"


async def test_what_is_skipped_is_not_kept(memory: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a long line is the next one, after no more work than its length; no number is too large to ask for."""
    kept, skipped = [], file_tools._skipped

    def watched(data: bytes, line: int, offset: int) -> tuple[int, bytes]:
        kept.append(len(data))
        return skipped(data, line, offset)

    monkeypatch.setattr(file_tools, "_BLOCK", 1000)
    monkeypatch.setattr(file_tools, "_skipped", watched)
    await memory.write("long", "x" * 9000 + "\ny\n" + "z" * 3000)
    tools = sandbox_tools(memory)
    assert (await tools.call("read_file", {"path": "long", "offset": 2, "limit": 1})).data["content"] == "y\n"
    assert (await tools.call("read_file", {"path": "long", "offset": 3})).data["content"] == "z" * 3000
    behind = await tools.call("read_file", {"path": "long", "offset": 10**30})
    assert behind.data["hint"] == "Give an offset from 1 to 3."
    assert max(kept) <= 1001


@pytest.mark.parametrize("most", [1, 7, 10, 64, 10_000])
@pytest.mark.parametrize("text", ["", "a", "a\n", "a\nb", "\n\n\n", "é\n" * 20, "long line here\nx\n" * 9])
def test_windows_put_together_are_the_text(text: str, most: int) -> None:
    """Whatever the limits are: nothing is lost between one part and the next."""
    lines, total = text.splitlines(keepends=True), text.count("\n") + (not text.endswith("\n") and bool(text))
    found, first = "", 1
    while first <= total:
        part = window("".join(lines[first - 1 :]).encode(), first, 3, most, ended=True)
        assert (part.total, part.lines >= 1, len(part.content) <= most) == (total, True, True)
        found += lines[first - 1] if part.cut else part.content
        first = part.last + 1
    assert found == text


def test_binary_by_content() -> None:
    for binary in (b"a\0b", b"\x01\x02abcdefgh", bytes(range(128, 256)), b"text" * 5000 + b"\0"):
        assert is_binary(binary)
    for text in (
        b"",
        b"plain\ttext\r\n",
        "ünïcödé ✓".encode(),
        b"caf\xe9 au lait, s'il vous plait",
        "ä".encode() * 8192,
        "\ufeffa,b\n1,2\n".encode(),  # with the mark that editors put in front
        "日\u3000本\u3000語\n".encode(),
        "👨\u200d👩\u200d👧\n".encode(),
        "5\u00a0€\n".encode(),
        "\ue0b0\n".encode(),
    ):
        assert not is_binary(text)
    assert not is_binary(("x" * 8191 + "é").encode())  # the sample ends within a character


async def test_binary_is_refused(tools: Tools, sb: Sandbox) -> None:
    await sb.write("p.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    refused = await tools.call("read_file", {"path": "p.png"})
    assert (refused.success, refused.data["code"]) == (False, "NOT_TEXT")
    await sb.write("p.txt", b"caf\xe9 au lait with a word in latin-1\n")
    assert (await tools.call("read_file", {"path": "p.txt"})).data["content"].startswith("caf\ufffd au")


async def test_a_character_between_two_blocks_is_text(memory: Sandbox) -> None:
    await memory.write("long", b"x\n" * ((128 << 10) - 1) + "xé".encode())
    shown = await sandbox_tools(memory).call("read_file", {"path": "long", "offset": 128 << 10})
    assert shown.data.get("content") == "xé"


async def test_an_edit_is_of_one_place(tools: Tools, sb: Sandbox) -> None:
    await sb.write("e.txt", "x = 1\ny = 1\n")
    missing = await tools.call("edit_file", {"path": "e.txt", "old_text": "z", "new_text": "w"})
    assert "was not found" in missing.data["error"]
    twice = await tools.call("edit_file", {"path": "e.txt", "old_text": " = 1", "new_text": " = 2"})
    assert "appears 2 times" in twice.data["error"]
    assert await sb.read("e.txt") == "x = 1\ny = 1\n"
    for wrong in ("", "same"):
        assert not (await tools.call("edit_file", {"path": "e.txt", "old_text": wrong, "new_text": wrong})).success
    both = {"path": "e.txt", "old_text": " = 1", "new_text": " = 2", "replace_all": True}
    assert (await tools.call("edit_file", both)).data["replacements"] == 2
    one = await tools.call("edit_file", {"path": "e.txt", "old_text": "x = 2", "new_text": "x = 3"})
    assert one.success
    assert await sb.read("e.txt") == "x = 3\ny = 2\n"


async def test_an_edit_keeps_bytes_and_line_ends(memory: Sandbox) -> None:
    tools = sandbox_tools(memory)
    await memory.write("w.txt", b"caf\xe9\r\none\r\ntwo\r\n")
    edited = await tools.call("edit_file", {"path": "w.txt", "old_text": "one\ntwo", "new_text": "1\n2"})
    assert edited.success, edited.text
    assert await memory.read_bytes("w.txt") == b"caf\xe9\r\n1\r\n2\r\n"
    assert (await tools.call("edit_file", {"path": "w.txt", "old_text": "2", "new_text": "two\nthree"})).success
    assert await memory.read_bytes("w.txt") == b"caf\xe9\r\n1\r\ntwo\r\nthree\r\n"
    await memory.write("both.txt", b"one\r\ntwo\n")
    assert (await tools.call("edit_file", {"path": "both.txt", "old_text": "two\n", "new_text": "2\n3\n"})).success
    assert await memory.read_bytes("both.txt") == b"one\r\n2\n3\n"
    await memory.write("plain.txt", b"one\ntwo\n")
    assert (
        await tools.call("edit_file", {"path": "plain.txt", "old_text": "one\r\ntwo", "new_text": "1\r\n2"})
    ).success
    assert await memory.read_bytes("plain.txt") == b"1\n2\n"
    ends = {"path": "w.txt", "old_text": "\r\n", "new_text": "\n", "replace_all": True}
    nothing = await tools.call("edit_file", ends)  # and is not told as something that was done
    assert (nothing.success, nothing.data.get("hint")) == (False, "Use run_command with sed.")
    assert (await tools.call("edit_file", {**ends, "path": "both.txt"})).success
    assert await memory.read_bytes("both.txt") == b"one\n2\n3\n"


async def test_an_edit_does_not_grow_without_a_bound(memory: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before it is made. One that ends at the bound is not."""
    monkeypatch.setattr(file_tools, "EDITED", 1000)
    tools = sandbox_tools(memory)
    await memory.write("a.txt", "a" * 100)
    edit = {"path": "a.txt", "old_text": "a", "replace_all": True}
    grown = await tools.call("edit_file", edit | {"new_text": "b" * 11})
    assert (grown.success, "would become too large" in grown.data["error"]) == (False, True)
    assert await memory.read("a.txt") == "a" * 100
    assert (await tools.call("edit_file", edit | {"new_text": "b" * 10})).data["bytes"] == 1000


async def test_edits_at_once_are_all_made(tools: Tools, sb: Sandbox) -> None:
    """None is lost between another one's reading and writing."""
    await sb.write("m.txt", "".join(f"<{number}>\n" for number in range(30)))
    edits = [{"path": "m.txt", "old_text": f"<{n}>", "new_text": f"[{n}]"} for n in range(30)]
    results = await asyncio.gather(*(tools.call("edit_file", edit) for edit in edits))
    assert all(result.success for result in results)
    assert await sb.read("m.txt") == "".join(f"[{number}]\n" for number in range(30))


async def test_a_large_directory(memory: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tools, "ENTRIES", 3)
    tools = sandbox_tools(memory)
    await memory.write_files({f"{number}.txt": "" for number in range(5)})
    listed = await tools.call("list_files", {})
    assert (len(listed.data["entries"]), listed.data["total"], listed.data["truncated"]) == (3, 5, True)
    assert "3 of 5 entries are shown. Use glob" in listed.text


async def test_long_names(memory: Sandbox) -> None:
    tools = sandbox_tools(memory, max_chars=1000)
    await memory.write_files({f"{number}{'x' * 100}": "" for number in range(50)})
    for name, given in (("list_files", {}), ("glob", {"pattern": "*"})):
        found = await tools.call(name, given)
        assert (len(found.text) < 1200, found.data["total"], found.data["truncated"]) == (True, 50, True)
        assert "9 of 50" in found.text
        assert "to see the rest" in found.text
    for name in ("read_file", "list_files", "file_info", "delete_file"):
        assert len((await tools.call(name, {"path": "x/" * 100_000})).text) < 10_000, name


async def test_results_can_be_sent(memory: Sandbox) -> None:
    """Half a surrogate pair is no text, and as an escape it can be sent."""
    for name, given in (("write_file", {"path": "\udc80", "content": "\ud800"}), ("read_file", {"path": "no\ud83d"})):
        result = await sandbox_tools(memory).call(name, given)
        assert json.loads(result.text.encode())["path"] == given["path"]


async def test_names_are_inert(real: Sandbox) -> None:
    """A name that would act on a terminal is written out; a link is shown as one and followed inside only."""
    tools = sandbox_tools(real)
    await real.write("a\x1b[31m\n.txt", "x")
    plant_link(real, "out", "/etc")
    text = (await tools.call("list_files", {})).text
    assert "\x1b" not in text
    assert "a\\x1b[31m\\n.txt\nout@" in text
    assert (await tools.call("read_file", {"path": "out/passwd"})).data["code"] == "OUTSIDE"
    plant_link(real, "in", "a\x1b[31m\n.txt")
    assert (await tools.call("read_file", {"path": "in"})).text == "x"


async def test_a_sandbox_that_is_closed(memory: Sandbox) -> None:
    """A model cannot make another one, and is not told to."""
    tools = sandbox_tools(memory)
    await memory.close()
    for name, given in (("list_files", {}), ("run_command", {"command": "true"})):
        result = await tools.call(name, given)
        assert result.data["code"] == "CLOSED"
        assert result.data["hint"] == "Nothing can be done in it any more; say so."
