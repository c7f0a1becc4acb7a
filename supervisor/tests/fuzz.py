"""Compiles the fuzzer and writes the inputs that it begins with; as a program, runs it with libFuzzer (`make fuzz`).

A crash is written to the directory that it prints, and `build/fuzz/fuzz FILE` repeats it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SUPERVISOR = HERE.parent
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
PARTS = ("FILES", "INSIDE", "MAIN")
PLAIN = (
    "wire",
    "loop",
    "channel",
    "connections",
    "commands",
    "filter",
    "launch",
    "nodes",
    "opened",
    "reach",
    "relayed",
    "relays",
    "removal",
    "beneath",
    "jobs",
    "watch",
    "streams",
    "ring",
    "terminal",
    "bridge",
)
HINT = "make fuzz needs clang with libFuzzer (Debian: apt-get install clang libclang-rt-14-dev), or set CLANG."


def compile_fuzzer(directory: Path, command: Sequence[str], sanitize: str, extra: Sequence[str] = ()) -> Path:
    """The fuzzer in `directory`, by this compiler with these sanitizers."""
    directory.mkdir(parents=True, exist_ok=True)
    words = [*command, *FLAGS, f"-fsanitize={sanitize}"]
    objects = []
    for part in PARTS:
        objects.append(str(directory / f"{part.lower()}.o"))
        _run([*words, f"-DPART_{part}", "-c", str(HERE / "fuzz_parts.c"), "-o", objects[-1]])
    sources = [SUPERVISOR / f"{name}.c" for name in PLAIN] + [HERE / "fuzz_trees.c", HERE / "fuzz.c"]
    target = directory / "fuzz"
    _run([*words, "-Wl,--wrap=epoll_wait", *objects, *map(str, sources), *extra, "-o", str(target)])
    return target


def write_seeds(directory: Path) -> list[Path]:
    """Every vector as an input; the first byte says how it is given."""
    directory.mkdir(parents=True, exist_ok=True)
    vectors = json.loads((SUPERVISOR / "vectors.json").read_text(encoding="utf-8"))
    found = [directory / name for name in ("commands", "files", "two-hosts", "relays", "relays-in-pieces")]
    for path, mode, begin, end in (
        (found[0], 0x03, 0x10, 0x20),
        (found[1], 0x03, 0x20, 0x40),
        (found[2], 0x22, 0x10, 0x50),
        (found[3], 0x03, 0x40, 0x50),
        (found[4], 0x06, 0x40, 0x50),
    ):
        path.write_bytes(bytes([mode]) + b"".join(_conversation(vectors, begin, end)))
    for kind in ("good", "refused", "bad"):
        for number, vector in enumerate(vectors[kind]):
            if (vector["frame"] or "").startswith("replies"):
                continue
            mode = 0x13 if vector.get("descriptors") else 0x02 + number % 2
            path = directory / f"{kind}-{number:03}"
            path.write_bytes(bytes([mode]) + bytes.fromhex(vector["hex"]))
            found.append(path)
    return found


def _conversation(vectors: dict[str, Any], begin: int, end: int) -> Iterator[bytes]:
    """All good requests of these types, one after the other: their ids fit together."""
    for vector in vectors["good"]:
        side, _, name = vector["frame"].partition(".")
        if begin <= vectors[side][name]["type"] < end and not vector["descriptors"]:
            yield bytes.fromhex(vector["hex"])


def _run(words: Sequence[str]) -> None:
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"the fuzzer cannot be compiled:\n{done.stderr}")


def main() -> int:
    """Fuzz for `FUZZ_SECONDS`."""
    clang = os.environ.get("CLANG", "clang")
    if shutil.which(clang) is None:
        sys.exit(HINT)
    directory = SUPERVISOR.parent / "build" / "fuzz"
    target = compile_fuzzer(directory, [clang], "fuzzer,address,undefined")
    write_seeds(directory / "seeds")
    corpus = directory / "corpus"
    corpus.mkdir(exist_ok=True)
    seconds = os.environ.get("FUZZ_SECONDS", "60")
    options = (
        f"-max_total_time={seconds}",
        "-max_len=8192",
        "-timeout=10",
        "-rss_limit_mb=1024",
        "-print_final_stats=1",
    )
    words = [str(target), *options, f"-artifact_prefix={directory}/", str(corpus), str(directory / "seeds")]
    return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
