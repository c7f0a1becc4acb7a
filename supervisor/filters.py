"""Writes the seccomp filters: what `syscalls.py` says, as programs for the kernel, for every kind of machine.

The programs are made here and not by libseccomp, since it has no way to say "this value is refused, and every other
allowed": rules that come near to it are taken without an error and lose their conditions. A name that the installed
library does not know yet would be missing, too. Here the result depends on nothing but these files.
"""

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from syscalls import KILL, POLICIES, Answer, AnyBit, Decision, Policy

HERE = Path(__file__).resolve().parent

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Their names in the kernel's audit: what a filter is told of a call first."""
X32 = 0x40000000
"""Calls of x86_64 with this bit are from programs with 32-bit pointers, and have numbers of their own."""
NO_CALL = 0xFFFFFFFF

LOAD, AND, IS_EQUAL, IS_AT_LEAST, HAS_ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16
"""Where these are in what a filter is given."""
FARTHEST = 255

Label = Decision | tuple[str, int]
"""Places in a program: where a decision is made, or a part of the search for it."""


class Step(NamedTuple):
    """An instruction. Without labels the next one follows."""

    code: int
    value: int
    then: Label | None = None
    otherwise: Label | None = None


class Block(NamedTuple):
    """Instructions that are entered at the first."""

    label: Label
    steps: list[Step]


class Span(NamedTuple):
    """Calls from this number on, up to the next span."""

    first: int
    decision: Decision


def write(directory: Path) -> list[Path]:
    """All filters, for all machines."""
    directory.mkdir(parents=True, exist_ok=True)
    return [_write(path(directory, name, machine), name, machine) for machine in MACHINES for name in POLICIES]


def path(directory: Path, name: str, machine: str) -> Path:
    """Where a filter is."""
    return directory / f"seccomp-{name}-{machine}.bpf"


def _write(target: Path, name: str, machine: str) -> Path:
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    temporary.write_bytes(program(POLICIES[name], machine))
    os.replace(temporary, target)
    return target


def program(policy: Policy, machine: str) -> bytes:
    """The filter of a policy, as the kernel takes it."""
    start, search = _search(_spans(policy, machine))
    ends = [_block(decision) for decision in _ordered(policy)]
    return _assemble([*_check_machine(policy, machine, start), *search, *ends])


@cache
def numbers(machine: str) -> dict[str, int]:
    """The calls that this kind of machine has."""
    column = 1 + list(MACHINES).index(machine)
    lines = (HERE / "numbers.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def decisions(policy: Policy) -> dict[str, Decision]:
    """By the name of each call; none may be there twice, or be unknown."""
    found: dict[str, Decision] = {}
    for group in policy.groups:
        for name, decision in group.decisions().items():
            if name in found or not any(name in numbers(machine) for machine in MACHINES):
                sys.exit(f"{name}: it is in two groups, or not in numbers.txt")
            found[name] = decision
    return found


def _spans(policy: Policy, machine: str) -> list[Span]:
    """Numbers with the same decision side by side are one."""
    known = numbers(machine)
    decided = {known[name]: decision for name, decision in decisions(policy).items() if name in known}
    spans: list[Span] = []
    for number in range(max(decided) + 2):
        decision = decided.get(number, policy.otherwise)
        if not spans or spans[-1].decision != decision:
            spans.append(Span(number, decision))
    return spans


def _check_machine(policy: Policy, machine: str, start: Label) -> Iterator[Block]:
    """First of all: a number means nothing as long as it is not known whose it is."""
    check = [Step(LOAD, MACHINE), Step(IS_EQUAL, MACHINES[machine], None, KILL), Step(LOAD, NUMBER)]
    if machine != "x86_64":
        yield Block(("check", 0), [*check, Step(IS_AT_LEAST, 0, start, start)])
        return
    yield Block(("check", 0), [*check, Step(IS_AT_LEAST, X32, ("x32", 0), start)])
    yield Block(("x32", 0), [Step(IS_EQUAL, NO_CALL, policy.otherwise, KILL)])


def _search(spans: Sequence[Span]) -> tuple[Label, list[Block]]:
    """Halve until one is left: where to begin, and the blocks."""
    if len(spans) == 1:
        return spans[0].decision, []
    middle = len(spans) // 2
    below, lower = _search(spans[:middle])
    above, upper = _search(spans[middle:])
    label = ("search", spans[middle].first)
    return label, [Block(label, [Step(IS_AT_LEAST, spans[middle].first, above, below)]), *lower, *upper]


def _ordered(policy: Policy) -> list[Decision]:
    """Every decision once, each before those it leads to: a filter cannot jump back."""
    found: set[Decision] = {KILL, policy.otherwise}
    for decision in decisions(policy).values():
        found.update(_parts(decision))
    return sorted(found, key=lambda decision: (-_height(decision), repr(decision)))


def _parts(decision: Decision) -> Iterator[Decision]:
    yield decision
    if not isinstance(decision, Answer):
        yield from _parts(decision.then)
        yield from _parts(decision.otherwise)


def _height(decision: Decision) -> int:
    return 0 if isinstance(decision, Answer) else 1 + max(_height(decision.then), _height(decision.otherwise))


def _block(decision: Decision) -> Block:
    if isinstance(decision, Answer):
        return Block(decision, [Step(RETURN, decision.value)])
    steps = [Step(LOAD, ARGUMENTS + 8 * decision.argument)]  # the low half: both kinds of machine have it first
    if isinstance(decision, AnyBit):
        return Block(decision, [*steps, Step(HAS_ANY_BIT, decision.bits, decision.then, decision.otherwise)])
    if decision.mask != 0xFFFFFFFF:
        steps.append(Step(AND, decision.mask))
    *others, last = decision.values
    steps += [Step(IS_EQUAL, value, decision.then) for value in others]
    return Block(decision, [*steps, Step(IS_EQUAL, last, decision.then, decision.otherwise)])


def _assemble(blocks: Sequence[Block]) -> bytes:
    places: dict[Label, int] = {}
    steps: list[Step] = []
    for block in blocks:
        places[block.label] = len(steps)
        steps += block.steps
    return b"".join(_encode(step, here, places) for here, step in enumerate(steps))


def _encode(step: Step, here: int, places: dict[Label, int]) -> bytes:
    then, otherwise = (0 if label is None else places[label] - here - 1 for label in (step.then, step.otherwise))
    if not (0 <= then <= FARTHEST and 0 <= otherwise <= FARTHEST):
        sys.exit("a filter has grown too long for its jumps")
    return struct.pack("<HBBI", step.code, then, otherwise, step.value)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
