"""What `import paddock` loads: the standard library only, and as little of that as possible."""

import subprocess
import sys

import pytest

import paddock

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


def test_names() -> None:
    assert all(hasattr(paddock, name) for name in paddock.__all__)
    assert set(paddock.__all__) <= set(dir(paddock))
    with pytest.raises(AttributeError, match="no_such_name"):
        paddock.no_such_name  # type: ignore[attr-defined]  # noqa: B018
