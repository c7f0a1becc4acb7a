"""Compiling the supervisor, and programs made of parts of it, in other ways than the package does."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).parents[2]
SUPERVISOR = REPOSITORY / "supervisor"
SANITIZE = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAILED = 99
"""The exit code of a program that a sanitizer ended."""


def _load() -> ModuleType:
    spec = spec_from_file_location("supervisor_build", SUPERVISOR / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = _load()


def compile_program(target: Path, sources: Sequence[str], flags: Sequence[str] = SANITIZE) -> Path:
    """A program of some of the supervisor's sources, named from its directory."""
    words = [*build.compiler(), *build.FLAGS, "-Werror", *flags, "-o", str(target), *sources]
    done = subprocess.run(words, cwd=SUPERVISOR, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return target


class Sanitized:
    """A supervisor that notices what it does wrong, and where it says so."""

    def __init__(self, directory: Path) -> None:
        self.reports = directory / "reports"
        self.reports.mkdir()
        options = (f'-DREPORTS="{self.reports}/report"', str(SUPERVISOR / "tests" / "sanitizers.c"))
        self.program: Path = build.build(directory / "paddock-init", release="0.0.0", flags=(*SANITIZE, *options))

    @contextmanager
    def clean(self) -> Iterator[None]:
        """Nothing is reported in here."""
        yield
        said = "\n".join(report.read_text() for report in self.reports.iterdir())
        for report in self.reports.iterdir():
            report.unlink()
        assert not said, said
