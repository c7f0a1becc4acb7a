"""What is sent along with messages: read, held to the rules, and put where the agent finds it."""

import asyncio
import base64
import mimetypes
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from paddock.assistants.settings import AttachmentRules
from paddock.errors import ConfigError, LimitReachedError, SandboxError, TooLargeError, visible
from paddock.runners import Message
from paddock.sandbox import Sandbox

FOLDER = ".attachments"
UNKNOWN = "application/octet-stream"
FETCH_SECONDS = 60.0
"""How long one reference may take."""
_LONGEST = 120
_DATA = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),(.*)", re.DOTALL)
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_ADDRESS = re.compile(r"\s*https?:", re.IGNORECASE)
_MOST_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that is sent along: `{"role": "user", "content": [{"type": "text", …}, upload.part]}`."""

    name: str
    data: bytes
    media_type: str = UNKNOWN
    """Such as `text/plain`; what is none, is taken as not known."""

    def __post_init__(self) -> None:
        kind = str(self.media_type).partition(";")[0].strip().lower()
        object.__setattr__(self, "media_type", kind if _TYPE.fullmatch(kind) else UNKNOWN)

    @classmethod
    def read(cls, path: str | os.PathLike[str], limit: int | None = None) -> "Upload":
        """A file of this host; one that is larger than the limit is a `TooLargeError`, and not read."""
        file = Path(path)
        try:
            return cls(file.name, _content(file, limit), mimetypes.guess_type(file.name)[0] or UNKNOWN)
        except TooLargeError:
            raise
        except (OSError, ValueError) as error:  # the second for a name with a NUL in it
            why = getattr(error, "strerror", None) or error
            raise ConfigError(f"'{visible(str(file))}' cannot be read: {why}.", hint="Name a file.") from None

    @property
    def part(self) -> dict[str, Any]:
        """As a part of a message."""
        return {"type": "attachment", "name": self.name, "media_type": self.media_type, "data": self.data}

    @property
    def size(self) -> str:
        """For people."""
        count = len(self.data)
        if count < 1024:
            return f"{count} B"
        return f"{count / 1024:.1f} KB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MB"

    def told(self, path: str | None = None) -> str:
        """What stands for it in a text."""
        return f"[Attachment: {path or safe_name(self)} ({self.media_type}, {self.size})]"


Piece = str | Upload
Fetch = Callable[[str], Awaitable[Upload]]
"""Gets what a reference of the program's own stands for, such as `upload://42`."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message, with what was sent along taken out of its parts."""

    role: Any
    pieces: tuple[Piece, ...]

    def message(self, shown: Callable[[Upload], str] = Upload.told) -> Message:
        """The message as text."""
        return Message(self.role, "\n".join(one if isinstance(one, str) else shown(one) for one in self.pieces))


async def read(messages: Iterable[Message], rules: AttachmentRules, fetch: Fetch | None) -> list[Said]:
    """Messages in pieces. Too many, too much, or of a kind that is not allowed is an error; unreadable ones are words."""
    said: list[Said] = []
    uploads: list[Upload] = []
    fetched = 0
    for message in messages:
        pieces: list[Piece] = []
        for part in _parts(message):
            fetched += fetch is not None and _is_reference(part)
            _check_count(fetched, rules)
            piece = await _piece(part, fetch, rules.max_bytes - sum(len(upload.data) for upload in uploads))
            pieces.append(piece)
            if isinstance(piece, Upload):
                uploads.append(piece)
                _check(uploads, rules)
        said.append(Said(message.role, tuple(pieces)))
    return said


async def put(sandbox: Sandbox, said: Sequence[Said]) -> list[Message]:
    """Put what was sent along into the sandbox, and the paths into the messages."""
    uploads = [one for message in said for one in message.pieces if isinstance(one, Upload)]
    if not uploads:
        return [message.message() for message in said]
    try:
        paths = await _put(sandbox, FOLDER, uploads)
    except SandboxError:  # the agent may have made anything of the folder
        paths = await _put(sandbox, f"{FOLDER}-{secrets.token_hex(4)}", uploads)
    return [message.message(lambda upload: upload.told(paths[id(upload)])) for message in said]


async def _put(sandbox: Sandbox, folder: str, uploads: Sequence[Upload]) -> dict[int, str]:
    await sandbox.mkdir(f"{sandbox.workdir}/{folder}")
    taken = set(await sandbox.list(f"{sandbox.workdir}/{folder}"))
    paths: dict[int, str] = {}
    for upload in uploads:
        name = free_name(safe_name(upload), taken)
        taken.add(name)
        paths[id(upload)] = f"{folder}/{name}"
    await sandbox.write_files({f"{sandbox.workdir}/{paths[id(upload)]}": upload.data for upload in uploads})
    return paths


def _content(file: Path, limit: int | None) -> bytes:
    """A pipe or a device might never end: they are no files."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no regular file")
        if limit is not None and found.st_size > limit:
            raise TooLargeError(
                f"'{visible(str(file))}' is too large to send along.", hint=f"Send {limit / 1e6:g} MB at most."
            )
        with open(descriptor, "rb", closefd=False) as opened:
            return opened.read() if limit is None else opened.read(limit)
    finally:
        os.close(descriptor)


def safe_name(upload: Upload) -> str:
    """Its last part, of harmless characters: never a path, a hidden file or an option."""
    name = re.split(r"[/\\]", upload.name)[-1]
    name = "".join(c if c.isprintable() and c not in ':*?"<>|' else "_" for c in name).strip(" .-")
    stem, suffix = os.path.splitext(name)
    if not stem:
        stem, suffix = "attachment", mimetypes.guess_extension(upload.media_type) or ""
    return f"{_cut(stem, _LONGEST - len(suffix.encode()[:20]))}{_cut(suffix, 20)}"


def free_name(name: str, taken: set[str]) -> str:
    """The name, or the first with a number before its suffix that nobody has."""
    stem, suffix = os.path.splitext(name)
    names = (name, *(f"{stem}_{number}{suffix}" for number in range(1, _MOST_FILES)))
    found = next((one for one in names if one not in taken), None)
    if found is None:
        raise LimitReachedError(f"There are too many attachments called {name}.", hint="Remove some.")
    return found


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")


def _parts(message: Message) -> Iterable[Mapping[str, Any]]:
    if message.content is None or isinstance(message.content, str):
        return [{"type": "text", "text": message.content}]
    return message.content


async def _piece(part: Mapping[str, Any], fetch: Fetch | None, left: int) -> Piece:
    kind = str(part.get("type", "text"))
    if kind == "text":
        return str(part.get("text") or "")
    name, media_type, data, url, own = _found(kind, part)
    shown = visible(name or "attachment")[:_LONGEST]
    text = data if isinstance(data, str) and data else url if url.startswith("data:") else ""
    if _least_size(text) > left:
        raise TooLargeError("The attachments are too large together.", hint="Send less.")
    try:
        if isinstance(data, bytes):
            return _named(Upload(name, data, media_type or UNKNOWN), own)
        if text:
            return _named(_from_text(text, name, media_type), own)
        if _ADDRESS.match(url):
            return f"[{'Image' if kind in ('image', 'image_url') else 'File'}: {visible(url)[:2000]}]"
        if url and fetch is not None:
            async with asyncio.timeout(FETCH_SECONDS):
                found = await fetch(url)
            if isinstance(found, Upload):
                return _named(found, own or url)
    except Exception:  # noqa: BLE001, S110 - fetch is the program's own, and may raise anything
        pass
    return f"[The attachment {shown} could not be read]"


def _is_reference(part: Mapping[str, Any]) -> bool:
    """Whether it has to be fetched: these count whether they can be read or not, as each may take its time."""
    kind = str(part.get("type", "text"))
    *_, data, url, _ = _found(kind, part)
    return kind != "text" and not data and bool(url) and not url.startswith("data:") and not _ADDRESS.match(url)


def _named(upload: Upload, own: str) -> Upload:
    """Without a name it is called by its id, and by its type."""
    stem = re.split(r"[/\\]", own)[-1]
    suffix = mimetypes.guess_extension(upload.media_type) or ""
    return replace(upload, name=f"{stem}{suffix}") if stem and not upload.name else upload


def _found(kind: str, part: Mapping[str, Any]) -> tuple[str, str, Any, str, str]:
    """Name, type, content, address and id, by the words that clients of models have for them."""
    inner = part.get(kind) if isinstance(part.get(kind), Mapping) else part.get("source")
    found = inner if isinstance(inner, Mapping) else part
    name = found.get("filename") or found.get("name") or part.get("name") or part.get("title") or ""
    media_type = found.get("media_type") or part.get("media_type") or ""
    data = found.get("file_data") or found.get("data")
    if found.get("type") == "text" and isinstance(data, str):  # a document that is no file: its text is there as it is
        data = data.encode(errors="replace")
    url = found.get("url") or found.get("file_id") or ""
    own = found.get("file_id") or found.get("id") or part.get("id") or ""
    return str(name), str(media_type), data, str(url), str(own)


def _least_size(text: str) -> int:
    """What a text cannot come to less than, before it is read."""
    head = text[: text.find(",") + 1] if text.startswith("data:") else ";base64,"
    length = len(text) - (len(head) if text.startswith("data:") else 0)
    return length // 4 * 3 - 2 if ";base64" in head else length // 3


def _from_text(text: str, name: str, media_type: str) -> Upload:
    match = _DATA.fullmatch(text)
    if match is None:
        return Upload(name, base64.b64decode(text, validate=True), media_type or UNKNOWN)
    kind, terms, rest = match.groups()
    data = base64.b64decode(rest, validate=True) if ";base64" in terms else unquote_to_bytes(rest)
    return Upload(name, data, media_type or kind or "text/plain")


def _check_count(count: int, rules: AttachmentRules) -> None:
    if count > rules.max:
        raise LimitReachedError(
            f"{count} attachments are more than may be sent.", limit="attachments", hint=f"Send {rules.max} at most."
        )


def _check(uploads: Sequence[Upload], rules: AttachmentRules) -> None:
    _check_count(len(uploads), rules)
    if sum(len(upload.data) for upload in uploads) > rules.max_bytes:
        raise TooLargeError(
            "The attachments are too large together.", hint=f"Send {rules.max_bytes / 1e6:g} MB at most."
        )
    for upload in uploads:
        suffix = os.path.splitext(safe_name(upload))[1].lower()
        if (rules.allowed and suffix not in rules.allowed) or suffix in rules.denied:
            known = f"Allowed: {', '.join(rules.allowed)}." if rules.allowed else f"Not: {', '.join(rules.denied)}."
            raise ConfigError(f"An attachment of the kind '{visible(suffix)}' may not be sent.", hint=known)
