"""What `import paddock` loads: the standard library only, and as little of that as possible."""

import subprocess
import sys

import pytest

import paddock
import paddock.testing

LOADED = """
import sys
before = set(sys.modules)
{statement}
print("\\n".join(sorted(set(sys.modules) - before)))
"""


def _loaded(statement: str) -> set[str]:
    code = LOADED.format(statement=statement)
    result = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return set(result.stdout.split())


def _foreign(modules: set[str]) -> set[str]:
    tops = {module.split(".")[0] for module in modules}
    return {top for top in tops if top not in sys.stdlib_module_names and top != "paddock"}


def test_import_loads_next_to_nothing() -> None:
    loaded = _loaded("import paddock")
    assert {name for name in loaded if name.startswith("paddock")} == {"paddock"}
    assert not _foreign(loaded)


def test_the_whole_library_is_standard_and_starts_no_loop() -> None:
    names = ", ".join(name for name in paddock.__all__ if not name.startswith("_"))
    loaded = _loaded(f"from paddock import {names}")
    assert not _foreign(loaded)
    assert not {"asyncio", "paddock.cli", "paddock.sync"} & loaded


def test_a_fake_model_needs_nothing_to_be_loaded() -> None:
    """The contract suite beside it needs pytest, and is not loaded with it."""
    loaded = _loaded("from paddock.testing import FakeModel; FakeModel()")
    assert not _foreign(loaded)
    assert "paddock.testing.contract" not in loaded


def test_names_of_testing() -> None:
    assert all(hasattr(paddock.testing, name) for name in paddock.testing.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        paddock.testing.no_such_name  # noqa: B018


def test_names() -> None:
    assert all(hasattr(paddock, name) for name in paddock.__all__)
    assert set(paddock.__all__) <= set(dir(paddock))
    with pytest.raises(AttributeError, match="no_such_name"):
        paddock.no_such_name  # type: ignore[attr-defined]  # noqa: B018
