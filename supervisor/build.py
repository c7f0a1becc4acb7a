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


def build(target: Path, *, release: str, command: Sequence[str] = (), flags: Sequence[str] = STATIC) -> Path:
    """Compile to `target`, which appears complete or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    words = [*(command or compiler()), *FLAGS, f'-DPADDOCK_RELEASE="{release}"', *flags, "-o", str(temporary)]
    try:
        done = subprocess.run([*words, *map(str, sources())], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            hint = f"\n{HINT}" if "cannot find -lc" in done.stderr else ""
            sys.exit(f"paddock-init cannot be compiled:\n{done.stderr}{hint}")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


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
