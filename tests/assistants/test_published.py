"""The published schemas, as editors and other programs apply them: they agree with our own check."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from assistants.conftest import EXAMPLES
from assistants.folders import written
from paddock import ConfigError
from paddock.assistants import Assistant
from paddock.assistants.schemas import SCHEMAS, published
from paddock.documents import load

TEMPLATE = Path(__file__).parents[2] / "src/paddock/assistants/template"
FILES = sorted(
    path
    for folder in (EXAMPLES, TEMPLATE)
    for path in folder.rglob("*.yml")
    if path.parent.name == "mcp" or path.stem in SCHEMAS
)


def _is_valid(schema: str, content: Any) -> bool:
    return bool(Draft202012Validator(published(schema)).is_valid(content))


@pytest.mark.parametrize("name", SCHEMAS)
def test_they_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(published(name))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_examples_are_valid(file: Path) -> None:
    assert _is_valid("mcp" if file.parent.name == "mcp" else file.stem, load(file).plain())


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ("assistant", "description: x", "descripton: x"),
        ("assistant", "history: 0", "history: -1"),
        ("assistant", "network: [pypi.org]", "network: everything"),
        ("assistant", "network: open\nsecrets: {T: {hosts: [a.org]}}", "secrets: {T: {}}"),
        ("assistant", "sandbox: {prepare: [{exec: a}]}", "sandbox: {prepare: [{exec: a, file: b}]}"),
        ("assistant", "sandbox: {prepare: [{copy: t.py, to: b}]}", "sandbox: {prepare: [{copy: t.py}]}"),
        ("assistant", "sandbox: {prepare: [{file: a}]}", "sandbox: {prepare: [{}]}"),
        ("assistant", "sandbox: {env: {A: b}}", "sandbox: {env: {A=: b}}"),
        ("assistant", f"sandbox: {{workspace: {'a' * 512}}}", f"sandbox: {{workspace: {'a' * 513}}}"),
        ("assistant", "mcp: {a: {url: 'http://a.org'}}", "mcp: {a: {url: 'http://a.org', command: b}}"),
        ("assistant", "tools: ['t.py:add']", "tools: ['t.py']"),
        ("mcp", "command: a", "env: {A: b}"),
        ("prompts", "system: a", "system: 3"),
        ("prompts", "examples: [{user: a, assistant: b}]", "examples: [{user: a}]"),
    ],
)
def test_both_say_the_same(tmp_path: Path, schema: str, right: str, wrong: str) -> None:
    name = "mcp__a_yml" if schema == "mcp" else f"{schema}_yml"
    for number, (text, is_valid) in enumerate(((right, True), (wrong, False))):
        files = {"assistant_yml": "{}", "t_py": "def add(a: int) -> int: ...\n", name: text}
        folder = written(tmp_path / f"a{number}", **files)
        assert (
            _is_valid(schema, load(next(folder.rglob("a.yml" if schema == "mcp" else f"{schema}.yml"))).plain())
            is is_valid
        )
        if is_valid:
            Assistant.load(folder)
        else:
            with pytest.raises(ConfigError):
                Assistant.load(folder)
