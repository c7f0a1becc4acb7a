"""Compiles `paddock-init`, and writes the filters beside it. Needs nothing but a C compiler and libseccomp."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wshadow", "-fstack-protector-strong")
STATIC = ("-static", "-s")
MUSL = "musl-gcc"
KERNEL_HEADERS = ("-idirafter", "/usr/include", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu")
"""Where Debian has them; musl comes without."""
HINT = (
    "Paddock's supervisor is a small C program, and there is no C compiler here. "
    "Install one (Debian: apt-get install gcc libc6-dev; Fedora: dnf install gcc glibc-static), or set CC."
)


def sources() -> list[Path]:
    """What it is made from."""
    return sorted(HERE.glob("*.c"))


def compiler() -> list[str]:
    """`$CC`, or the first compiler there is."""
    given = shlex.split(os.environ.get("CC", ""))
    for candidate in [given] if given else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(candidate[0]):
            return candidate
    sys.exit(HINT)


def compilers(flags: Sequence[str]) -> list[list[str]]:
    """Those to try, the best first.

    With musl a program starts in a third of the time: glibc first asks the processor dozens of questions, and where that is
    a virtual one, its host has to answer each.
    """
    if "-static" not in flags or os.environ.get("CC") or not shutil.which(MUSL):
        return [compiler()]
    return [[MUSL, *KERNEL_HEADERS], compiler()]


def build(target: Path, *, release: str, command: Sequence[str] = (), flags: Sequence[str] = STATIC) -> Path:
    """Compile to `target`, which appears complete or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    options = [*FLAGS, f'-DPADDOCK_RELEASE="{release}"', *flags, "-o", str(temporary), *map(str, sources())]
    try:
        for words in [command] if command else compilers(flags):
            done = subprocess.run([*words, *options], stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode == 0:
                os.replace(temporary, target)
                return target
    finally:
        temporary.unlink(missing_ok=True)
    hint = f"\n{HINT}" if "cannot find -lc" in done.stderr else ""
    sys.exit(f"paddock-init cannot be compiled:\n{done.stderr}{hint}")


def write_filters(directory: Path) -> list[Path]:
    """What processes may ask of the kernel, for every kind of machine."""
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run([sys.executable, str(HERE / "filters.py"), str(directory)], env=environment, check=False)
    if done.returncode:
        sys.exit("the filters cannot be made; the reason is above")
    return sorted(directory.glob("seccomp-*.bpf"))


def release() -> str:
    """The version, as the package says it."""
    text = (HERE.parent / "src" / "paddock" / "__init__.py").read_text(encoding="utf-8")
    return text.split('__version__ = "', 1)[1].split('"', 1)[0]


def default_target() -> Path:
    """Where the package looks for it."""
    return HERE.parent / "src" / "paddock" / "bin" / f"paddock-init-{os.uname().machine}"


if __name__ == "__main__":
    program = build(Path(sys.argv[1]) if len(sys.argv) > 1 else default_target(), release=release())
    write_filters(program.parent)
