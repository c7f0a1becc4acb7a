"""Many files over the wire, all or none: written under temporary names, then renamed or swapped into their places."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from paddock.dirs.names import temporary_name
from paddock.dirs.protocol import Write, about
from paddock.paths import decode, encode, split
from paddock.wire.calls import Answer, Root, wait
from paddock.wire.fields import pack_text, pack_u8
from paddock.wire.files import NewFile, replaceable
from paddock.wire.frames import Frame, Reply, Request

_TOGETHER = 32  # files, whose requests are sent without waiting in between
_NEW, _SWAP = 1, 2


@dataclass(slots=True)
class _Staged:
    path: str
    temporary: str
    placed: bool = False
    replaced: bool = False
    """Whether the temporary name now holds what was in the file's place before."""


class WireStage:
    """Files written beside their places. If one cannot be, none is left."""

    def __init__(self, root: Root, files: Iterable[Write]) -> None:
        self._root = root
        self._files: list[_Staged] = []
        source = iter(files)
        try:
            while batch := list(islice(source, _TOGETHER)):
                self._add(batch)
        except BaseException:
            self.finish()
            raise

    def commit(self) -> None:
        try:
            for start in range(0, len(self._files), _TOGETHER):
                self._place(self._files[start : start + _TOGETHER])
        except BaseException:
            self.rollback()
            raise

    def rollback(self) -> None:
        placed = [file for file in reversed(self._files) if file.placed]
        self._try([self._rename(file, _SWAP) if file.replaced else self._remove(file.path) for file in placed])
        for file in placed:
            file.placed = False

    def finish(self) -> None:
        left = [file for file in self._files if file.replaced or not file.placed]
        self._try([self._remove(file.temporary) for file in left])
        self._files = []

    def _add(self, batch: list[Write]) -> None:
        """Write some files beside their places: first all are looked at, then all are written."""
        looks = self._root.calls.send([self._root.request(Request.STAT, self._root.at(file.path)) for file in batch])
        new: list[NewFile] = []
        try:
            refused = self._begin_all(zip(batch, looks, strict=True), new)
            for file, written in zip(batch, new, strict=False):
                with _naming(file.path):
                    written.settle()
            if refused is not None:
                raise refused
        except BaseException:
            for written in new:
                written.close()
            raise

    def _begin_all(self, files: Iterable[tuple[Write, Answer]], new: list[NewFile]) -> OSError | None:
        """Begin to write files until one is refused: why. Those before it may still fail, and come first then."""
        for file, look in files:
            try:
                with _naming(file.path):
                    new.append(self._begin(file, look))
            except OSError as error:
                return error
        return None

    def _begin(self, file: Write, look: Answer) -> NewFile:
        old = replaceable(look)
        directory, _ = split(file.path)
        name = decode(temporary_name())
        written = NewFile(self._root, directory)
        self._files.append(_Staged(file.path, f"{directory}/{name}" if directory else name))
        try:
            written.append(file.data)
            written.put(name, old if file.mode is None else file.mode, replace=False)
        except BaseException:
            written.close()
            raise
        return written

    def _place(self, batch: list[_Staged]) -> None:
        answers = self._root.calls.send([self._rename(file, _NEW) for file in batch])
        failures: list[OSError] = []
        for file, answer in zip(batch, answers, strict=True):
            try:
                with _naming(file.path):
                    self._put(file, answer, late=bool(failures))
            except OSError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _put(self, file: _Staged, renamed: Answer, *, late: bool) -> None:
        try:
            wait(renamed, Reply.OK)
        except FileExistsError:
            if late:  # all will be taken back
                raise
            replaceable(self._root.send(Request.STAT, self._root.at(file.path)))
            wait(self._root.calls.send([self._rename(file, _SWAP)])[0], Reply.OK)
            file.replaced = True
        file.placed = True

    def _rename(self, file: _Staged, how: int) -> Frame:
        where = self._root.at(file.temporary) + pack_text(encode(file.path)) + pack_u8(how)
        return self._root.request(Request.RENAME, where)

    def _remove(self, path: str) -> Frame:
        return self._root.request(Request.REMOVE, self._root.at(path) + pack_u8(False))

    def _try(self, requests: list[Frame]) -> None:
        """Make these requests. What one of them cannot do, somebody else undid: the others are still to be made."""
        for start in range(0, len(requests), _TOGETHER):
            with suppress(OSError):
                for answer in self._root.calls.send(requests[start : start + _TOGETHER]):
                    with suppress(OSError):
                        wait(answer, Reply.OK)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise about(error, path) from None
