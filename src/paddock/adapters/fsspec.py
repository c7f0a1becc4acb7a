"""The files of a sandbox as an fsspec filesystem: `paddock://NAME/workspace/data.csv`, or over a `paddock.sync.Sandbox`."""

import os
import tempfile
import threading
import uuid
from contextlib import suppress
from datetime import datetime
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from paddock.extras import need

need("fsspec")

from fsspec.callbacks import DEFAULT_CALLBACK  # type: ignore[import-untyped]
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import-untyped]
from fsspec.utils import stringify_path  # type: ignore[import-untyped]

from paddock.adapters.moments import moment
from paddock.errors import (
    ConfigError,
    ExistsError,
    NotDirectoryError,
    NotFileError,
    NotFoundError,
    PermissionDeniedError,
    SandboxError,
    TooLargeError,
    visible,
)
from paddock.sync import Sandbox
from paddock.types import FileInfo

PIECE = 64 << 20
"""More than this is read in several calls."""
_MAGIC = frozenset("*?[")


class PaddockFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of one sandbox. Paths are the sandbox's own, and a relative one is below `/`.

    `sandbox` is a `paddock.sync.Sandbox`, or the id or name of a detached one, which is then connected to.
    """

    protocol = "paddock"
    root_marker = "/"
    cachable = False  # two views of one sandbox look alike to fsspec's cache, and reach different files

    def __init__(self, sandbox: Sandbox | str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.sandbox = _found(sandbox)

    @property
    def fsid(self) -> str:
        """What tells it from other filesystems."""
        return f"paddock-{self.sandbox.id}"

    def close(self) -> None:
        """Let go of a sandbox that was connected to by its name. One that was given stays open."""
        _let_go(self.sandbox)

    # Paths

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text: str = stringify_path(path)
        if text.startswith("paddock://"):
            text = text.removeprefix("paddock://").partition("/")[2]
        return "/" + text.strip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path, for other processes if the sandbox is detached."""
        return f"paddock://{self.sandbox.name or self.sandbox.id}{self._strip_protocol(name)}"

    @staticmethod
    def _get_kwargs_from_urls(path: Any) -> dict[str, str]:
        host = urlsplit(stringify_path(path)).netloc
        return {"sandbox": unquote(host)} if host else {}

    # Looking

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """What is there, through links."""
        path = self._strip_protocol(path)
        return _described(self.sandbox.stat(path), path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What is in a directory, or a file by itself."""
        path = self._strip_protocol(path)
        base = "" if path == "/" else path
        try:
            if not detail:
                return [f"{base}/{name}" for name in self.sandbox.list(path)]
            return [self._seen(entry, f"{base}/{entry.name}") for entry in self.sandbox.scan(path)]
        except NotDirectoryError:
            return [self.info(path)] if detail else [path]

    def _seen(self, entry: FileInfo, path: str) -> dict[str, Any]:
        """An entry of a directory. A link to a file is described as that file.

        One to a directory is `other`: who walks through a tree, to copy or to remove it, does not leave it by a link, nor
        go around in it for ever.
        """
        if entry.kind != "link":
            return _described(entry, path)
        link = {"islink": True, "destination": entry.target}
        try:
            found = self.info(path)
        except OSError:
            return _described(entry, path) | link
        return (found if found["type"] != "directory" else _described(entry, path)) | link

    def exists(self, path: str, **_: Any) -> bool:
        """Whether something is there that can be looked at."""
        try:
            return self.sandbox.exists(self._strip_protocol(path))
        except PermissionDeniedError:
            return False

    def du(self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **_: Any) -> Any:
        """How many bytes the files have, together or each; one that a link should lead to and that is gone has none."""
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True)
        sizes = {name: entry["size"] for name, entry in found.items()}
        return sum(sizes.values()) if total else sizes

    def modified(self, path: str) -> datetime:
        """When the content last changed."""
        return moment(self.info(path)["mtime"])

    # Reading and writing

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """A whole file, or a range of it; negative numbers count from its end."""
        path = self._strip_protocol(path)
        if start is None and end is None:
            with suppress(TooLargeError):
                return self.sandbox.read_bytes(path)
        size = self.sandbox.stat(path).size
        first = _position(start, size, 0)
        last = max(first, _position(end, size, size))
        if last - first <= PIECE:
            return self.sandbox.read_bytes(path, offset=first, limit=None if end is None else last - first)
        steps = range(first, last, PIECE)
        return b"".join(self.sandbox.read_bytes(path, offset=at, limit=min(PIECE, last - at)) for at in steps)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """Put a whole file there, atomically; with `mode="create"` only where nothing is."""
        path = self._strip_protocol(path)
        if mode == "create":
            self._create(path, lambda beside: self.sandbox.write(beside, value))
        else:
            self.sandbox.write(path, value)

    def _create(self, path: str, put: Any) -> None:
        """Put a file where nothing is: beside it first, because only moving it there can tell."""
        if self.sandbox.exists(path):
            raise _taken(path)
        beside = f"{path}.{uuid.uuid4().hex}"
        put(beside)
        try:
            self.sandbox.move(beside, path)
        except BaseException:
            self.sandbox.delete(beside)
            raise

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> "PaddockFile":
        path = self._strip_protocol(path)
        if mode == "xb" and self.sandbox.exists(path):
            raise _taken(path)
        return PaddockFile(self, path, mode, block_size or self.blocksize, **options)

    def get_file(
        self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, outfile: IO[bytes] | None = None, **_: Any
    ) -> None:
        """Copy a file to this host, or make a directory there."""
        if outfile is not None or hasattr(lpath, "write"):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile)
            return
        path = self._strip_protocol(rpath)
        found = self.sandbox.stat(path)
        if found.is_dir:
            os.makedirs(lpath, exist_ok=True)
            return
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        callback.set_size(found.size)
        self.sandbox.download(path, lpath)
        callback.absolute_update(found.size)

    def put_file(
        self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **_: Any
    ) -> None:
        """Copy a file of this host into the sandbox, or make a directory there."""
        path = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.sandbox.mkdir(path)
            return
        size = os.path.getsize(lpath)
        callback.set_size(size)
        if mode == "create":
            self._create(path, lambda beside: self.sandbox.upload(lpath, beside))
        else:
            self.sandbox.upload(lpath, path)
        callback.absolute_update(size)

    # Directories, and what is in them

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Make a directory where nothing is."""
        path = self._strip_protocol(path)
        if self.sandbox.exists(path):
            raise _taken(path)
        parent = self._parent(path)
        if not create_parents and not self.sandbox.exists(parent):
            raise NotFoundError(
                f"'{visible(parent)}' is not there.", path=parent, hint="Pass create_parents=True to make it too."
            )
        self.sandbox.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and its parents."""
        path = self._strip_protocol(path)
        if not exist_ok and self.sandbox.exists(path):
            raise _taken(path)
        self.sandbox.mkdir(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        path = self._strip_protocol(path)
        if not self.sandbox.stat(path).is_dir:
            raise NotDirectoryError(f"'{visible(path)}' is not a directory.", path=path, hint="Use rm_file for a file.")
        if self.sandbox.list(path):
            self.sandbox.delete(path)  # says that it is not empty
        self._remove_if_empty(path)

    def _remove_if_empty(self, path: str) -> None:
        """Remove it under another name, which nobody else knows: what was put there until then is not lost."""
        beside = f"{path}.{uuid.uuid4().hex}"
        self.sandbox.move(path, beside)
        if self.sandbox.list(beside):
            self.sandbox.move(beside, path)
            self.sandbox.delete(path)  # as above
        self.sandbox.delete(beside, recursive=True)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy one file over what is there, or make a directory like another."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.sandbox.stat(source).is_dir:
            self.sandbox.mkdir(target)
        else:
            self.sandbox.copy(source, target, overwrite=True)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        """Give something another path; into a directory that is there. A directory goes with all that is in it."""
        if not isinstance(path1, str) or not isinstance(path2, str) or maxdepth is not None or _MAGIC & {*path1}:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if path2.endswith("/") or self.isdir(target):
            target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
        self.sandbox.move(source, target, overwrite=True)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files, and with `recursive` directories with all that is in them."""
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for one in self.expand_path(path):
            self.sandbox.delete(one, recursive=recursive)

    def _rm(self, path: str) -> None:
        path = self._strip_protocol(path)
        try:
            self.sandbox.delete(path)  # a link too, and not what it leads to
        except NotFileError:
            self.rmdir(path)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        """Make an empty file; one that is there is emptied, or without `truncate` written again as it is."""
        path = self._strip_protocol(path)
        kept = b"" if truncate or not self.sandbox.exists(path) else self.sandbox.read_bytes(path)
        self.sandbox.write(path, kept)


class PaddockFile(AbstractBufferedFile):  # type: ignore[misc]
    """An open file. What is written is there as a whole when it is closed, and not before."""

    def __init__(self, fs: PaddockFileSystem, path: str, mode: str, block_size: int, **options: Any) -> None:
        super().__init__(fs, path, mode, block_size, **options)
        self._small = b""
        self._place: tempfile.TemporaryDirectory[str] | None = None
        if mode == "ab" and fs.exists(path):
            self._go_on()

    def _go_on(self) -> None:
        """Begin with what is there."""
        self.loc = self.details["size"]
        if self.loc < self.blocksize:
            self.buffer.write(self.fs.cat_file(self.path))
        else:
            self._place = tempfile.TemporaryDirectory()
            self.fs.sandbox.download(self.path, self._large)

    @property
    def _large(self) -> str:
        """Where on this host more than a block is gathered."""
        self._place = self._place or tempfile.TemporaryDirectory()
        return os.path.join(self._place.name, "whole")

    def _upload_chunk(self, final: bool = False) -> bool:
        if final and self._place is None:
            self._small = self.buffer.getvalue()
        else:
            with open(self._large, "ab") as file:
                file.write(self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Put it in its place."""
        mode = "create" if self.mode == "xb" else "overwrite"
        try:
            if self._place is None:
                self.fs.pipe_file(self.path, self._small, mode=mode)
            else:
                self.fs.put_file(self._large, self.path, mode=mode)
        finally:
            self.discard()

    def discard(self) -> None:
        """Forget what was written."""
        if self._place is not None:
            self._place.cleanup()


def _described(found: FileInfo, path: str) -> dict[str, Any]:
    kind = found.kind if found.kind in ("file", "directory") else "other"
    return {
        "name": path,
        "size": found.size if kind == "file" else 0,
        "type": kind,
        "mode": found.mode,
        "mtime": found.mod_time,
        "islink": found.kind == "link",
    }


def _position(given: int | None, size: int, otherwise: int) -> int:
    if given is None:
        return otherwise
    return max(0, size + given) if given < 0 else min(given, size)


def _taken(path: str) -> ExistsError:
    return ExistsError(f"'{visible(path)}' is there already.", path=path, hint="Choose another path, or remove it.")


# Sandboxes that were named: one connection for each, in each process

_connections: dict[tuple[int, str], Sandbox] = {}
_connecting = threading.Lock()


def _found(sandbox: Sandbox | str | None) -> Sandbox:
    if isinstance(sandbox, Sandbox):
        return sandbox
    if not isinstance(sandbox, str):
        raise ConfigError(
            "A filesystem is the files of one sandbox.",
            hint="Pass sandbox= a paddock.sync.Sandbox, or name a detached one: paddock://NAME/workspace.",
        )
    key = (os.getpid(), sandbox)
    with _connecting:
        held = _connections.get(key)
        if held is not None and not _runs(held):
            held.close()
            held = None
        _connections[key] = held or Sandbox.connect(sandbox)
        return _connections[key]


def _runs(sandbox: Sandbox) -> bool:
    """Whether it is there still: another may have its name by now."""
    try:
        sandbox.processes()
    except SandboxError:
        return False
    return True


def _let_go(sandbox: Sandbox) -> None:
    with _connecting:
        for key in [key for key, held in _connections.items() if held is sandbox]:
            del _connections[key]
            sandbox.close()
