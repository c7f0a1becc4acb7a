"""The programs, for both kinds of machine: they decide as the tables say, whatever the arguments."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import filters
import libseccomp
import pytest
from checking import LAST, answer, check, mentioned
from filters import MACHINES, STACKS, newer, numbers, programs, write
from hypothesis import given, settings
from hypothesis import strategies as st
from syscalls import ALLOW, BASE, COMMANDS, ENOSYS, EPERM, KILL, SET_ID, TIOCSTI, Answer, judge

from paddock.wire.binary import filter_path
from wire.building import SUPERVISOR

X86, ARM, I386, ARM32 = MACHINES["x86_64"], MACHINES["aarch64"], 0x40000003, 0x40000028
HERE = os.uname().machine
HIGH = 0xABCD_0000_0000
LOADED = {
    (name, machine): [programs(machine)[each] for each in names]
    for name, (_, names) in STACKS.items()
    for machine in MACHINES
}


def reachable(machine: str) -> dict[str, int]:
    """The calls that the library can make a rule for: on another machine, those that it knows."""
    return {
        call: number
        for call, number in numbers(machine).items()
        if machine == HERE or libseccomp.number(call, MACHINES[machine]) >= 0
    }


def ask(name: str, machine: str, call: str, *arguments: int) -> int:
    """What the filters answer to a call by its name."""
    return answer(LOADED[name, machine], MACHINES[machine], numbers(machine)[call], arguments)


CONDITIONS = [
    condition
    for policy, _ in STACKS.values()
    for decision in policy.decisions().values()
    if not isinstance(decision, Answer)
    for refusal in decision
    for condition in refusal.conditions
]
INTERESTING = sorted({value for condition in CONDITIONS for value in mentioned(condition)})
arguments = st.one_of(
    st.sampled_from([value | high for value in INTERESTING for high in (0, HIGH)]),
    st.sampled_from([1 << bit for bit in range(64)]),
    st.integers(0, (1 << 64) - 1),
)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", STACKS)
@settings(deadline=None)
@given(values=st.tuples(*[arguments] * 6))
def test_every_call_as_the_tables_say(name: str, machine: str, values: tuple[int, ...]) -> None:
    known = {number: call for call, number in reachable(machine).items()}
    policy, _ = STACKS[name]
    table = policy.decisions()
    for number in range(LAST):
        expected = judge(table.get(known.get(number, ""), policy.otherwise), values)
        found = answer(LOADED[name, machine], MACHINES[machine], number, values)
        assert found == expected.value, (known.get(number), expected.word)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", STACKS)
@settings(deadline=None)
@given(values=st.tuples(*[st.sampled_from(INTERESTING)] * 6), above=st.integers(1, (1 << 32) - 1))
def test_nothing_is_won_by_bits_above(name: str, machine: str, values: tuple[int, ...], above: int) -> None:
    for call, decision in STACKS[name][0].decisions().items():
        if not isinstance(decision, Answer) and call in numbers(machine):
            disguised = [value | above << 32 for value in values]
            assert ask(name, machine, call, *disguised) == ask(name, machine, call, *values), call


@pytest.mark.parametrize("family", [0, *range(3, 10), 11, 12, 15, *range(17, 64), 255, 1 << 16, 1 << 31, 0xFFFFFFFF])
@pytest.mark.parametrize("above", [0, 1, 0x8000_0000, 0xFFFF_FFFF])
def test_families_of_sockets(family: int, above: int) -> None:
    for machine in MACHINES:
        assert ask("base", machine, "socket", family | above << 32, 1, 0) == 0x50000 | 97
        assert ask("base", machine, "socket", 1 | above << 32, 1, 0) == ALLOW.value


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_that_there_is_was_thought_about(machine: str) -> None:
    resolve = ctypes.CDLL(libseccomp.NAME).seccomp_syscall_resolve_num_arch
    resolve.restype, resolve.argtypes = ctypes.c_char_p, [ctypes.c_uint32, ctypes.c_int]
    found = {resolve(MACHINES[machine], number) for number in range(LAST)} - {None}
    assert len(found) > 290
    assert {name.decode() for name in found} <= set(BASE.decisions())
    assert set(newer()) <= set(BASE.decisions())


@pytest.mark.parametrize("machine", MACHINES)
def test_only_what_is_newer_than_the_library_is_out_of_reach(machine: str) -> None:
    assert set(numbers(machine)) - set(reachable(machine)) <= set(newer())
    for call in set(numbers(machine)) - set(reachable(machine)):
        assert ask("base", machine, call) == ENOSYS.value
    assert set(COMMANDS.decisions()) & set(numbers(machine)) <= set(reachable(machine))


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("machine", MACHINES)
def test_other_machines_end_the_process(name: str, machine: str) -> None:
    found = LOADED[name, machine]
    for other in {X86, ARM, I386, ARM32, 0, 0xFFFFFFFF} - {MACHINES[machine]}:
        for number in (0, 1, 39, 172, 435, 9999):
            assert answer(found, other, number) == KILL.value


@pytest.mark.parametrize("name", STACKS)
def test_x32(name: str) -> None:
    found, otherwise = LOADED[name, "x86_64"], STACKS[name][0].otherwise.value
    for number in (0x40000000, 0x40000000 + 39, 0x40000000 + 520, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE):
        assert answer(found, X86, number) == KILL.value
    assert answer(found, X86, 0x3FFFFFFF) == otherwise
    assert answer(found, X86, 0xFFFFFFFF) == otherwise  # what tracers leave of a call


@pytest.mark.parametrize("machine", MACHINES)
def test_a_few_by_hand(machine: str) -> None:
    """So that a mistake in the tables' own words is found as well."""
    assert ask("base", machine, "read") == ALLOW.value
    assert ask("base", machine, "mount") == EPERM.value
    assert ask("base", machine, "clone", 0x3D0F00) == ALLOW.value  # a thread
    assert ask("base", machine, "clone", 0x10000011) == EPERM.value
    assert ask("base", machine, "socket", 1, 0x80001) == ALLOW.value
    assert ask("base", machine, "socket", 40, 1) == 0x50000 | 97
    assert ask("base", machine, "ioctl", 0, 0x5413) == ALLOW.value
    assert ask("base", machine, "ioctl", 0, TIOCSTI | 1 << 32) == EPERM.value
    assert ask("base", machine, "clone3") == ALLOW.value
    assert ask("commands", machine, "clone3") == ENOSYS.value
    assert ask("commands", machine, "fchmodat", 0, 0, 0o755) == ALLOW.value
    assert ask("commands", machine, "fchmodat", 0, 0, 0o4755) == EPERM.value
    assert ask("commands", machine, "openat", 0, 0, 0o101, 0o2644) == EPERM.value
    assert ask("commands", machine, "openat", 0, 0, 0o1, SET_ID) == ALLOW.value  # creates nothing
    assert answer(LOADED["base", machine], MACHINES[machine], 9999) == ENOSYS.value


def test_what_is_loaded_for_every_command_is_small() -> None:
    for machine in MACHINES:
        assert len(programs(machine)["commands"]) // 8 <= 160
    assert len(COMMANDS.decisions()) < 16


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", programs(HERE))
def test_the_files_are_these_programs(name: str, machine: str) -> None:
    assert Path(filter_path(name, machine)).read_bytes() == programs(machine)[name]


def test_writing_leaves_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    directory.mkdir()
    (directory / "seccomp-older-vax.bpf").touch()
    written = write(directory)
    assert sorted(written) == sorted(directory.iterdir())
    assert len(written) == len(MACHINES) * len(programs(HERE))


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_library(machine: str) -> None:
    """As far as it knows them."""
    known = {call: libseccomp.number(call, MACHINES[machine]) for call in newer()}
    there = {call: number for call, number in known.items() if number >= 0}
    assert there == {call: newer()[call][machine] for call in there}
    assert set(there) != set()


def test_the_numbers_are_those_of_the_headers() -> None:
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no compiler here")
    text = "#include <sys/syscall.h>\n"
    done = subprocess.run([compiler, "-E", "-dM", "-"], input=text, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("#define __NR_")]
    found = {words[1].removeprefix("__NR_"): int(words[2]) for words in lines if words[2].isdigit()}
    ours = numbers("x86_64" if found["read"] == 0 else "aarch64")
    assert found == {name: ours.get(name) for name in found}


def test_a_filter_that_went_wrong_is_not_written() -> None:
    calls = {number: call for call, number in numbers(HERE).items()}
    allow, refuse = LOADED["base", HERE]
    check(BASE, calls, [allow, refuse], MACHINES[HERE])
    for wrong in ([allow], [refuse], [allow, *LOADED["commands", HERE]]):
        with pytest.raises(SystemExit, match="a wrong filter"):
            check(BASE, calls, wrong, MACHINES[HERE])


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(SystemExit, match="teleport: neither libseccomp nor"):
        filters._number("teleport", HERE)


def test_what_cannot_be_refused_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everything else is allowed, a rule that is left out would be a hole."""
    monkeypatch.setattr(filters, "_codes", lambda machine: {})
    with pytest.raises(SystemExit, match="libseccomp cannot refuse it"):
        filters._program(filters.filters()["commands"], HERE)


def test_a_library_that_is_missing() -> None:
    script = "import libseccomp; libseccomp.NAME = 'libnone.so.9'; libseccomp.native()"
    environment = {**os.environ, "PYTHONPATH": str(SUPERVISOR)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "apt-get install libseccomp2" in done.stderr


def test_what_the_library_refuses() -> None:
    with libseccomp.Filter(MACHINES[HERE], ALLOW.value, KILL.value) as made:
        with pytest.raises(SystemExit, match="libseccomp refuses a rule for call 0"):
            made.add(ALLOW.value, 0, ())  # the same as everything else
        made.add(EPERM.value, 0, ())
