"""Folders of assistants for tests: files by their names."""

from pathlib import Path
from textwrap import dedent

from paddock.assistants import Assistant


def written(path: Path, **files: str) -> Path:
    """A folder with these files: `assistant_yml`, `hooks_py`, `mcp__echo_yml` and the like."""
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        file = path / f"{stem.replace('__', '/')}.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
    return path


def made(path: Path, **files: str) -> Assistant:
    """The assistant in it."""
    return Assistant.load(written(path, **{"assistant_yml": "{}", **files}))
