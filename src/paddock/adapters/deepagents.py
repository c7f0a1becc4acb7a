"""Sandboxes as backends of LangChain's deep agents: `create_deep_agent(model, backend=PaddockBackend(sandbox))`."""

import asyncio
import base64
import codecs
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Final, TypeVar

from paddock.extras import need

need("deepagents")

from deepagents.backends import protocol, utils
from deepagents.backends.protocol import (
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    SandboxBackendProtocol,
    WriteResult,
)
from deepagents.backends.utils import _get_file_type

from paddock import sync
from paddock.adapters.moments import moment
from paddock.consent import begun_by
from paddock.errors import (
    ClosedError,
    ConfigError,
    ExecTimeoutError,
    InvalidPathError,
    SandboxDiedError,
    SandboxError,
    UnsupportedError,
)
from paddock.sandbox import Sandbox
from paddock.sandbox.behalf import refuse_blocked
from paddock.sync.portal import portal
from paddock.tools.text import shortened
from paddock.types import ExecResult
from paddock.types.files import Kind

T = TypeVar("T")

MOST_SHOWN: Final = 500 << 10
"""So many bytes of a file are read at once; for more there are offsets."""
MOST_MATCHES: Final = 1000
PIECE = 1 << 20
MOST_SKIPPED = 64 << 20
"""So far into a file lines are looked for."""
MOST_EDITED = 16 << 20
"""What is larger, or would be, is not edited."""
_LOOKED_AT = 8192
_TIMED_OUT = 124
_SAID_AGAIN = 1000
_CUT = "\n\n[It is cut off here, because it is long. Read on with a larger offset or a smaller limit.]"
_TOGETHER = "exec 2>&1\n"
_kind = lru_cache(1024)(_get_file_type)
_OVERWRITES = hasattr(protocol, "DeleteResult")
"""From 0.7 on `write` is meant to replace a file that is there, and before that to refuse."""
_PAGED = {"start_line", "total_lines"} <= {each.name for each in fields(ReadResult)}
_COUNTED = "truncated" in {each.name for each in fields(GrepResult)}
_SHARED = hasattr(utils, "InvalidGlobPatternError")
"""In the course of 0.7 all backends got one meaning of `glob`; before that each had its own, and sandboxes that of Python."""


class PaddockBackend(SandboxBackendProtocol):
    """A sandbox for an agent: its commands, and its files by file calls, so that it needs no Python inside.

    A `paddock.sync.Sandbox` serves `invoke` and `ainvoke`; a `Sandbox` only `ainvoke`, in the loop that it was made in.
    All of it is recorded as begun by a model, and what `approve=` of the sandbox blocks is not done.
    """

    def __init__(self, sandbox: Sandbox | sync.Sandbox) -> None:
        if not isinstance(sandbox, (Sandbox, sync.Sandbox)):
            raise ConfigError(
                f"A {type(sandbox).__name__} is no sandbox.", hint="Give a paddock.sync.Sandbox, or a paddock.Sandbox."
            )
        self._blocking = isinstance(sandbox, sync.Sandbox)
        self._sandbox: Sandbox = sandbox._async if isinstance(sandbox, sync.Sandbox) else sandbox
        self._changing = asyncio.Lock()  # agents edit in parallel, and no edit gets lost between reading and writing

    @property
    def id(self) -> str:
        """The sandbox's own."""
        return self._sandbox.id

    def _now(self, work: Callable[[], Awaitable[T]]) -> T:
        if not self._blocking:
            raise ConfigError(
                "This sandbox belongs to an event loop, and the call would block it.",
                hint="Use ainvoke(), or give PaddockBackend a paddock.sync.Sandbox.",
            )
        with begun_by("model"):
            return portal().run(work, "await agent.ainvoke(...)")

    async def _later(self, work: Callable[[], Awaitable[T]]) -> T:
        with begun_by("model"):
            return await (portal().awaited(work) if self._blocking else work())

    # Commands

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command by the shell. Running out of time is a result too, with the status 124."""
        return self._now(lambda: self._execute(command, timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """The same without blocking."""
        return await self._later(lambda: self._execute(command, timeout))

    async def _execute(self, command: str, timeout: int | None) -> ExecuteResponse:
        limit = math.inf if timeout == 0 else timeout
        try:
            refuse_blocked(self._sandbox, "run")
            result = await self._output(command, limit)
        except ExecTimeoutError as error:
            output = "".join(filter(None, (error.result and _both(error.result), error.to_llm())))
            return ExecuteResponse(output, _TIMED_OUT, truncated=False)
        except (ClosedError, SandboxDiedError):
            raise
        except SandboxError as error:
            return ExecuteResponse(error.to_llm(), 1)
        return ExecuteResponse(_both(result), result.exit_code, result.truncated)

    async def _output(self, command: str, limit: float | None) -> ExecResult:
        """With errors where they belong among the rest, if there is a shell that can see to it."""
        try:
            return await self._sandbox.exec(_TOGETHER + command, timeout=limit)
        except UnsupportedError as error:
            if error.capability != "shell":
                raise
            return await self._sandbox.exec(command, timeout=limit)

    # Looking

    def ls(self, path: str) -> LsResult:
        """What is in a directory."""
        return self._now(lambda: self._ls(path))

    async def als(self, path: str) -> LsResult:
        """The same without blocking."""
        return await self._later(lambda: self._ls(path))

    async def _ls(self, path: str) -> LsResult:
        try:
            found = await self._sandbox.scan(path)
        except SandboxError as error:
            return LsResult(error=f"Path '{path}': {_code(error)}")
        base = path.rstrip("/")
        return LsResult(
            entries=[
                FileInfo(
                    path=f"{base}/{entry.name}",
                    is_dir=entry.is_dir,
                    size=entry.size,
                    modified_at=moment(entry.mod_time).isoformat(),
                )
                for entry in found
            ]
        )

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """What matches: for the newest deepagents files by absolute paths, before that relative to where it began."""
        return self._now(lambda: self._glob(pattern, path))

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """The same without blocking."""
        return await self._later(lambda: self._glob(pattern, path))

    async def _glob(self, pattern: str, path: str | None) -> GlobResult:
        try:
            return GlobResult(matches=await (self._files if _SHARED else self._relative)(pattern, path))
        except SandboxError as error:
            return GlobResult(error=f"Path '{path or '.'}': {_code(error)}")

    async def _files(self, pattern: str, path: str | None) -> list[FileInfo]:
        """Rules of deepagents about files are for absolute paths: with others they would hold for nothing."""
        base = await self._where(path)
        start = f"{base.rstrip('/')}/"
        matches = _matcher(pattern)
        found = [one for one in await self._sandbox.glob("**", base) if matches(one.removeprefix(start))]
        return [FileInfo(path=one, is_dir=False) async for one, kind in self._kinds(found) if kind == "file"]

    async def _relative(self, pattern: str, path: str | None) -> list[FileInfo]:
        base = "/" if pattern.startswith("/") else path
        found = await self._sandbox.glob(pattern.lstrip("/"), base)
        start = "" if pattern.startswith("/") else f"{(await self._where(base)).rstrip('/')}/"
        kinds = self._kinds(found)
        return [FileInfo(path=one.removeprefix(start), is_dir=kind == "directory") async for one, kind in kinds]

    async def _kinds(self, found: list[str]) -> AsyncIterator[tuple[str, Kind]]:
        """Each with what it is, but for what cannot be looked at: a link that leads nowhere, say."""
        for path in found:
            try:
                kind = (await self._sandbox.stat(path)).kind
            except (ClosedError, SandboxDiedError):
                raise
            except SandboxError:  # whoever is inside makes such things, and they hide nothing else
                continue
            yield path, kind

    async def _where(self, path: str | None) -> str:
        return self._sandbox.workdir if path is None else (await self._sandbox.stat(path)).path

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Lines with a text in them, literally."""
        return self._now(lambda: self._grep(pattern, path, glob, max_count))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """The same without blocking."""
        return await self._later(lambda: self._grep(pattern, path, glob, max_count))

    async def _grep(self, pattern: str, path: str | None, glob: str | None, most: int | None) -> GrepResult:
        most = MOST_MATCHES if most is None else most
        try:
            found = await self._sandbox.grep(re.escape(pattern), path, glob=glob, limit=most + 1)
        except SandboxError as error:
            return GrepResult(error=f"Path '{path or '.'}': {_code(error)}")
        matches = [GrepMatch(path=match.path, line=match.line, text=match.text) for match in found[:most]]
        more: dict[str, Any] = {"truncated": len(found) > most} if _COUNTED else {}
        return GrepResult(matches=matches, **more)

    # Reading and writing

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Lines of a text, or a small binary file in base64."""
        return self._now(lambda: self._read(file_path, offset, limit))

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """The same without blocking."""
        return await self._later(lambda: self._read(file_path, offset, limit))

    async def _read(self, path: str, offset: int, limit: int) -> ReadResult:
        try:
            first = await self._sandbox.read_bytes(path, limit=PIECE)
            if _kind(path) != "text":
                return await self._read_binary(path)
            if offset <= 0 and (whole := _whole(first, limit)) is not None:
                return whole
            if _is_binary(first[:_LOOKED_AT]):
                return await self._read_binary(path)
            return await self._read_text(path, first, _Page(max(0, offset), max(0, limit)))
        except SandboxError as error:
            return ReadResult(error=f"File '{path}': {_code(error)}")

    async def _read_binary(self, path: str) -> ReadResult:
        data = await self._sandbox.read_bytes(path, limit=MOST_SHOWN + 1)
        if len(data) > MOST_SHOWN:
            return ReadResult(error=f"File '{path}': Binary file exceeds maximum preview size of {MOST_SHOWN} bytes")
        return ReadResult(file_data=FileData(content=base64.b64encode(data).decode(), encoding="base64"))

    async def _read_text(self, path: str, piece: bytes, page: "_Page") -> ReadResult:
        at = 0
        while not page.full and at <= MOST_SKIPPED:
            page.add(piece)
            at += len(piece)
            piece = await self._sandbox.read_bytes(path, offset=at, limit=PIECE) if len(piece) == PIECE else b""
        if not page.lines and page.limit and not page.ended:
            return ReadResult(error=f"File '{path}': line offset {page.offset} is too far from its beginning")
        if not page.lines and page.seen and page.limit:
            return ReadResult(error=f"File '{path}': line offset {page.offset} is beyond its end ({page.seen} lines)")
        return page.result()

    def write(self, file_path: str, content: str) -> WriteResult:
        """Put a file there; where one is already, that is an error before version 0.7 of deepagents."""
        return self._now(lambda: self._write(file_path, content))

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """The same without blocking."""
        return await self._later(lambda: self._write(file_path, content))

    async def _write(self, path: str, content: str) -> WriteResult:
        try:
            refuse_blocked(self._sandbox, "write")
            async with self._changing:
                if not _OVERWRITES and await self._sandbox.exists(path):
                    return WriteResult(error=f"Error: '{path}' already exists. Read it, then edit it.")
                await self._sandbox.write(path, content)
        except SandboxError as error:
            return WriteResult(error=f"Error: {error.to_llm()}")
        return WriteResult(path=path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Put a text in place of another, which has to be there, and only once unless `replace_all`."""
        return self._now(lambda: self._edit(file_path, old_string, new_string, replace_all))

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """The same without blocking."""
        return await self._later(lambda: self._edit(file_path, old_string, new_string, replace_all))

    async def _edit(self, path: str, old: str, new: str, every: bool) -> EditResult:
        try:
            refuse_blocked(self._sandbox, "write")
            async with self._changing:
                if (await self._sandbox.stat(path)).size > MOST_EDITED:
                    return EditResult(error=f"Error: '{path}' is too large to edit. Use sed.")
                text = await self._sandbox.read(path)
                old, new = _as_in(text, old, new)
                count = text.count(old) if old else 0
                if problem := _problem(path, old, count, every):
                    return EditResult(error=f"Error: {problem}")
                if len(text) + max(0, count * (len(new) - len(old))) > MOST_EDITED:  # known before it is in memory
                    return EditResult(error=f"Error: '{path}' is too large to edit, or would be. Use sed.")
                await self._sandbox.write(path, text.replace(old, new))
        except SandboxError as error:
            return EditResult(error=f"Error: '{path}': {_code(error)}")
        return EditResult(path=path, occurrences=count)

    def delete(self, file_path: str) -> Any:
        """Remove a file or a whole directory; for deepagents from 0.7 on."""
        return self._now(lambda: self._delete(file_path))

    async def adelete(self, file_path: str) -> Any:
        """The same without blocking."""
        return await self._later(lambda: self._delete(file_path))

    async def _delete(self, path: str) -> Any:
        result: Callable[..., Any] = getattr(protocol, "DeleteResult", WriteResult)
        try:
            refuse_blocked(self._sandbox, "delete")
            async with self._changing:
                await self._sandbox.delete(path, recursive=True)
        except SandboxError as error:
            return result(error=f"Error: {error.to_llm()}")
        return result(path=path)

    # Files from and to the host

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Put files there, each by itself."""
        return self._now(lambda: self._upload(files))

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """The same without blocking."""
        return await self._later(lambda: self._upload(files))

    async def _upload(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path, await self._upload_one(path, content)) for path, content in files]

    async def _upload_one(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return protocol.INVALID_PATH
        try:
            refuse_blocked(self._sandbox, "write")
            await self._sandbox.write(path, content)
        except SandboxError as error:
            return _code(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Whole files, each by itself."""
        return self._now(lambda: self._download(paths))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """The same without blocking."""
        return await self._later(lambda: self._download(paths))

    async def _download(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [await self._download_one(path) for path in paths]

    async def _download_one(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path, error=protocol.INVALID_PATH)
        try:
            return FileDownloadResponse(path, await self._sandbox.read_bytes(path))
        except SandboxError as error:
            return FileDownloadResponse(path, error=_code(error))


@dataclass
class _Page:
    """The lines of a file from `offset` on, `limit` of them at most, gathered out of pieces."""

    offset: int
    limit: int
    lines: list[str] = field(default_factory=list)
    seen: int = 0
    size: int = 0
    full: bool = False
    ended: bool = False
    _rest: bytes = b""

    def __post_init__(self) -> None:
        self.full = not self.limit

    def add(self, piece: bytes) -> None:
        """The next piece; an empty one is the file's end."""
        *whole, rest = piece.split(b"\n")
        if whole:
            whole[0] = self._rest + whole[0]
            self._rest = rest
        elif len(self._rest) < MOST_SHOWN:  # of a line that is longer nothing more is shown
            self._rest += rest
        if not whole and self.seen >= self.offset and len(self._rest) >= MOST_SHOWN:
            self.full = True
            self._take(self._rest)
            return
        if not piece:
            self.full = self.ended = True
            whole = [self._rest] if self._rest else []
        for line in whole:
            if self.seen >= self.offset and not self._take(line):
                self.ended = False
                return
            self.seen += 1

    def _take(self, line: bytes) -> bool:
        if len(self.lines) >= self.limit or self.size >= MOST_SHOWN:
            self.full = True
            return False
        text = line.removesuffix(b"\r")[: MOST_SHOWN - self.size].decode(errors="replace")
        self.lines.append(text)
        self.size += len(line) + 1
        return True

    def result(self) -> ReadResult:
        """What a model is shown."""
        content = "\n".join(self.lines) + (_CUT if self.size >= MOST_SHOWN else "")
        return _shown(content, self._numbers())

    def _numbers(self) -> dict[str, Any]:
        if not self.lines:
            return {"no_lines_requested": True} if not self.limit else {}
        last = self.offset + len(self.lines)
        end = {"total_lines": self.seen} if self.ended else {"next_offset": last}
        return {"start_line": self.offset + 1, "end_line": last} | end


def _whole(data: bytes, limit: int) -> ReadResult | None:
    """A small text as a whole, if all of it is asked for: most are, and there is no need to look at each line."""
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    if not data or count > limit or len(data) >= min(PIECE, MOST_SHOWN):
        return None
    try:
        content = data.decode()
    except UnicodeDecodeError:
        return None
    if "\r" in content:  # looking takes a hundredth of replacing
        content = content.replace("\r\n", "\n")
    return _shown(content.removesuffix("\n"), {"start_line": 1, "end_line": count, "total_lines": count})


def _shown(content: str, numbers: dict[str, Any]) -> ReadResult:
    return ReadResult(file_data=FileData(content=content, encoding="utf-8"), **(numbers if _PAGED else {}))


def _both(result: ExecResult) -> str:
    return result.stdout + result.stderr


def _is_binary(beginning: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return True
    return False


def _problem(path: str, old: str, count: int, every: bool) -> str | None:
    if not count:
        return f"the text was not found in '{path}': {shortened(old, _SAID_AGAIN)!r}"
    if count > 1 and not every:
        return (
            f"the text is there multiple times ({count}) in '{path}'. "
            "Say more of what is around it, or pass replace_all=True."
        )
    return None


def _as_in(text: str, old: str, new: str) -> tuple[str, str]:
    """What to replace and by what, with the ends of lines that the file has. In one that has both, what is there counts."""
    returns = text.count("\r\n")
    all_returns = 0 < returns == text.count("\n")
    if old in text and not all_returns:
        return old, new
    plain_old, plain_new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if plain_old in text and not all_returns:
        return plain_old, plain_new
    return plain_old.replace("\n", "\r\n"), plain_new.replace("\n", "\r\n")


def _matcher(pattern: str) -> Callable[[str], bool]:
    compiled: Callable[[str], Callable[[str], bool]] = getattr(utils, "compile_grep_include_glob")  # noqa: B009
    try:
        return compiled(pattern)
    except ValueError as error:
        raise InvalidPathError(f"{error}.", hint="Look with path= in another directory.") from error


def _code(error: SandboxError) -> str:
    """The words that deep agents have for what is common; ours for the rest."""
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (FileNotFoundError, protocol.FILE_NOT_FOUND),
        (PermissionError, protocol.PERMISSION_DENIED),
        (IsADirectoryError, protocol.IS_DIRECTORY),
    )
    return next((word for kind, word in kinds if isinstance(error, kind)), None) or error.to_llm()
