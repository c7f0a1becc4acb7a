"""The packages that egress needs, which are extras. What needs them is imported after this was asked."""

from importlib.util import find_spec

from paddock.errors import UnavailableError
from paddock.extras import how_to_get


def need(*, tls: bool = False) -> None:
    """Return if they are installed; `tls` is for secrets in HTTPS requests."""
    if find_spec("h11") is None:
        raise UnavailableError("A network needs the package h11, which is not installed.", hint=how_to_get("network"))
    if tls and find_spec("cryptography") is None:
        raise UnavailableError(
            "Secret(tls=True) needs the package cryptography, which is not installed.",
            hint=how_to_get("secrets"),
        )
