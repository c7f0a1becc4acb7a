"""What filters answer, decided here: so programs can be tried when they are made, those for other machines too."""

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product

from syscalls import KILL, Answer, AnyBit, Condition, Decision, Policy, judge

LAST = 600
"""Calls are tried up to this number; the last one there is has less."""
_STRANGERS = (0, 3, 1 << 31, 0xFFFFFFFF)
_HIGH = 0xABCD_0000_0000
_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06
_IS_EQUAL, _IS_MORE, _IS_AT_LEAST, _HAS_ANY_BIT = 0x15, 0x25, 0x35, 0x45


def check(policy: Policy, calls: Mapping[int, str], programs: Sequence[bytes], machine: int) -> None:
    """Try every call. The library has ways to lose a condition without a word, and other versions have others."""
    table = policy.decisions()
    for number in range(LAST):
        decision = table.get(calls.get(number, ""), policy.otherwise)
        for arguments in _trials(decision):
            found, expected = answer(programs, machine, number, arguments), judge(decision, arguments)
            if found != expected.value:
                sys.exit(
                    f"libseccomp made a wrong filter: call {number} {arguments} is {found:#x}, not {expected.word}"
                )
    if answer(programs, ~machine & 0xFFFFFFFF, 0) != KILL.value:
        sys.exit("libseccomp made a wrong filter: calls of another machine are let through")


def answer(programs: Sequence[bytes], machine: int, number: int, arguments: Sequence[int] = ()) -> int:
    """The value that a call gets from all of them, the first of which was loaded first: the strictest, then the newest."""
    call = struct.pack("<IIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    return min((_run(program, call) for program in reversed(programs)), key=_strictness)


def _strictness(value: int) -> int:
    """By the action, which is the upper half; to end the process is negative."""
    action = value & 0xFFFF0000
    return action - (1 << 32) if action >> 31 else action


def _run(program: bytes, call: bytes) -> int:
    steps = _steps(program)
    at, held = 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == _RETURN:
            return value
        if code == _LOAD:
            (held,) = struct.unpack_from("<I", call, value)
        elif code == _AND:
            held &= value
        elif code == _JUMP:
            at += value
        else:
            at += then if _holds(code, held, value) else otherwise


@cache
def _steps(program: bytes) -> list[tuple[int, int, int, int]]:
    return [(code, then, otherwise, value) for code, then, otherwise, value in struct.iter_unpack("<HBBI", program)]


def _holds(code: int, held: int, value: int) -> bool:
    if code == _IS_EQUAL:
        return held == value
    if code == _IS_MORE:
        return held > value
    if code == _IS_AT_LEAST:
        return held >= value
    if code == _HAS_ANY_BIT:
        return held & value != 0
    sys.exit(f"an instruction that no filter has: {code:#x}")


def _trials(decision: Decision) -> Iterator[tuple[int, ...]]:
    """Arguments that matter to it, in all combinations."""
    values = [{0} for _ in range(6)]
    for refusal in [] if isinstance(decision, Answer) else decision:
        for condition in refusal.conditions:
            values[condition.argument].update(_STRANGERS, (each | _HIGH for each in mentioned(condition)))
    return product(*map(sorted, values))


def mentioned(condition: Condition) -> tuple[int, ...]:
    """The values that it looks for."""
    return (condition.bits,) if isinstance(condition, AnyBit) else condition.values
