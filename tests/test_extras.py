"""What is imported without its extra."""

import sys
from importlib import import_module

import pytest

from paddock.errors import UnavailableError
from paddock.extras import find

NEEDING = {
    "paddock.adapters.deepagents": "deepagents",
    "paddock.adapters.fsspec": "fsspec",
    "paddock.adapters.inspect_ai": "inspect-ai",
    "paddock.adapters.openai_agents": "openai-agents",
    "paddock.adapters.pydantic_ai": "pydantic-ai",
    "paddock.adapters.smolagents": "smolagents",
    "paddock.tools.mcp.server": "bridge",
    "paddock.tools.mcp.http": "bridge",
}


@pytest.mark.parametrize(("module", "extra"), NEEDING.items())
@pytest.mark.parametrize("kind", [UnavailableError, ImportError])
def test_a_module_without_its_extra(
    module: str, extra: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of what is missing may be another package's: what is said is how to get the extra."""
    for loaded in (module, "paddock.tools.mcp"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    for name in find(extra).modules:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(kind, match=rf"paddock\[{extra}\]"):
        import_module(module)
