"""Hints on the command line name what can be typed there."""

import ast
import re
from pathlib import Path

import pytest

import paddock
from paddock.cli.wording import _INSTEAD, for_a_shell
from paddock.errors import BY_CODE


def literals() -> list[str]:
    """Every text in the library, as it is when it is put together."""
    found: list[str] = []
    library = Path(paddock.__file__).parent
    for path in library.rglob("*.py"):
        if "cli" in path.relative_to(library).parts:
            continue
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found += [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return found


def test_every_rule_is_about_something() -> None:
    known = "\n".join(literals())
    assert [python for python, _ in _INSTEAD if not re.search(python, known)] == []


@pytest.mark.parametrize(
    ("hint", "typed"),
    [
        (
            "Look at both and pass overwrite=True, or apply other paths.",
            "Look at both and use --overwrite, or apply other paths.",
        ),
        ("restage() puts the same change on top of it.", "`paddock git restage` puts the same change on top of it."),
        ("Leave the limit out, or pass Limits(..., best_effort=True).", "Leave the limit out."),
        ("Give name=.", "Give it one, as in --mcp NAME=SERVER."),
        ("Such as ./tools.py:echo.", "Such as ./tools.py:echo."),
    ],
)
def test_in_the_words_of_a_shell(hint: str, typed: str) -> None:
    assert for_a_shell(hint) == typed


def test_what_is_advised_by_default() -> None:
    """Of errors that commands end with, but for those that no command leads to."""
    elsewhere = {"COMMAND_FAILED", "NOT_TEXT", "NOT_EMPTY"}
    for code, cls in BY_CODE.items():
        if code not in elsewhere:
            assert not re.search(r"\w\(|\w=", for_a_shell(cls.default_hint)), code
