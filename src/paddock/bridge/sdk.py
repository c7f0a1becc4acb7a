"""The MCP SDK, which is an extra. What needs it is imported after this was asked."""

from functools import cache
from importlib.util import find_spec

from paddock.errors import UnavailableError
from paddock.extras import how_to_get


def need() -> None:
    """Return if the SDK is installed."""
    if find_spec("mcp") is None:
        raise UnavailableError("Tools need the package mcp, which is not installed.", hint=how_to_get("bridge"))


@cache
def version() -> str:
    """Paddock's own, for the other side."""
    from importlib import metadata

    return metadata.version("paddock")
