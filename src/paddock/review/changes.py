"""What is different in the layers of a sandbox, as changes that a person can look at."""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from paddock import diffs
from paddock.errors import SandboxError, visible
from paddock.paths import join, name, within
from paddock.review import copied, executable, overlay
from paddock.review.began import SEEMS_REMOVED, AfterApply, Applied, Began, SinceCopy, SinceMoment, copied_in
from paddock.review.bounds import Bounds, Spending
from paddock.review.content import MOST_OF_ONE, Content, is_copied_up, read
from paddock.review.emptied import marked
from paddock.review.findings import Findings, Found
from paddock.review.outward import leads_out
from paddock.review.overlay import Pair
from paddock.review.tree import MOVED, Seen, Tree
from paddock.types.review import EXECUTABLE, LEADS_OUT, NOT_APPLICABLE, Change, ChangeOperation, Layer

_MOST_SHOWN = 64 << 20
_MOST_SECONDS = 30.0
"""Bytes of all diffs of a look together, and the time they take; what comes after has none."""


def find(layers: Sequence[Layer], spending: Spending | None = None) -> tuple[Change, ...]:
    """What changed, sorted by path. The time it takes grows with that, and not with the host's directories.

    It blocks: call it in a thread, and end it by `spending`. Too much is `TooLargeError`, too long `LimitReachedError`. What
    the sandbox changes meanwhile may be missing or seen half done; `apply` never writes what was not shown.
    """
    return tuple(one.change for one in look(layers, spending).found)


def look(layers: Sequence[Layer], spending: Spending | None = None, running: Collection[str] = ()) -> Findings:
    """The same, with what is needed to apply it. `running` are files that the host runs just now; they are flagged too."""
    spending = spending or Bounds()
    found: list[Found] = []
    shown = _Shown()
    for index, layer in enumerate(layers):
        try:
            found += _of_one(index, layer, spending, shown)
        except SandboxError:
            raise
        except OSError as error:
            raise SandboxError(
                f"What changed below {layer.target} cannot be looked at: {error.strerror}.", hint="Try again."
            ) from error
    if running:
        found = [_flagged_if_run(one, layers[one.layer].lower, running) for one in found]
    return Findings(tuple(layers), tuple(sorted(found, key=lambda one: one.change.path)))


def _flagged_if_run(one: Found, lower: str, running: Collection[str]) -> Found:
    """A file that the host runs, where it was or is now; also something that is no directory, in the way to it."""
    changed = {join(lower, path) for path in (one.relative, one.old_relative) if path is not None}
    is_way = one.change.kind != "directory" or one.change.operation == "delete"
    concerned = any(file in changed or (is_way and within(file, place)) for file in running for place in changed)
    if not concerned or EXECUTABLE in one.change.flags:
        return one
    return replace(one, change=replace(one.change, flags=(EXECUTABLE, *one.change.flags)))


@dataclass(slots=True)
class _Shown:
    """How much more of diffs there may be."""

    left: int = _MOST_SHOWN
    seconds: float = _MOST_SECONDS

    def diff(self, path: str, old: bytes | None, new: bytes | None) -> diffs.Diff | None:
        """None of a side is a file that is not there."""
        if self.left <= 0 or self.seconds <= 0:
            return None
        began, shown = time.monotonic(), visible(path)
        names = (None if old is None else f"a/{shown}", None if new is None else f"b/{shown}")
        made = diffs.unified(old or b"", new or b"", *names)
        self.left -= len(made.text) if made is not None else 0
        self.seconds -= time.monotonic() - began
        return made


def _of_one(index: int, layer: Layer, spending: Spending, shown: _Shown) -> Sequence[Found]:
    found = _with_renames(list(_found(index, layer, spending, shown)))
    if layer.kind == "overlay":
        return found  # which has all that the host has in a directory that is gone
    with Tree.at(layer.lower) as lower:
        return marked(found, {index: lower}, spending)


def _found(index: int, layer: Layer, spending: Spending, shown: _Shown) -> Iterator[Found]:
    with ExitStack() as stack:
        try:
            upper = stack.enter_context(Tree.at(layer.upper, ours=True))
            lower = stack.enter_context(Tree.at(layer.lower))
        except OSError as error:
            raise SandboxError(
                f"What lies below {layer.target} cannot be opened: {error.strerror}.",
                hint="The host's directory has to be where it was when the sandbox began.",
            ) from error
        applied = Applied(layer.upper)
        if layer.kind == "overlay":
            began: Began = SinceMoment(layer.since, _Parents(upper, lower, applied, layer.since).changed)
            pairs = overlay.pairs(upper, lower, applied, spending)
        else:
            entries = copied_in(layer)
            began, pairs = SinceCopy(entries), copied.pairs(upper, lower, entries, applied, spending)
        looking = _Looking(index, layer, upper, lower, AfterApply(applied, began), spending, shown)
        for pair in pairs:
            if (one := looking.compared(pair)) is not None:
                yield one


@dataclass(frozen=True, slots=True)
class _Parents:
    """The host's directories, to tell whether a file may have left one."""

    upper: Tree
    lower: Tree
    applied: Applied
    since: int

    def changed(self, path: str) -> bool:
        """Whether anybody but us changed the directory that a path is in, or the directory itself is gone."""
        directory = path.rpartition("/")[0]
        with suppress(OSError):
            now = self.lower.look(directory)
            if now is not None:
                return now.ctime_ns > self.since and not self.applied.is_left_so(directory, now.ctime_ns)
            with self.upper.directory(directory) as fd:
                return is_copied_up(fd)
        return False


@dataclass(frozen=True, slots=True)
class _Looking:
    """At one layer: makes changes of pairs."""

    index: int
    layer: Layer
    upper: Tree
    lower: Tree
    began: Began
    spending: Spending
    shown: _Shown

    def compared(self, pair: Pair) -> Found | None:
        """None if there is no difference that counts, or it was gone by the time it was looked at."""
        try:
            one = self._kinds(pair)
        except OSError as error:
            if error.errno not in MOVED:
                raise
            return None
        if one is None or not pair.trouble:
            return one
        return replace(one, change=replace(one.change, conflict=pair.trouble))

    def _kinds(self, pair: Pair) -> Found | None:
        if pair.upper is None:
            return None if pair.lower is None else self._deleted(pair, pair.lower)
        if pair.upper.kind == "file":
            return self._file(pair, pair.upper)
        if pair.upper.kind == "link":
            return self._link(pair, pair.upper)
        if pair.upper.kind == "directory":
            return self._directory(pair, pair.upper)
        same = pair.lower is not None and pair.lower.kind == pair.upper.kind
        return None if same else self._made(pair, pair.upper, flags=(NOT_APPLICABLE,))

    def _deleted(self, pair: Pair, host: Seen) -> Found:
        old = self._host_content(pair)
        diff = self._diff(pair.path, old, None) if old is not None else None
        change = Change(
            path=self._path(pair),
            operation="delete",
            kind=host.kind,
            old_kind=host.kind,
            size=host.size,
            sha256=old.sha256 if old is not None else None,
            old_mode=host.mode,
            target=host.target,
            diff=diff.text if diff is not None else None,
            removed=diff.removed if diff is not None else 0,
            conflict=self.began.conflict(pair.path, host, copied_up=False, deleted=True),
        )
        flags = executable.flags(change, pair.path, old.data if old is not None else None, b"")
        return self._with(replace(change, flags=flags), pair, None, _hashed(host, old))

    def _directory(self, pair: Pair, now: Seen) -> Found | None:
        if pair.lower is None or pair.lower.kind != "directory":
            return self._made(pair, now)
        return None if pair.lower.mode == now.mode else self._made(pair, now, "mode")

    def _link(self, pair: Pair, now: Seen) -> Found | None:
        if pair.lower is not None and pair.lower.kind == "link" and pair.lower.target == now.target:
            return None
        out = leads_out(pair.path, now.target or "", self._merged)
        return self._made(pair, now, "link", flags=(LEADS_OUT,) if out else ())

    def _file(self, pair: Pair, now: Seen) -> Found | None:
        if now.size > MOST_OF_ONE:
            return self._unread(pair, now)
        try:
            new = read(self.upper, pair.path, self.spending)
        except PermissionError:
            return self._unread(pair, now)
        old = self._host_content(pair)
        if old is None or old.sha256 != new.sha256:
            return self._written(pair, old, new)
        same = pair.lower is not None and pair.lower.mode == new.seen.mode
        return None if same else self._written(pair, old, new, "mode")

    def _unread(self, pair: Pair, now: Seen) -> Found:
        """It is told, and keeps nobody from looking at the rest."""
        one = self._made(pair, now, flags=(NOT_APPLICABLE,))
        return replace(one, change=replace(one.change, size=now.size))

    def _written(
        self, pair: Pair, old: Content | None, new: Content, operation: ChangeOperation | None = None
    ) -> Found:
        readable = pair.lower is None or pair.lower.kind != "file" or old is not None
        diff = self._diff(pair.path, old, new) if readable and operation is None else None
        one = self._made(pair, replace(new.seen, sha256=new.sha256, size=new.size), operation, new.copied_up)
        change = replace(
            one.change,
            sha256=new.sha256,
            size=new.size,
            diff=diff.text if diff is not None else None,
            added=diff.added if diff is not None else 0,
            removed=diff.removed if diff is not None else 0,
        )
        before = b"" if readable and old is None else old.data if old is not None else None
        flags = executable.flags(change, pair.path, before, new.data)
        return replace(one, change=replace(change, flags=flags), host=_hashed(pair.lower, old))

    def _made(
        self,
        pair: Pair,
        now: Seen,
        operation: ChangeOperation | None = None,
        copied_up: bool = False,
        flags: tuple[str, ...] = (),
    ) -> Found:
        was = pair.lower
        change = Change(
            path=self._path(pair),
            operation=operation or ("create" if was is None else "update"),
            kind=now.kind,
            old_kind=was.kind if was is not None else None,
            mode=now.mode if now.kind != "link" else None,
            old_mode=was.mode if was is not None and was.kind != "link" else None,
            target=now.target,
            conflict=self.began.conflict(pair.path, was, copied_up=copied_up, deleted=False),
        )
        more = executable.flags(change, pair.path, None, None) if now.kind == "link" else ()
        return self._with(replace(change, flags=more + flags), pair, now, was)

    def _with(self, change: Change, pair: Pair, new: Seen | None, host: Seen | None) -> Found:
        return Found(change, self.index, pair.path, new, host)

    def _host_content(self, pair: Pair) -> Content | None:
        """None where the host has no file, or one that cannot be read or is too large for it."""
        if pair.lower is None or pair.lower.kind != "file" or pair.lower.size > MOST_OF_ONE:
            return None
        try:
            return read(self.lower, pair.path, self.spending)
        except PermissionError:
            return None
        except OSError as error:
            if error.errno not in MOVED:
                raise
            return None

    def _merged(self, path: str) -> Seen | None:
        now = self.upper.look(path)
        if now is None and self.layer.kind == "overlay":
            with suppress(PermissionError):
                return self.lower.look(path)
        return None if now is None or now.whiteout else now

    def _diff(self, path: str, old: Content | None, new: Content | None) -> diffs.Diff | None:
        if any(side is not None and side.data is None for side in (old, new)):
            return None  # one is large
        return self.shown.diff(path, *(None if side is None else side.data for side in (old, new)))

    def _path(self, pair: Pair) -> str:
        return join(self.layer.target, pair.path)


def _hashed(host: Seen | None, content: Content | None) -> Seen | None:
    """What the host has, as it was when it was read."""
    return host if content is None else replace(content.seen, sha256=content.sha256, size=content.size)


def _with_renames(found: list[Found]) -> list[Found]:
    """A file that is gone and one that is new are the same file if what is in them is: each is paired once."""
    in_order = sorted(found, key=lambda one: one.relative)
    gone = [one for one in in_order if one.change.operation == "delete" and one.change.kind == "file"]
    came = [one for one in in_order if one.change.operation == "create" and one.change.kind == "file"]
    paired = _paired(came, gone, lambda one: (one.change.sha256, name(one.change.path)))
    moved = {old.relative for old in paired.values()}
    paired |= _paired(
        [one for one in came if one.relative not in paired],
        [one for one in gone if one.relative not in moved],
        lambda one: (one.change.sha256,),
    )
    moved = {old.relative for old in paired.values()}
    if len(moved) < len(gone):
        found = [_maybe_moved(one) for one in found]
    rest = [one for one in found if one.change.operation != "delete" or one.relative not in moved]
    return [_renamed(paired[one.relative], one) if one.relative in paired else one for one in rest]


def _paired(came: list[Found], gone: list[Found], alike: Callable[[Found], object]) -> dict[str, Found]:
    """For what is new, by its path, the first of those that are gone and alike. Nothing and the unknown are like nothing."""
    waiting = defaultdict[object, deque[Found]](deque)
    for one in gone:
        if one.change.size and one.change.sha256 is not None:
            waiting[alike(one)].append(one)
    return {one.relative: old.popleft() for one in came if (old := waiting.get(alike(one)))}


def _maybe_moved(one: Found) -> Found:
    """It may come from a file that is gone in the sandbox, so that nothing speaks for its being gone on the host."""
    seems = one.change.conflict == SEEMS_REMOVED
    return replace(one, change=replace(one.change, conflict=None)) if seems else one


def _renamed(old: Found, new: Found) -> Found:
    change = replace(
        new.change,
        operation="rename",
        old_path=old.change.path,
        old_kind=old.change.old_kind,
        old_mode=old.change.old_mode,
        diff=None,
        added=0,
        conflict=old.change.conflict or (new.change.conflict if new.host is not None else None),
    )
    flagged = executable.rule_for(old.relative) or executable.rule_for(new.relative) or executable.has_gained(change)
    change = replace(change, flags=(EXECUTABLE,) if flagged else ())
    return replace(new, change=change, old_relative=old.relative, old_host=old.host)
