"""Bytes that no host would send: to the supervisor's parts in one process, and to one that runs. `make fuzz` goes further."""

import os
import random
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from paddock.wire.binary import supervisor_path
from paddock.wire.fields import pack_text, pack_texts, pack_u16, pack_u32, pack_u64
from paddock.wire.frames import Reply, Request, encode
from wire.building import SUPERVISOR, Sanitized, build
from wire.talk import Talk
from wire.vectors import GOOD

SOAK = bool(os.environ.get("PADDOCK_SOAK"))
ROUNDS = 300 if SOAK else 50
SEEDS = [v for v in GOOD if v.side == "requests" and v.type not in (Request.ROOT, Request.HELLO, Request.END)]

_spec = spec_from_file_location("supervisor_fuzz", SUPERVISOR / "tests" / "fuzz.py")
assert _spec is not None
assert _spec.loader is not None
fuzz = module_from_spec(_spec)
_spec.loader.exec_module(fuzz)


def test_changed_frames(tmp_path: Path) -> None:
    """The fuzzer as `make fuzz` runs it, but with a fixed seed and without clang."""
    flags = ("-Wall", "-Wextra", "-Werror", "-Wno-missing-braces")  # which gcc finds only where it sanitizes
    driver = [str(SUPERVISOR / "tests" / "fuzz_driver.c")]
    program = fuzz.compile_fuzzer(tmp_path, [*build.compiler(), *flags], "address,undefined", driver)
    seeds = fuzz.write_seeds(tmp_path / "seeds")
    count = "500000" if SOAK else "3000"
    done = subprocess.run([program, count, "1", *seeds], stderr=subprocess.PIPE, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def _noise(source: random.Random) -> bytes:
    """A few good frames of which some are changed."""
    data = b""
    for vector in source.choices(SEEDS, k=source.randrange(1, 20)):
        frame = bytearray(vector.data)
        for _ in range(source.choice((0, 0, 1, 3))):
            frame[source.randrange(len(frame))] = source.choice((0, 1, 8, 0x7F, 0x80, 0xFF, source.randrange(256)))
        if frame[4] in (Request.ROOT, Request.SPAWN):  # no path of this host, and no command that a chance made
            continue
        if frame[4] in (Request.LISTEN, Request.CONNECT) and frame != vector.data:  # nor a socket where it likes
            continue
        data += frame
    return data if source.randrange(4) else data + source.randbytes(200)


@pytest.mark.parametrize("sock", [False, True], ids=["stdio", "socket"])
def test_noise_for_one_that_runs(sanitized: Sanitized, tmp_path: Path, sock: bool) -> None:
    root = encode(Request.ROOT, 2, pack_text(os.fsencode(tmp_path)))
    command = b"".join(
        (
            *map(pack_u16, (1, 0, 0)),
            *map(pack_u32, (1 << 20, 1000, 2)),
            pack_text(b""),
            pack_texts([b"cat"]),
            pack_texts([b"PATH=/usr/bin:/bin"]),
        )
    )
    for seed in range(ROUNDS):
        source = random.Random(seed)
        with sanitized.clean(), Talk(sanitized.program, sock=sock, hello=seed % 4 != 0) as talk:
            if seed % 4:
                talk.send(root + encode(Request.SPAWN, 3, command))
            for _ in range(source.randrange(1, 4)):
                talk.send(_noise(source), [0] if sock and source.randrange(3) == 0 else ())
            frames = talk.finish()
            assert talk.status == 0, seed
            assert all(frame.type >= Reply.HELLO for frame in frames)
            assert _left_of(talk.process.pid) == []


def _left_of(session: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getsid(int(name)) == session:
                    found.append(int(name))
            except ProcessLookupError:
                continue
    return found


def test_many_large_answers_do_not_pile_up(tmp_path: Path) -> None:
    """Requests of some bytes whose answers are large: as many are taken as the host reads answers."""
    count, size = 200, 1 << 18
    (tmp_path / "f").write_bytes(bytes(size))
    reading = pack_u32(3) + pack_u64(0) + pack_u32(size)
    with Talk(Path(supervisor_path()), deaf=True) as talk:
        talk.send(encode(Request.ROOT, 2, pack_text(os.fsencode(tmp_path))))
        talk.send(encode(Request.OPEN, 3, pack_u32(2) + pack_text(b"f")))
        talk.wait_until_stuck()
        before = _peak(talk.process.pid)
        talk.send(b"".join(encode(Request.READ, 10 + number, reading) for number in range(count)))
        talk.wait_until_stuck()
        assert _peak(talk.process.pid) - before < 16 << 20
        talk.wait_for_bytes(count * size)
        frames = talk.finish()
        assert [frame.type for frame in frames].count(Reply.DATA) == count
        assert talk.status == 0


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_make_fuzz_says_what_is_missing(tmp_path: Path) -> None:
    environment = {"CLANG": str(tmp_path / "clang"), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, str(SUPERVISOR / "tests" / "fuzz.py")], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "needs clang" in done.stderr
