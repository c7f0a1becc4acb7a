"""What a look found: each change, with what somebody who applies it has to know."""

import json
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256

from paddock.review.tree import Seen
from paddock.types.record import Record
from paddock.types.review import NOT_APPLICABLE, Change, Layer


@dataclass(frozen=True, slots=True)
class Found(Record):
    """A change, and both sides of it as they were at the look."""

    change: Change
    layer: int
    """Which of the layers it is in."""
    relative: str
    """Its path below the mount."""
    new: Seen | None = None
    """In the sandbox, with the hash of what was shown; None where it is gone."""
    host: Seen | None = None
    old_relative: str | None = None
    """Where a renamed file was."""
    old_host: Seen | None = None
    """What the host has there."""

    @property
    def is_applicable(self) -> bool:
        """Whether it is something that can be put on the host."""
        return NOT_APPLICABLE not in self.change.flags


@dataclass(frozen=True, slots=True)
class Findings(Record):
    """All of one look, sorted by path."""

    layers: tuple[Layer, ...]
    found: tuple[Found, ...]

    def without(self, paths: Container[str]) -> "Findings":
        """What is left when these are applied: nothing, if nothing of it can be."""
        rest = tuple(one for one in self.found if one.change.path not in paths)
        return replace(self, found=rest if any(one.is_applicable for one in rest) else ())


def digest(layers: tuple[Layer, ...], found: Iterable[Found]) -> str:
    """The hash of all that would be written, and where; and of what a person was told that it overwrites."""
    lines = [_line(layers[one.layer], one) for one in found if one.is_applicable]
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _line(layer: Layer, one: Found) -> str:
    change = one.change
    fields = (
        layer.lower,
        one.relative,
        change.operation,
        change.kind,
        change.sha256,
        change.mode,
        change.target,
        one.old_relative,
        change.conflict is not None,
    )
    return json.dumps(fields)
