"""Skills for the tests."""

from collections.abc import Mapping
from pathlib import Path

DESCRIPTION = "description: What it does, and when to use it."


def skill(parent: Path, name: str, *lines: str, files: Mapping[str, str] | None = None, file: str = "SKILL.md") -> Path:
    """A folder with a SKILL.md of these lines; the usual two if none are given. Files below `scripts` can be run."""
    folder = parent / name
    folder.mkdir(parents=True, exist_ok=True)
    top = "\n".join(lines or (f"name: {name}", DESCRIPTION))
    (folder / file).write_text(f"---\n{top}\n---\n\n# {name}\n", encoding="utf-8")
    for path, text in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        (folder / path).chmod(0o755 if path.startswith("scripts/") else 0o644)
    return folder
