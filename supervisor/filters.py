"""Writes the seccomp filters: what `syscalls.py` says, made into programs by libseccomp, for every kind of machine.

A filter of that library has one answer for all that no rule is about. So one alone cannot refuse what is on no list, and also
allow all but some values of an argument. Two can: the kernel asks every filter of a process and takes the strictest answer.
`allow` is the list, and `refuse` has the values.
"""

import os
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import libseccomp
from checking import check
from libseccomp import Pattern
from syscalls import ALLOW, BASE, COMMANDS, KILL, Answer, AnyBit, Condition, OneOf, Policy

HERE = Path(__file__).resolve().parent

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Their names in the kernel's audit, which are the library's too."""


class Rule(NamedTuple):
    """An answer to a call whose arguments fit all patterns."""

    call: str
    answer: Answer
    patterns: tuple[Pattern, ...] = ()


class Filter(NamedTuple):
    """Rules, and the answer to everything else."""

    otherwise: Answer
    rules: list[Rule]


STACKS = {"base": (BASE, ("allow", "refuse")), "commands": (COMMANDS, ("commands",))}
"""Which filters hold a policy, in the order in which they are loaded."""


def write(directory: Path) -> list[Path]:
    """All filters, for all machines. What an older version left there goes."""
    directory.mkdir(parents=True, exist_ok=True)
    made = {path(directory, name, machine): code for machine in MACHINES for name, code in programs(machine).items()}
    for target, code in made.items():
        temporary = target.with_name(f"{target.name}.{os.getpid()}")
        temporary.write_bytes(code)
        os.replace(temporary, target)
    for old in set(directory.glob("seccomp-*.bpf")) - set(made):
        old.unlink()
    return list(made)


def path(directory: Path, name: str, machine: str) -> Path:
    """Where a filter is."""
    return directory / f"seccomp-{name}-{machine}.bpf"


@cache
def programs(machine: str) -> dict[str, bytes]:
    """The filters as the kernel takes them, by name. They have been tried, and answer as the tables say."""
    made = {name: _program(each, machine) for name, each in filters().items()}
    calls = {numbers(machine)[call]: call for call in _codes(machine)}
    for policy, names in STACKS.values():
        check(policy, calls, [made[name] for name in names], MACHINES[machine])
    return made


@cache
def numbers(machine: str) -> dict[str, int]:
    """The calls of the tables that this kind of machine has."""
    found = {call: _number(call, machine) for policy, _ in STACKS.values() for call in policy.decisions()}
    return {call: number for call, number in found.items() if number >= 0}


def filters() -> dict[str, Filter]:
    """What is on the list, some of it only perhaps; what is refused of it; and what commands are refused on top."""
    return {
        "allow": Filter(BASE.otherwise, list(_answers(BASE))),
        "refuse": Filter(ALLOW, list(_refusals(BASE))),
        "commands": Filter(COMMANDS.otherwise, [*_answers(COMMANDS), *_refusals(COMMANDS)]),
    }


def _answers(policy: Policy) -> Iterator[Rule]:
    for call, decision in policy.decisions().items():
        answer = decision if isinstance(decision, Answer) else ALLOW
        if answer != policy.otherwise:
            yield Rule(call, answer)


def _refusals(policy: Policy) -> Iterator[Rule]:
    for call, decision in policy.decisions().items():
        for refusal in [] if isinstance(decision, Answer) else decision:
            for patterns in product(*map(_patterns, refusal.conditions)):
                yield Rule(call, refusal.answer, patterns)


def _patterns(condition: Condition) -> list[Pattern]:
    """Where one of them fits, the condition holds."""
    if isinstance(condition, AnyBit):
        return [Pattern(condition.argument, bit, bit) for bit in _bits(condition.bits)]
    if isinstance(condition, OneOf):
        return [Pattern(condition.argument, condition.mask, value) for value in condition.values]
    return [Pattern(condition.argument, *each) for each in _others(condition.values, condition.mask)]


def _others(values: tuple[int, ...], mask: int) -> list[tuple[int, int]]:
    """Everything but these values: what is the same from the top as one of them down to a bit, and there like none."""
    found: dict[tuple[int, int], None] = {}
    for value in values:
        for bit in _bits(mask):
            above = mask & -bit
            other = (value ^ bit) & above
            if all(each & above != other for each in values):
                found[above, other] = None
    return list(found)


def _bits(mask: int) -> list[int]:
    return [1 << place for place in range(32) if mask >> place & 1]


def _program(wanted: Filter, machine: str) -> bytes:
    codes = _codes(machine)
    with libseccomp.Filter(MACHINES[machine], wanted.otherwise.value, KILL.value) as made:
        made.search()
        for rule in wanted.rules:
            if rule.call in codes:
                made.add(rule.answer.value, codes[rule.call], rule.patterns)
            elif rule.call in numbers(machine) and wanted.otherwise == ALLOW:
                sys.exit(f"{rule.call}: libseccomp cannot refuse it on {machine}, since it does not know it")
        return made.export()


@cache
def _codes(machine: str) -> dict[str, int]:
    """What the library takes for a call: its number, and for another machine than its own the number that the call has here.

    From one machine to another it goes by the name. What it does not know is missing there: answered as what is on no list.
    """
    own = libseccomp.native()
    if MACHINES[machine] == own:
        return numbers(machine)
    known = [call for call in numbers(machine) if libseccomp.number(call, MACHINES[machine]) >= 0]
    return {call: libseccomp.number(call, own) for call in known}


def _number(call: str, machine: str) -> int:
    number = libseccomp.number(call, MACHINES[machine])
    if number < 0 and call in newer():
        return newer()[call][machine]
    if number == libseccomp.UNKNOWN:
        sys.exit(f"{call}: neither libseccomp nor numbers.txt knows it")
    return number


@cache
def newer() -> dict[str, dict[str, int]]:
    """Calls that the library may be too old for, and their numbers; one that a machine does not have is negative."""
    lines = (HERE / "numbers.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {call: dict(zip(MACHINES, map(int, found), strict=True)) for call, *found in rows}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
