"""The reference is what the code says, and what the package exports is exactly what it says it exports."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import paddock
from paddock import errors
from paddock.errors import BY_CODE, SandboxError

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "generate_reference.py"
MODULES = ["paddock", *(module.name for module in pkgutil.walk_packages(paddock.__path__, "paddock."))]


def test_the_reference_is_current() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, working on a reference of its own."""
    spec = importlib.util.spec_from_file_location("generate_reference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "REFERENCE", tmp_path / "reference")
    monkeypatch.setattr(module, "cli_page", lambda: "# Command line\n")  # it would change the program's own help
    return module


def test_the_check_says_what_is_wrong(
    generator: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generator.main(["--check"]) == 1
    assert "api.md is missing" in capsys.readouterr().err
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
    assert capsys.readouterr().err == ""
    (tmp_path / "reference/errors.md").write_text("old")
    (tmp_path / "reference/more.md").write_text("nobody's")
    assert generator.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert "errors.md is out of date" in said
    assert "more.md is not generated" in said
    assert "make generate" in said
    assert generator.main(["--wrong"]) == 2


@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_exports_exists(name: str) -> None:
    module = importlib.import_module(name)
    exported: list[str] = getattr(module, "__all__", [])
    assert len(exported) == len(set(exported))
    assert [export for export in exported if not hasattr(module, export)] == []


def lazy_names() -> dict[str, tuple[str, ...]]:
    """The names of the TYPE_CHECKING block, by module."""
    tree = ast.parse(inspect.getsource(paddock))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    found: dict[str, list[str]] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        for name in node.names:
            assert name.asname == name.name
            found.setdefault(node.module, []).append(name.name)
    return {module: tuple(names) for module, names in found.items()}


def test_the_package_exports_what_type_checkers_see() -> None:
    assert lazy_names() == paddock._WHERE
    names = [name for names in paddock._WHERE.values() for name in names]
    assert sorted([*names, "__version__"]) == paddock.__all__ == dir(paddock)
    for name in names:
        assert getattr(paddock, name).__name__ == name
    with pytest.raises(AttributeError, match="no_such_name"):
        paddock.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_everything_exported_below_is_exported_above() -> None:
    """An error or a type that users meet is importable from `paddock`."""
    assert {cls.__name__ for cls in BY_CODE.values()} <= set(paddock.__all__)


# The tree of errors


def tree(cls: type[SandboxError] = SandboxError, depth: int = 0) -> Iterator[tuple[int, str, str, str]]:
    built_in = next(base.__name__ for base in cls.__mro__ if base.__module__ == "builtins")
    yield depth, cls.__name__, cls.code, "" if built_in == "Exception" else built_in
    for child in cls.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child, depth + 1)


def drawn() -> Iterator[tuple[int, str, str, str]]:
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]
        found = re.fullmatch(r"    ([│├└─ ]*)(\w+Error) +([A-Z_]+) *(\w*)", line)
        if found:
            yield len(found[1]) // 4, found[2], found[3], found[4]


def test_the_drawn_tree_is_the_real_one() -> None:
    assert list(drawn()) == list(tree())


def test_codes_are_unique() -> None:
    codes = [code for _, _, code, _ in tree()]
    assert sorted(codes) == sorted(set(codes)) == sorted(BY_CODE)


@pytest.mark.parametrize("cls", BY_CODE.values(), ids=lambda cls: cls.__name__)
def test_every_error_is_documented(cls: type[SandboxError]) -> None:
    assert cls.__dict__.get("__doc__")
    assert cls.default_hint
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    assert f"\n## `{cls.__name__}`\n" in page
    assert f"| `{cls.code}` |" in page
    assert cls.default_hint in page
