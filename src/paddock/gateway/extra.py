"""The packages of the gateway, which are an extra."""

from importlib.util import find_spec

from paddock.errors import UnavailableError
from paddock.extras import how_to_get


def need() -> None:
    """Return if they are installed."""
    missing = [name for name in ("h11", "httpx2") if find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"The gateway needs the package {missing[0]}, which is not installed.",
            hint=how_to_get("gateway"),
        )
