"""The tools for files: reading a window of lines, writing, changing one place, listing and deleting."""

from typing import Any

from paddock import paths
from paddock.errors import NotFoundError, NotTextError, SandboxError, TooLargeError, visible
from paddock.sandbox import Sandbox
from paddock.tools import schemas
from paddock.tools.result import ToolResult, done, failed
from paddock.tools.text import Window, fitting, is_binary, lines_in, window
from paddock.tools.tool import ModelTool

LINES = 2000
ENTRIES = 1000
ORIGINAL = 100 << 10
EDITED = 16 << 20
_BLOCK = 256 << 10
_SCANNED = 64 << 20

_PATH = schemas.text("The path of the file, absolute or relative to the working directory.")


class FileTools:
    """Over one sandbox. Changes are made one after the other, so that none gets lost between reading and writing."""

    def __init__(self, sb: Sandbox, most: int) -> None:
        import asyncio

        self._sb = sb
        self._most = most
        self._changing = asyncio.Lock()

    def tools(self) -> list[ModelTool]:
        """All of them."""
        return [
            ModelTool(
                "read_file",
                "Read a text file. A long file is shown in parts: `offset` is the number of the first line, from 1, and "
                "`limit` how many lines. Binary files are refused.",
                schemas.parameters(
                    path=_PATH,
                    offset=schemas.number("The number of the first line to read, from 1.", 1),
                    limit=schemas.number("How many lines to read.", LINES),
                ),
                lambda given, _: self.read(**given),
            ),
            ModelTool(
                "write_file",
                "Write a whole text file. One that is there is replaced; missing directories are made.",
                schemas.parameters(path=_PATH, content=schemas.text("All that the file will hold.")),
                lambda given, _: self.write(**given),
                "write",
            ),
            ModelTool(
                "edit_file",
                "Replace a text in a file by another. `old_text` has to be in the file exactly once, with the same white "
                "space; give a few lines around it if need be, or set `replace_all`.",
                schemas.parameters(
                    path=_PATH,
                    old_text=schemas.text("The text to replace, exactly as it is in the file."),
                    new_text=schemas.text("The text to put in its place."),
                    replace_all=schemas.flag("Replace it everywhere in the file."),
                ),
                lambda given, _: self.edit(**given),
                "write",
            ),
            ModelTool(
                "list_files",
                'List a directory; the names of directories end with "/". The path "/" shows what can be reached at all.',
                schemas.parameters(path=schemas.text("The directory; the working directory unless given.", ".")),
                lambda given, _: self.list(**given),
            ),
            ModelTool(
                "delete_file",
                "Delete one file.",
                schemas.parameters(path=_PATH),
                lambda given, _: self.delete(**given),
                "delete",
            ),
            ModelTool(
                "file_info",
                "Tell whether a path is a file, a directory or a link, how large it is and when it was changed.",
                schemas.parameters(path=_PATH),
                lambda given, _: self.info(**given),
            ),
        ]

    async def read(self, path: str, offset: int = 1, limit: int = LINES) -> ToolResult:
        """Some lines of a text file."""
        found = await self._window(path, offset, limit)
        if not found.lines and offset > 1:
            return failed(
                f"'{visible(path)}' has {found.total} lines, and offset={offset} is behind them.",
                f"Give an offset from 1 to {found.total}." if found.total else "It is empty.",
                path,
            )
        note = _rest(found, path)
        data = {
            "path": path,
            "content": found.content,
            "first_line": found.first,
            "last_line": found.last,
            "total_lines": found.total,
            "truncated": found.truncated,
        }
        return done(f"{found.content}{note}" if note or found.content else "[The file is empty.]", **data)

    async def _window(self, path: str, offset: int, limit: int) -> Window:
        """Read block by block until the last line that is wanted, so that a large file costs what is looked at."""
        line, position, data = 1, 0, b""
        while True:
            block = await self._sb.read_bytes(path, offset=position, limit=_BLOCK)
            binary = b"\0" in block if position else is_binary(block)  # a later one may begin within a character
            position, ended = position + len(block), len(block) < _BLOCK
            if binary:
                raise NotTextError(
                    f"'{visible(path)}' is a binary file.", path=path, hint="Look at it with run_command, such as xxd."
                )
            data = data + block if data else block
            if line < offset:
                line, data = _skipped(data, line, offset)
            there = line == offset and (data.count(b"\n") >= limit or len(data) > 4 * self._most)
            if there or (ended and line == offset):
                return window(data, offset, limit, self._most, ended=ended)
            if ended:
                return Window("", offset, 0, line - 1 + lines_in(data))
            if position > _SCANNED:
                raise TooLargeError(
                    f"Line {offset} of '{visible(path)}' is too far from its beginning.",
                    path=path,
                    hint="Use grep, or run_command with sed or tail.",
                )

    async def write(self, path: str, content: str) -> ToolResult:
        """A whole file."""
        data = content.encode("utf-8", "replace")
        async with self._changing:
            old = await self._original(path)
            await self._sb.write(path, data)
        told: dict[str, Any] = {"path": path, "is_new": old is None, "bytes": len(data)}
        return ToolResult(told | {"original": _shown(old), "modified": _shown(data)}, done(**told).text)

    async def edit(self, path: str, old_text: str, new_text: str, replace_all: bool = False) -> ToolResult:
        """One text in a file, or all that are the same."""
        if not old_text or old_text == new_text:
            why = "old_text is empty." if not old_text else "old_text and new_text are the same."
            return failed(why, "Give the text to replace. To write a whole file use write_file.", path)
        async with self._changing:
            content = await self._sb.read_bytes(path, limit=EDITED + 1)
            if len(content) > EDITED:
                return failed(f"'{visible(path)}' is too large to edit.", "Use run_command with sed.", path)
            old, new = _as_in(content, old_text.encode("utf-8", "replace"), new_text.encode("utf-8", "replace"))
            if old == new:
                return failed(
                    "Only line ends differ, and they stay as the file has them.", "Use run_command with sed.", path
                )
            count = content.count(old)
            if problem := _problem(path, count, replace_all):
                return problem
            if len(content) + count * (len(new) - len(old)) > EDITED:  # known before it is in memory
                return failed(f"'{visible(path)}' would become too large.", "Use run_command with sed.", path)
            changed = content.replace(old, new)
            await self._sb.write(path, changed)
        told: dict[str, Any] = {"path": path, "replacements": count, "bytes": len(changed)}
        return ToolResult(told | {"original": _shown(content), "modified": _shown(changed)}, done(**told).text)

    async def list(self, path: str = ".") -> ToolResult:
        """The names in a directory."""
        found = await self._sb.scan(path)
        names = [one.name + ("/" if one.is_dir else "@" if one.kind == "link" else "") for one in found]
        lines = fitting([visible(name) for name in names[:ENTRIES]], self._most)
        shown, more = names[: len(lines)], len(names) > len(lines)
        text = "\n".join(lines) or "[The directory is empty.]"
        if more:
            text += f"\n[{len(shown)} of {len(names)} entries are shown. Use glob with a pattern to see the rest.]"
        return done(text, path=path, entries=shown, total=len(names), truncated=more)

    async def delete(self, path: str) -> ToolResult:
        """One file, or a link."""
        async with self._changing:
            await self._sb.delete(path)
        return done(path=path)

    async def info(self, path: str) -> ToolResult:
        """What is there."""
        found = await self._sb.stat(path)
        full = paths.normalise(path, self._sb.workdir)
        return done(
            path=full, kind=found.kind, size=found.size, mode=f"{found.mode:o}", modified=round(found.mod_time, 3)
        )

    async def _original(self, path: str) -> bytes | None:
        """What is there before it is written over, or the beginning of it; None if nothing is."""
        try:
            return await self._sb.read_bytes(path, limit=ORIGINAL + 1)
        except NotFoundError:
            return None
        except SandboxError:  # writing says it better
            return b""


def _skipped(data: bytes, line: int, offset: int) -> tuple[int, bytes]:
    """Without the lines before `offset`, as far as they are in it, and the number of the line that comes first now.

    Of a line that is not wanted no more is kept than that there is one, so that a long one costs no more than its length.
    """
    missing = offset - line
    there = data.count(b"\n")
    if there < missing:
        return line + there, data[-1:] if data[-1:] != b"\n" else b""
    return offset, data.split(b"\n", missing)[missing]


def _as_in(content: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Both texts with the line ends of the file, where models write others. In a file that has both, what is there counts."""
    returns = content.count(b"\r\n")
    if not returns and b"\r\n" in old:
        return old.replace(b"\r\n", b"\n"), new.replace(b"\r\n", b"\n")
    if not returns or (old in content and returns < content.count(b"\n")):
        return old, new
    return _with_returns(old), _with_returns(new)


def _with_returns(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _problem(path: str, count: int, replace_all: bool) -> ToolResult | None:
    if not count:
        return failed(
            f"old_text was not found in '{visible(path)}'.",
            "Read the file again and copy the text exactly, with its white space.",
            path,
        )
    if count > 1 and not replace_all:
        return failed(
            f"old_text appears {count} times in '{visible(path)}'.",
            "Add lines around it so that it is there once, or set replace_all.",
            path,
        )
    return None


def _shown(content: bytes | None) -> str | None:
    """Content for whoever shows a difference; None for nothing, and for what is no text or too large."""
    if content is None or len(content) > ORIGINAL or is_binary(content):
        return None
    return content.decode("utf-8", "replace")


def _rest(found: Window, path: str) -> str:
    """How to see what is not shown."""
    if found.cut:
        shown = len(found.content)
        return (
            f"\n[Line {found.first} is long, and {shown} characters of it are shown. To see more of it: run_command with "
            f"sed -n {found.first}p FILE | cut -c{shown + 1}-{2 * shown}]"
        )
    if not found.truncated:
        return ""
    end = "" if found.content.endswith("\n") else "\n"
    of = "more" if found.total is None else str(found.total)
    return f"{end}[Lines {found.first} to {found.last} of {of}. To see the rest: offset={found.last + 1}.]"
