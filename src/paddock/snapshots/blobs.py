"""Contents by their SHA-256: written once, never changed, each in a file of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from secrets import token_hex

from paddock.dirs.protocol import Reader
from paddock.errors import UnavailableError
from paddock.snapshots.bounds import Work

PIECE = 1 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Blobs:
    """The contents below `directory`. What is being written is in `beside`, and moves when it is whole."""

    def __init__(self, directory: Path, beside: Path) -> None:
        self._directory = os.fspath(directory)
        self._beside = os.fspath(beside)
        self._own = token_hex(8)
        self._numbers = count()

    def has(self, digest: str, size: int) -> bool:
        """Whether it is there. One of another size is what a power cut leaves, and is written again."""
        try:
            return os.stat(self._path(digest)).st_size == size
        except FileNotFoundError:
            return False

    def put(self, digest: str, data: bytes) -> bool:
        """Keep a content; whether it is new."""
        with on_host():
            if self.has(digest, len(data)):
                return False
            name = self._fresh()
            fd = os.open(name, _CREATE, 0o400)
            try:
                _write(fd, data)
                self._settle(name, digest)
            except BaseException:
                _discard(name)
                raise
            finally:
                os.close(fd)
        return True

    def take_in(self, reader: Reader, work: Work) -> tuple[str, int, bool]:
        """Keep what a reader gives: its digest, its size, and whether it is new."""
        if reader.size <= PIECE:
            data = reader.read(PIECE)
            work.spend(size=len(data))
            digest = sha256(data).hexdigest()
            return digest, len(data), self.put(digest, data)
        return self._take_in_parts(reader, work)

    def _take_in_parts(self, reader: Reader, work: Work) -> tuple[str, int, bool]:
        with self._new() as (fd, name):
            known, size = sha256(), 0
            while piece := reader.read(PIECE):
                work.spend(size=len(piece))
                known.update(piece)
                size += len(piece)
                with on_host():
                    _write(fd, piece)
            digest = known.hexdigest()
            with on_host():
                if self.has(digest, size):
                    return digest, size, False
                self._settle(name, digest)
        return digest, size, True

    def read(self, digest: str) -> bytes:
        """A whole content, unchecked; for those that are not large."""
        with self.opened(digest) as fd:
            return b"".join(pieces(fd))

    def checked(self, digest: str) -> bytes | None:
        """The same, or None if it is not there or not what its name says."""
        try:
            data = self.read(digest)
        except FileNotFoundError:
            return None
        return data if sha256(data).hexdigest() == digest else None

    @contextmanager
    def opened(self, digest: str) -> Iterator[int]:
        """The descriptor of a content for the length of a block."""
        fd = os.open(self._path(digest), _READ)
        try:
            yield fd
        finally:
            os.close(fd)

    def is_whole(self, digest: str, work: Work) -> bool:
        """Whether it is there and is what its name says. All of it is read."""
        known = sha256()
        try:
            with self.opened(digest) as fd:
                for piece in pieces(fd):
                    work.spend(size=len(piece))
                    known.update(piece)
        except FileNotFoundError:
            return False
        return known.hexdigest() == digest

    def all(self) -> Iterator[tuple[str, int]]:
        """Every content, with its size."""
        for shard in os.listdir(self._directory):
            with os.scandir(os.path.join(self._directory, shard)) as found:
                for entry in found:
                    with suppress(FileNotFoundError):
                        yield shard + entry.name, entry.stat(follow_symlinks=False).st_size

    def remove(self, digest: str) -> None:
        """Keep it no longer. Only for those who know that nobody uses it, or that it is spoilt."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(digest))

    def _path(self, digest: str) -> str:
        return f"{self._directory}/{digest[:2]}/{digest[2:]}"

    @contextmanager
    def _new(self) -> Iterator[tuple[int, str]]:
        """A new file that is gone after the block, unless it was moved to its place."""
        name = self._fresh()
        with on_host():
            fd = os.open(name, _CREATE, 0o400)
        try:
            yield fd, name
        finally:
            os.close(fd)
            _discard(name)

    def _fresh(self) -> str:
        return f"{self._beside}/{self._own}-{next(self._numbers)}"

    def _settle(self, name: str, digest: str) -> None:
        path = self._path(digest)
        try:
            os.rename(name, path)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), 0o700)
            os.rename(name, path)


@contextmanager
def on_host(words: str = "kept") -> Iterator[None]:
    """What fails here is our own directory, and not the sandbox's."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"The snapshot cannot be {words}: {error.strerror}.",
            hint="Free some space, remove other snapshots, or set PADDOCK_STATE to an absolute path elsewhere.",
        ) from error


def pieces(fd: int) -> Iterator[bytes]:
    """What is left of an open file."""
    while piece := os.read(fd, PIECE):
        yield piece


def hashed(reader: Reader, work: Work) -> tuple[str, int]:
    """The digest and the size of what a reader gives, which is not kept."""
    known, size = sha256(), 0
    while piece := reader.read(PIECE):
        work.spend(size=len(piece))
        known.update(piece)
        size += len(piece)
    return known.hexdigest(), size


def _discard(name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name)


def _write(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
