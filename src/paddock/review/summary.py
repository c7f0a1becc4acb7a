"""Changes as text for people: lines of pieces with a style, which whoever shows them turns into colours.

Every character that could act on a terminal or reorder a line is written out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from paddock.errors import visible
from paddock.paths import parent
from paddock.review import executable
from paddock.types.review import EXECUTABLE, Change

Style = Literal["plain", "heading", "added", "removed", "changed", "faint", "warning", "place"]
_SIGNS: dict[str, tuple[str, Style]] = {
    "create": ("+", "added"),
    "update": ("~", "changed"),
    "delete": ("-", "removed"),
    "rename": (">", "changed"),
    "mode": ("m", "changed"),
    "link": ("@", "changed"),
}
_DONE = {
    "create": "created",
    "update": "changed",
    "delete": "deleted",
    "rename": "renamed",
    "mode": "with another mode",
    "link": "linked",
}
_HEAD = 2
"""Lines of a diff that name the files."""
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line."""

    text: str
    style: Style = "plain"


Line = tuple[Span, ...]


def headline(changes: Sequence[Change]) -> str:
    """All of it in one line, for a question."""
    if not changes:
        return "nothing changed"
    counted = Counter[str](change.operation for change in told(changes))
    parts = [f"{counted[operation]} {done}" for operation, done in _DONE.items() if counted[operation]]
    flagged = sum(1 for change in changes if change.flags)
    conflicts = sum(1 for change in changes if change.conflict is not None)
    parts += [f"{flagged} to look at twice"] if flagged else []
    parts += [f"{conflicts} in conflict with the host"] if conflicts else []
    return ", ".join(parts)


def lines(changes: Sequence[Change]) -> Iterator[Line]:
    """A line for each change. A directory is not shown where something that is shown lies in it."""
    for change in told(changes):
        yield tuple(_line(change))
        yield from ((Span("      "), Span(flag, "warning")) for flag in _flags(change))
        if change.conflict is not None:
            yield (Span("      "), Span(visible(change.conflict), "warning"))
    yield (Span(headline(changes), "heading"),)


def diff(change: Change) -> Iterator[Line]:
    """One change in full: what it is, and its lines if it has any."""
    yield tuple(_line(change))
    yield from ((Span(flag, "warning"),) for flag in _flags(change))
    if change.conflict is not None:
        yield (Span(visible(change.conflict), "warning"),)
    if change.diff is None:
        yield from _without_lines(change)
        return
    yield from diff_lines(change.diff)


def diff_lines(text: str) -> Iterator[Line]:
    """The lines of a unified diff."""
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else ()):
        yield (Span(_shown(line), "heading" if number < _HEAD else _style(line)),)


def plain(shown: Iterable[Line]) -> str:
    """The same without colours."""
    return "".join("".join(span.text for span in line) + "\n" for line in shown)


def size(count: int) -> str:
    """A number of bytes as people say it."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    if unit:
        return f"{amount:.1f} {_UNITS[unit]}"
    return "1 byte" if count == 1 else f"{count} bytes"


def told(changes: Sequence[Change]) -> Iterator[Change]:
    """Without the directories whose change is told by what is in them."""
    above = {parent(change.path) for change in changes}  # of a directory like that, everything in between is a change
    for change in changes:
        folded = change.kind == "directory" and change.operation in ("create", "delete") and change.path in above
        if not folded or change.flags or change.conflict is not None:
            yield change


def _flags(change: Change) -> Iterator[str]:
    for flag in change.flags:
        why = executable.reason(change) if flag == EXECUTABLE else None
        yield visible(flag if why is None else f"{flag}: {why}")


def _line(change: Change) -> Iterator[Span]:
    sign, style = _SIGNS[change.operation]
    yield Span(f"  {sign} ", style)
    if change.old_path is not None:
        yield Span(f"{visible(change.old_path)} -> ", "faint")
    yield Span(visible(change.path) + ("/" if change.kind == "directory" else ""), "place")
    if change.kind == "link" and change.target is not None:
        yield Span(f" -> {visible(change.target)}", "faint")
    if change.old_kind not in (None, change.kind):
        yield Span(f"  was a {change.old_kind}", "warning")
    yield from _details(change)


def _details(change: Change) -> Iterator[Span]:
    if change.added:
        yield Span(f"  +{change.added}", "added")
    if change.removed:
        yield Span(f"  -{change.removed}", "removed")
    if change.kind == "file" and change.diff is None and change.operation not in ("mode", "rename"):
        yield Span(f"  {size(change.size)}", "faint")
    if None not in (change.mode, change.old_mode) and change.mode != change.old_mode:
        yield Span(f"  mode {change.old_mode:03o} -> {change.mode:03o}", "changed")


def _without_lines(change: Change) -> Iterator[Line]:
    if change.kind != "file":
        return
    if change.operation in ("create", "update", "delete"):
        yield (Span(f"{size(change.size)}, not shown as text", "faint"),)
    if change.sha256 is not None:
        yield (Span(f"sha256 {change.sha256}", "faint"),)


def _shown(line: str) -> str:
    """A line of text, in which a tab is harmless."""
    return "\t".join(visible(part) for part in line.split("\t"))


def _style(line: str) -> Style:
    if line.startswith("@@"):
        return "faint"
    return "added" if line.startswith("+") else "removed" if line.startswith("-") else "plain"
