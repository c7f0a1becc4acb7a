"""Doing the steps of a plan. What is as it was before is done; what is done already stays; anything else is left alone."""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from paddock.dirs.names import PREFIX
from paddock.errors import SandboxError
from paddock.paths import join
from paddock.review import overlay
from paddock.review.began import Applied, is_same
from paddock.review.bounds import Bounds, Spending
from paddock.review.content import read
from paddock.review.host import Host
from paddock.review.plan import Plan, Step
from paddock.review.tree import MOVED, Seen, Tree

CHANGED = "It was changed on the host meanwhile."
NOT_EMPTY = "Something else is in it by now."


@dataclass(frozen=True, slots=True)
class Left:
    """What could not be done at a path, and why. The path is the sandbox's."""

    path: str
    why: str


def carry_out(plan: Plan, contents: Path, hosts: Sequence[Host]) -> tuple[Left, ...]:
    """Do every step, or find that it is done. What cannot be done does not keep the others from it."""
    left: dict[tuple[int, str], str] = {}
    done: dict[tuple[int, str], Seen | None] = {}
    small = plan.is_small
    _separate(plan)
    for number, step in enumerate(plan.steps):
        place, host = (step.layer, step.relative), hosts[step.layer]
        try:
            why = _DOERS[step.act](_Doing(step, host, contents, temporary_name(plan, number), small))
            if why is None and _is_remembered(step):
                done[place] = _with_hash(host.look(step.relative), step)
        except OSError as error:
            why = CHANGED if error.errno in (*MOVED, errno.EEXIST) else f"{error.strerror}."
        if why is not None:
            left.setdefault(place, why)
    for place in left:
        done.pop(place, None)
    _settle(done, plan, hosts)
    return tuple(Left(join(plan.roots[layer].target, path), why) for (layer, path), why in left.items())


def temporary_name(plan: Plan, number: int) -> bytes:
    """Where the content of a step is before it is in its place: the journal knows it, so nothing is ever left there."""
    return PREFIX + f"{plan.id}-{number}".encode()


def is_still(host: Host, path: str, was: Seen | None, spending: Spending | None = None) -> bool:
    """Whether the host has at a path what it had; by what is in it, if it was written anew."""
    now = host.look(path)
    if is_same(was, now):
        return True
    if was is None or now is None or was.kind != "file" or was.sha256 is None:
        return False
    return (now.kind, now.mode, now.size) == ("file", was.mode, was.size) and _hash(host, path, spending) == was.sha256


def is_there(host: Host, path: str, new: Seen | None, spending: Spending | None = None) -> bool:
    """Whether the host has at a path what it is to have."""
    now = host.look(path)
    if now is None or new is None or now.kind != new.kind:
        return now is new
    if now.kind == "link":
        return now.target == new.target
    if now.mode != new.mode:
        return False
    return now.kind == "directory" or (now.size == new.size and _hash(host, path, spending) == new.sha256)


@dataclass(frozen=True, slots=True)
class _Doing:
    step: Step
    host: Host
    contents: Path
    temporary: bytes
    sync: bool

    def has_become(self) -> bool:
        """Whether something of the plan's own is in the place already."""
        now, new = self.host.look(self.step.relative), self.step.new
        return now is None or (new is not None and now.kind == new.kind)


def _remove(doing: _Doing) -> str | None:
    step = doing.step
    if doing.has_become():
        return None
    if not is_still(doing.host, step.relative, step.old):
        return CHANGED
    doing.host.remove(step.relative)
    return None


def _rmdir(doing: _Doing) -> str | None:
    if doing.has_become():
        return None
    try:
        doing.host.remove(doing.step.relative, directory=True)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return NOT_EMPTY
    return None


def _mkdir(doing: _Doing) -> str | None:
    now = doing.host.look(doing.step.relative)
    if now is None:
        doing.host.make_directory(doing.step.relative)
        return None
    return None if now.kind == "directory" else CHANGED


def _put(doing: _Doing) -> str | None:
    step, host = doing.step, doing.host
    host.drop(step.relative, doing.temporary)
    if is_there(host, step.relative, step.new):
        return None
    if not is_still(host, step.relative, step.old):
        return CHANGED
    new = step.new
    if new is not None and new.kind == "link":
        host.put_link(step.relative, doing.temporary, new.target or "", new=step.old is None)
    elif new is not None:
        fd = os.open(doing.contents / (step.content or ""), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            host.put_file(step.relative, doing.temporary, fd, new, new=step.old is None, sync=doing.sync)
        finally:
            os.close(fd)
    return None


def _allow(doing: _Doing) -> str | None:
    """A directory that is still to be made needs no leave."""
    now = doing.host.look(doing.step.relative)
    if now is not None and now.kind == "directory" and doing.step.new is not None:
        doing.host.set_mode(doing.step.relative, now.mode | doing.step.new.mode)
    return None


def _mode(doing: _Doing) -> str | None:
    step = doing.step
    now = doing.host.look(step.relative)
    if step.new is None or now is None or now.kind != step.new.kind:
        return CHANGED
    if now.mode == step.new.mode:
        return None
    if not is_still(doing.host, step.relative, step.old):
        return CHANGED
    doing.host.set_mode(step.relative, step.new.mode)
    return None


_DOERS: dict[str, Callable[[_Doing], str | None]] = {
    "allow": _allow,
    "remove": _remove,
    "rmdir": _rmdir,
    "mkdir": _mkdir,
    "write": _put,
    "link": _put,
    "mode": _mode,
}


def _separate(plan: Plan) -> None:
    for layer, root in enumerate(plan.roots):
        made = [step.relative for step in plan.steps if step.layer == layer and step.act == "mkdir"]
        if root.kind == "overlay" and made:
            with suppress(OSError), Tree.at(root.upper, ours=True) as upper:
                for path in made:
                    overlay.separate(upper, path)


def _settle(done: Mapping[tuple[int, str], Seen | None], plan: Plan, hosts: Sequence[Host]) -> None:
    """What the host has now is what the sandbox's next changes are compared with."""
    small = plan.is_small
    for layer, root in enumerate(plan.roots):
        mine = {path: now for (index, path), now in done.items() if index == layer}
        directories = {}
        made = {path for path, now in mine.items() if now is not None and now.kind == "directory"}
        for directory in sorted(made | {path.rpartition("/")[0] for path in mine}):
            with suppress(OSError):
                now = hosts[layer].look(directory)
                directories[directory] = now.ctime_ns if now is not None else 0
                if small:
                    hosts[layer].sync(directory)
        if not small:
            hosts[layer].sync_all()
        if mine and os.path.isdir(root.upper):
            with suppress(OSError):  # a conflict with ourselves, later, is better than half of an apply now
                Applied(root.upper).add(mine, directories)


def _is_remembered(step: Step) -> bool:
    """A directory that was there before is not one that the sandbox made."""
    return step.act not in ("allow", "mode") or (step.new is not None and step.new.kind == "file")


def _with_hash(now: Seen | None, step: Step) -> Seen | None:
    known = now is not None and step.new is not None and step.new.kind == now.kind == "file"
    return replace(now, sha256=step.new.sha256) if known and now and step.new else now


def _hash(host: Host, path: str, spending: Spending | None) -> str | None:
    try:
        return read(host, path, spending or Bounds()).sha256
    except SandboxError:
        raise
    except OSError:
        return None
