"""What a filter answers, decided here: so those for other machines can be asked too."""

import struct
from collections.abc import Sequence

_LOAD, _AND, _IS_EQUAL, _IS_AT_LEAST, _HAS_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06


def answer(program: bytes, machine: int, number: int, arguments: Sequence[int] = ()) -> int:
    """The value that a call gets: 32 bits of a number, and up to six arguments of 64 bits."""
    call = struct.pack("<IIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("<HBBI", program))
    at, held = 0, 0
    while True:
        code, then, otherwise, value = steps[at]
        at += 1
        if code == _RETURN:
            return int(value)
        if code == _LOAD:
            (held,) = struct.unpack_from("<I", call, value)
        elif code == _AND:
            held &= value
        else:
            at += then if _holds(code, held, value) else otherwise


def _holds(code: int, held: int, value: int) -> bool:
    if code == _IS_EQUAL:
        return held == value
    if code == _IS_AT_LEAST:
        return held >= value
    assert code == _HAS_ANY_BIT, hex(code)
    return held & value != 0
