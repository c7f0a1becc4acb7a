"""libseccomp, as much of it as is needed here: rules go in, and a program for the kernel comes out."""

import ctypes
import os
import sys
from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import NamedTuple

NAME = "libseccomp.so.2"
HINT = (
    "Paddock's seccomp filters are made with libseccomp, and it is not here. "
    "Install it (Debian: apt-get install libseccomp2; Fedora: dnf install libseccomp)."
)
UNKNOWN = -1
"""For a name; what is below it is for names of other machines."""

_BAD_MACHINE, _OPTIMIZE = 2, 8
_BINARY_SEARCH = 2
_MASKED_EQUAL = 7
_API = 3
"""The level that can end a whole process. Which level the kernel has that runs here does not matter."""


class Pattern(NamedTuple):
    """What `mask` leaves of an argument is `value`."""

    argument: int
    mask: int
    value: int


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


_PROTOTYPES: dict[str, tuple[type | None, list[type]]] = {
    "seccomp_api_set": (ctypes.c_int, [ctypes.c_uint]),
    "seccomp_init": (ctypes.c_void_p, [ctypes.c_uint32]),
    "seccomp_release": (None, [ctypes.c_void_p]),
    "seccomp_arch_native": (ctypes.c_uint32, []),
    "seccomp_arch_add": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32]),
    "seccomp_arch_remove": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint32]),
    "seccomp_attr_set": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]),
    "seccomp_syscall_resolve_name_arch": (ctypes.c_int, [ctypes.c_uint32, ctypes.c_char_p]),
    "seccomp_rule_add_exact_array": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Comparison)],
    ),
    "seccomp_export_bpf": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
}


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(NAME)
    except OSError as error:
        sys.exit(f"{HINT}\n({error})")
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    _check(library.seccomp_api_set(_API), "the level of the interface")
    return library


def _check(code: int, what: str) -> None:
    if code < 0:
        sys.exit(f"libseccomp refuses {what}: {os.strerror(-code)}. Paddock needs version 2.5 or newer.")


def native() -> int:
    """The machine that the library is for."""
    return int(_library().seccomp_arch_native())


def number(name: str, machine: int) -> int:
    """The number of a call on a machine. Without one it is negative: `UNKNOWN`, or less if other machines have it."""
    return int(_library().seccomp_syscall_resolve_name_arch(machine, name.encode()))


class Filter:
    """A filter for one machine; whatever comes from another is answered with `stranger`."""

    def __init__(self, machine: int, otherwise: int, stranger: int) -> None:
        self._filter = _library().seccomp_init(otherwise)
        if not self._filter:
            sys.exit("libseccomp cannot make a filter")
        if machine != native():
            _check(_library().seccomp_arch_remove(self._filter, native()), "to leave this machine out")
            _check(_library().seccomp_arch_add(self._filter, machine), f"machine {machine:#x}")
        self._set(_BAD_MACHINE, stranger)

    def __enter__(self) -> "Filter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _library().seccomp_release(self._filter)

    def search(self) -> None:
        """Look for a call by halves, and not from the first to the last."""
        self._set(_OPTIMIZE, _BINARY_SEARCH)

    def add(self, answer: int, call: int, patterns: Sequence[Pattern]) -> None:
        """Give this answer to a call if all patterns fit. The number is the one on the library's own machine."""
        array = (_Comparison * len(patterns))(
            *(_Comparison(each.argument, _MASKED_EQUAL, each.mask, each.value) for each in patterns)
        )
        code = _library().seccomp_rule_add_exact_array(self._filter, answer, call, len(patterns), array)
        _check(code, f"a rule for call {call}")

    def export(self) -> bytes:
        """The program."""
        fd = os.memfd_create("filter", os.MFD_CLOEXEC)
        with open(fd, "rb") as file:
            _check(_library().seccomp_export_bpf(self._filter, fd), "to write a filter")
            file.seek(0)
            return file.read()

    def _set(self, attribute: int, value: int) -> None:
        _check(_library().seccomp_attr_set(self._filter, attribute, value), f"attribute {attribute}")
