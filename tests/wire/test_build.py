"""The supervisor as a program: how it is compiled and for what, what it says to a person, and how the wheel carries it."""

import os
import shutil
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import paddock
from paddock.errors import UnavailableError
from paddock.wire import binary
from paddock.wire.binary import filter_path, supervisor_path
from paddock.wire.fields import pack_text, pack_texts, pack_u16, pack_u32
from paddock.wire.frames import Reply, Request, encode
from wire.building import REPOSITORY, SUPERVISOR, Sanitized, build
from wire.talk import Talk

STRICT = (
    "-Werror", "-Wconversion", "-Wno-sign-conversion", "-Wformat=2", "-Wundef", "-Wpointer-arith", "-Wstrict-prototypes",
    "-Wmissing-prototypes", "-Wwrite-strings", "-Wcast-qual", "-Wvla", "-fsyntax-only",
)  # fmt: skip
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"


def _run(*words: str | Path, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warning_from(compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} here")
    done = _run(compiler, *build.FLAGS, *STRICT, *build.sources())
    assert (done.returncode, done.stderr) == (0, "")


def test_a_compiler_that_is_missing(tmp_path: Path) -> None:
    target = tmp_path / "paddock-init"
    script = SUPERVISOR / "build.py"
    for environment in ({"PATH": str(tmp_path)}, {"PATH": os.environ["PATH"], "CC": "/nonexistent"}):
        done = _run(sys.executable, script, target, env=environment)
        assert done.returncode == 1
        assert "there is no C compiler here" in done.stderr
        assert "apt-get install gcc libc6-dev" in done.stderr
        assert not target.exists()


@pytest.mark.parametrize("script", ["exit 1", 'exec cc "$@"'], ids=["that fails", "that works"])
def test_one_with_musl_is_tried_first(tmp_path: Path, script: str) -> None:
    fake = tmp_path / "bin" / build.MUSL
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\ntouch "{tmp_path}/tried"\n{script}\n')
    fake.chmod(0o755)
    path = {"PATH": f"{fake.parent}:{os.environ['PATH']}"}
    done = _run(sys.executable, SUPERVISOR / "build.py", tmp_path / "paddock-init", env=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "paddock-init").exists()
    (tmp_path / "tried").unlink()
    done = _run(sys.executable, SUPERVISOR / "build.py", tmp_path / "other", env={**path, "CC": "cc"})
    assert (done.returncode, (tmp_path / "tried").exists()) == (0, False)


def test_a_compiler_that_fails_leaves_nothing(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "CC": f"{sys.executable} -c 'import sys; sys.exit(\"no such luck\")'"}
    done = _run(sys.executable, SUPERVISOR / "build.py", tmp_path / "paddock-init", env=environment)
    assert done.returncode == 1
    assert "cannot be compiled:\nno such luck" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_carries_it(tmp_path: Path) -> None:
    """Built from a copy, since building writes beside the sources."""
    source = tmp_path / "source"
    shutil.copytree(REPOSITORY / "src", source / "src", ignore=shutil.ignore_patterns("bin", "__pycache__"))
    shutil.copytree(SUPERVISOR, source / "supervisor")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
    done = _run(*pip, "--wheel-dir", str(tmp_path), str(source))
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    machine = os.uname().machine
    assert wheel.name == f"paddock-{paddock.__version__}-py3-none-linux_{machine}.whl"
    with zipfile.ZipFile(wheel) as archive:
        entry = archive.getinfo(f"paddock/bin/paddock-init-{machine}")
        assert (entry.external_attr >> 16) & stat.S_IXUSR
        program = tmp_path / "paddock-init"
        program.write_bytes(archive.read(entry))
        carried = {name: archive.read(name) for name in archive.namelist() if name.endswith(".bpf")}
    for name in ("allow", "refuse", "commands"):
        assert carried[f"paddock/bin/seccomp-{name}-{machine}.bpf"] == Path(filter_path(name)).read_bytes()
    program.chmod(0o755)
    assert _run(program, "--version").stdout == f"paddock-init {paddock.__version__} protocol 1\n"
    assert program.stat().st_size < 2 << 20


def test_it_needs_no_library() -> None:
    program = Path(supervisor_path()).read_bytes()
    (start,), (size, count) = struct.unpack_from("<Q", program, 32), struct.unpack_from("<HH", program, 54)
    kinds = [struct.unpack_from("<I", program, start + size * number)[0] for number in range(count)]
    assert 1 in kinds  # what is loaded
    assert 3 not in kinds  # who would load libraries


@pytest.mark.parametrize(
    "words",
    [
        (), ("--channel",), ("--channel", "x"), ("--channel", ""), ("--channel", "-1"), ("--stdio", "--owner"),
        ("--stdio", "--pids", "9x"), ("--stdio", "--filter"), ("--stdio", "--cgroup", "3"), ("--cgroup", "3", "name"),
        ("--nonsense",), ("bridge",), ("--version", "--stdio"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage(sanitized: Sanitized, words: tuple[str, ...]) -> None:
    with sanitized.clean():
        done = _run(sanitized.program, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: paddock-")


def test_help(sanitized: Sanitized) -> None:
    done = _run(sanitized.program, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "there is nothing to type" in done.stdout


def test_another_supervisor_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = supervisor_path()
    monkeypatch.setenv("PADDOCK_SUPERVISOR", str(tmp_path / "mine"))
    assert supervisor_path() == str(tmp_path / "mine")
    monkeypatch.setenv("PADDOCK_SUPERVISOR", "relative")
    assert supervisor_path() == packaged
    monkeypatch.delenv("PADDOCK_SUPERVISOR")
    monkeypatch.setattr(binary, "_BUILT", tmp_path)
    with pytest.raises(UnavailableError, match="paddock-init-vax"):
        supervisor_path("vax")
    with pytest.raises(UnavailableError, match=r"seccomp-allow-vax\.bpf"):
        filter_path("allow", "vax")


def test_another_machine(tmp_path: Path) -> None:
    if shutil.which(CROSS) is None or shutil.which(EMULATOR) is None:
        pytest.skip(f"there is no {CROSS} or no {EMULATOR} here")
    program = build.build(tmp_path / "paddock-init-aarch64", release="1.2.3", command=[CROSS])
    assert _run(EMULATOR, program, "--version").stdout == "paddock-init 1.2.3 protocol 1\n"
    (tmp_path / "f").write_text("content")
    with Talk(program, before=[shutil.which(EMULATOR) or ""]) as talk:
        talk.send(encode(Request.ROOT, 2, pack_text(os.fsencode(tmp_path))))
        talk.send(encode(Request.STAT, 3, pack_u32(2) + pack_text(b"f")))
        talk.send(encode(Request.STAT, 4, pack_u32(2) + pack_text(b"../f")))
        talk.send(encode(Request.OPEN, 5, pack_u32(2) + pack_text(b"f")))
        talk.send(encode(Request.READ, 6, pack_u32(5) + bytes(8) + pack_u32(100)))
        frames = talk.finish()
        assert talk.status == 0
    types = [frame.type for frame in frames]
    assert types == [Reply.HELLO, Reply.OK, Reply.NODE, Reply.FAILED, Reply.OPENED, Reply.DATA]
    assert frames[-1].payload == b"content"


def test_a_command_by_hand(sanitized: Sanitized, tmp_path: Path) -> None:
    """All of a conversation, byte for byte, and nothing of the library."""
    head = b"".join((*map(pack_u16, (4, 0, 0)), *map(pack_u32, (1 << 20, 0, 2)), pack_text(b"")))
    words = pack_texts([b"/bin/sh", b"-c", b"echo out; echo err >&2; exit 3"]) + pack_texts([])
    with sanitized.clean(), Talk(sanitized.program) as talk:
        talk.send(encode(Request.ROOT, 2, pack_text(os.fsencode(tmp_path))))
        talk.send(encode(Request.SPAWN, 3, head + words))
        talk.wait_for(Reply.ENDED)
        frames = talk.finish()
        assert talk.status == 0
    output = {frame.payload[0]: frame.payload[1:] for frame in frames if frame.type == Reply.OUTPUT}
    assert output == {1: b"out\n", 2: b"err\n"}
    (ended,) = [frame for frame in frames if frame.type == Reply.ENDED]
    assert ended.payload[4:8] == pack_u32(3)
