"""Paths: what is a name, what is reachable, what errors say."""

import pytest

from paddock.errors import InvalidPathError, OutsideError, SandboxError
from paddock.sandbox import Sandbox
from paddock.testing.contract.suite import Suite

MALFORMED = ["", "a\0b", "x" * 256, "y/" * 2500 + "z", "\ud800", "/workspace/" + "é" * 128]
OUTSIDE = [
    "/etc/passwd",
    "/workspaceX/f",
    "/workspace-evil",
    "../outside.txt",
    "./../outside.txt",
    "../../../etc/passwd",
    "subdir/../../etc/passwd",
    "/workspace/../etc/passwd",
    "/proc/self/root/etc/passwd",
    "/does/not/exist",
]
NAMES = [
    "plain",
    "with space",
    "-rf",
    "new\nline",
    "esc\x1b[31m",
    "\u202egnp.exe",
    "日本語",
    "e\u0301",
    "\u00e9",
    "emoji-🦊",
    b"latin-\xe9".decode("utf-8", "surrogateescape"),
    b"\xff\xfe\x80".decode("utf-8", "surrogateescape"),
    "...",
    "..hidden",
    "~",
    "*[?]",
    "quote'\"`$(x)",
    "back\\slash",
    "x" * 255,
]


class PathsContract(Suite):
    """Names of every kind, and the ones that lead nowhere."""

    @pytest.mark.parametrize("path", MALFORMED, ids=lambda path: ascii(path)[:20])
    async def test_malformed(self, sb: Sandbox, path: str) -> None:
        for call in (sb.read, sb.stat, sb.list, sb.exists, sb.delete, sb.mkdir, sb.set_workdir):
            with pytest.raises(InvalidPathError):
                await call(path)
        with pytest.raises(InvalidPathError):
            await sb.write(path, "")
        with pytest.raises(InvalidPathError):
            await sb.write_files({"fine": "", path: ""})
        assert await sb.list() == []

    @pytest.mark.parametrize("path", OUTSIDE)
    async def test_outside(self, sb: Sandbox, path: str) -> None:
        for call in (sb.read, sb.read_bytes, sb.stat, sb.list, sb.scan, sb.delete, sb.mkdir):
            with pytest.raises(OutsideError) as caught:
                await call(path)
            assert "outside" in str(caught.value)
            assert "/workspace" in caught.value.hint
        for refused in (sb.write(path, ""), sb.move("f", path), sb.copy(path, "f"), sb.write_files({path: ""})):
            with pytest.raises(SandboxError):
                await refused
        assert not await sb.exists(path)

    async def test_the_same_answer_whether_it_exists(self, sb: Sandbox) -> None:
        def words(path: str, error: SandboxError) -> str:
            return error.to_llm().replace(path, "PATH")

        answers = set()
        for path in ("/etc/passwd", "/etc/no-such-file"):
            with pytest.raises(OutsideError) as caught:
                await sb.read(path)
            answers.add(words(path, caught.value))
        assert len(answers) == 1

    @pytest.mark.parametrize("name", NAMES, ids=ascii)
    async def test_names_in_every_encoding(self, sb: Sandbox, name: str) -> None:
        await sb.write(f"d/{name}", name.encode("utf-8", "surrogateescape"))
        assert await sb.list("d") == [name]
        assert (await sb.stat(f"d/{name}")).name == name
        assert await sb.read_bytes(f"d/{name}") == name.encode("utf-8", "surrogateescape")
        assert await sb.glob("d/*") == [f"/workspace/d/{name}"]
        await sb.move(f"d/{name}", f"d/y{name[1:]}")
        await sb.copy(f"d/y{name[1:]}", f"d/{name}")
        await sb.delete(f"d/{name}")

    async def test_dots_and_slashes(self, sb: Sandbox) -> None:
        await sb.write("d/f", "x")
        for same in (
            "./d/f",
            "d//f",
            "d/./f",
            "d/../d/f",
            "/workspace/d/f",
            "//workspace/d/f",
            "/../workspace/d/f",
            "d/f/",
        ):
            assert await sb.read(same) == "x"
        assert await sb.list(".") == await sb.list("/workspace/") == ["d"]

    async def test_errors_show_control_characters(self, sb: Sandbox) -> None:
        with pytest.raises(SandboxError) as caught:
            await sb.read("evil\x1b[2J\u202e\n")
        assert str(caught.value).isprintable()
        assert caught.value.to_llm().isprintable()
        assert caught.value.path == "/workspace/evil\x1b[2J\u202e\n"

    async def test_deep(self, sb: Sandbox) -> None:
        deep = "/".join(["d"] * 700)
        await sb.write(f"{deep}/f", "x")
        assert await sb.read(f"{deep}/f") == "x"
        assert await sb.glob("**/f") == [f"/workspace/{deep}/f"]
        await sb.copy("d", "e")
        await sb.delete("d", recursive=True)
        assert await sb.list() == ["e"]
