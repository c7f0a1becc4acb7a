"""What has to be done to the host, step by step; each can be done again after it was done, and after it was half done."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from paddock.review.durable import one_by_one
from paddock.review.findings import Found
from paddock.review.host import Host
from paddock.review.tree import Seen
from paddock.types.record import Record
from paddock.types.review import Layer

Act = Literal["allow", "remove", "rmdir", "mkdir", "write", "link", "mode"]
_ORDER: tuple[tuple[Act, ...], ...] = (("allow",), ("remove", "rmdir"), ("mkdir",), ("write", "link"), ("mode",))
_DEEPEST_FIRST = (1, 4)


@dataclass(frozen=True, slots=True)
class Step(Record):
    """One thing to be done at one path of one host directory."""

    act: Act
    layer: int
    relative: str
    old: Seen | None = None
    """What is there before."""
    new: Seen | None = None
    """What is there when all steps are done."""
    content: str | None = None
    """Of a file: the name of its content in the journal."""


@dataclass(frozen=True, slots=True)
class Root(Record):
    """A host directory, with what Paddock keeps about it."""

    lower: str
    upper: str
    target: str
    kind: Literal["overlay", "copy"]

    @classmethod
    def of(cls, layer: Layer) -> "Root":
        """Of a layer, what is to be known when the sandbox is gone."""
        return cls(layer.lower, layer.upper, layer.target, layer.kind)


@dataclass(frozen=True, slots=True)
class Plan(Record):
    """All steps, in their order."""

    id: str
    roots: tuple[Root, ...]
    steps: tuple[Step, ...]
    version: int = 1

    @property
    def is_small(self) -> bool:
        """Whether its files are few enough to wait until each is on the disk."""
        return one_by_one(sum(1 for step in self.steps if step.act == "write"))


def steps(found: Sequence[Found], hosts: Sequence[Host]) -> tuple[Step, ...]:
    """In an order that works: room is made, directories come before what is in them, and their modes last."""
    numbered = [step for one in found for step in _for_one(one)]
    numbered = [
        replace(step, content=str(number)) if step.act == "write" else step for number, step in enumerate(numbered)
    ]
    every = numbered + list(_allowing(numbered, hosts))
    return tuple(step for phase in range(len(_ORDER)) for step in _in_phase(every, phase))


def _in_phase(every: list[Step], phase: int) -> list[Step]:
    mine = [step for step in every if step.act in _ORDER[phase]]
    return sorted(mine, key=lambda step: (step.layer, step.relative.split("/")), reverse=phase in _DEEPEST_FIRST)


def _for_one(one: Found) -> Iterator[Step]:
    if one.old_relative is not None and one.old_host is not None:
        yield Step("remove", one.layer, one.old_relative, one.old_host)
    host = one.host
    if host is not None and _is_in_the_way(host, one.new):
        yield Step("rmdir" if host.kind == "directory" else "remove", one.layer, one.relative, host, one.new)
        host = None
    if one.new is None:
        return
    if one.change.operation == "mode":
        yield Step("mode", one.layer, one.relative, host, one.new)
    elif one.new.kind == "directory":
        yield Step("mkdir", one.layer, one.relative, host, one.new)
        yield Step("mode", one.layer, one.relative, replace(one.new), one.new)
    elif one.new.kind == "file":
        yield Step("write", one.layer, one.relative, host, one.new)
    elif one.new.kind == "link":
        yield Step("link", one.layer, one.relative, host, one.new)


def _is_in_the_way(host: Seen, new: Seen | None) -> bool:
    """Whether it has to go first: a file takes the place of a file at once, and of nothing else."""
    return new is None or (host.kind == "directory") != (new.kind == "directory")


def _allowing(every: list[Step], hosts: Sequence[Host]) -> Iterator[Step]:
    """Directories that their owner may not use are opened for the while: a crash finds the step that closes them."""
    ends = {(step.layer, step.relative): step for step in every if step.act in ("rmdir", "mode")}
    for layer, parent in sorted({(step.layer, step.relative.rpartition("/")[0]) for step in every}):
        now = hosts[layer].look(parent)
        if hosts[layer].is_root or now is None or now.kind != "directory" or now.mode & 0o300 == 0o300:
            continue
        yield Step("allow", layer, parent, now, replace(now, mode=now.mode | 0o300))
        if (layer, parent) not in ends:
            yield Step("mode", layer, parent, now, now)
    for (layer, path), step in ends.items():
        new = step.new
        if step.act == "mode" and new is not None and new.kind == "directory" and new.mode & 0o700 != 0o700:
            yield Step("allow", layer, path, step.old, replace(new, mode=new.mode | 0o700))
