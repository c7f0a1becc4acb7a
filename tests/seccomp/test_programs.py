"""The programs, for both kinds of machine: they decide as the tables say, whatever the arguments."""

import ctypes
import ctypes.util
import shutil
import subprocess
from pathlib import Path

import pytest
from filters import MACHINES, decisions, numbers, program, write
from hypothesis import given
from hypothesis import strategies as st
from syscalls import ALLOW, BASE, COMMANDS, ENOSYS, EPERM, KILL, POLICIES, SET_ID, TIOCSTI, Answer, AnyBit, Decision

from paddock.wire.binary import filter_path
from seccomp.interpreter import answer

X86, ARM, I386, ARM32 = MACHINES["x86_64"], MACHINES["aarch64"], 0x40000003, 0x40000028
PROGRAMS = {(name, machine): program(POLICIES[name], machine) for name in POLICIES for machine in MACHINES}
HIGH = 0xABCD_0000_0000


def ask(name: str, machine: str, call: str, *arguments: int) -> int:
    """What a filter answers to a call by its name."""
    return answer(PROGRAMS[name, machine], MACHINES[machine], numbers(machine)[call], arguments)


def judge(decision: Decision, arguments: tuple[int, ...]) -> Answer:
    """What the tables say, without a program."""
    if isinstance(decision, Answer):
        return decision
    value = arguments[decision.argument] & 0xFFFFFFFF
    if isinstance(decision, AnyBit):
        holds = value & decision.bits != 0
    else:
        holds = value & decision.mask in decision.values
    return judge(decision.then if holds else decision.otherwise, arguments)


def mentioned(decision: Decision) -> set[int]:
    """The values that it looks for."""
    if isinstance(decision, Answer):
        return set()
    values = {decision.bits} if isinstance(decision, AnyBit) else set(decision.values)
    return values | mentioned(decision.then) | mentioned(decision.otherwise)


INTERESTING = sorted(set().union(*(mentioned(d) for policy in POLICIES.values() for d in decisions(policy).values())))
arguments = st.one_of(
    st.sampled_from([value | high for value in INTERESTING for high in (0, HIGH)]),
    st.sampled_from([1 << bit for bit in range(64)]),
    st.integers(0, (1 << 64) - 1),
)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", POLICIES)
@given(values=st.tuples(*[arguments] * 6))
def test_every_call_as_the_tables_say(name: str, machine: str, values: tuple[int, ...]) -> None:
    policy, known = POLICIES[name], {number: call for call, number in numbers(machine).items()}
    table = decisions(policy)
    for number in range(600):
        expected = judge(table.get(known.get(number, ""), policy.otherwise), values)
        found = answer(PROGRAMS[name, machine], MACHINES[machine], number, values)
        assert found == expected.value, (known.get(number), expected.word)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_that_there_is_was_thought_about(machine: str) -> None:
    assert set(numbers(machine)) - set(decisions(BASE)) == set()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("machine", MACHINES)
def test_other_machines_end_the_process(name: str, machine: str) -> None:
    found = PROGRAMS[name, machine]
    for other in {X86, ARM, I386, ARM32, 0, 0xFFFFFFFF} - {MACHINES[machine]}:
        for number in (0, 1, 39, 172, 435, 9999):
            assert answer(found, other, number) == KILL.value


@pytest.mark.parametrize("name", POLICIES)
def test_x32(name: str) -> None:
    found = PROGRAMS[name, "x86_64"]
    for number in (0x40000000, 0x40000000 + 39, 0x40000000 + 520, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE):
        assert answer(found, X86, number) == KILL.value
    assert answer(found, X86, 0x3FFFFFFF) == POLICIES[name].otherwise.value
    assert answer(found, X86, 0xFFFFFFFF) == POLICIES[name].otherwise.value  # what tracers leave of a call


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
    assert answer(PROGRAMS["base", machine], MACHINES[machine], 9999) == ENOSYS.value


def test_what_is_loaded_for_every_command_is_small() -> None:
    for machine in MACHINES:
        assert len(PROGRAMS["commands", machine]) // 8 <= 64
    assert len(decisions(COMMANDS)) < 16


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", POLICIES)
def test_the_files_are_these_programs(name: str, machine: str) -> None:
    assert Path(filter_path(name, machine)).read_bytes() == PROGRAMS[name, machine]


def test_writing_leaves_nothing_else(tmp_path: Path) -> None:
    written = write(tmp_path / "new")
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    assert len(written) == len(PROGRAMS)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_library(machine: str) -> None:
    """libseccomp's, as far as it knows them; it is on most systems."""
    path = ctypes.util.find_library("seccomp")
    if path is None:
        pytest.skip("there is no libseccomp here")
    resolve = ctypes.CDLL(path).seccomp_syscall_resolve_name_arch
    known = {name: resolve(ctypes.c_uint32(MACHINES[machine]), name.encode()) for name in decisions(BASE)}
    there = {name: number for name, number in known.items() if number >= 0}
    ours = numbers(machine)
    assert there == {name: ours.get(name) for name in there}
    assert len(there) > 290


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
