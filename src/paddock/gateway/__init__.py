"""Models for sandboxes without keys inside: one service for all sandboxes of a process, with a token for each."""

from typing import TYPE_CHECKING, Any

from paddock.gateway.allowances import Allowance
from paddock.gateway.connectors import Connector, Price
from paddock.gateway.router import router_config

if TYPE_CHECKING:
    from paddock.gateway.gateway import Attachment as Attachment
    from paddock.gateway.gateway import Gateway as Gateway

__all__ = ["Allowance", "Attachment", "Connector", "Gateway", "Price", "router_config"]


def __getattr__(name: str) -> Any:
    """What serves is loaded when it is used."""
    if name in ("Attachment", "Gateway"):
        from paddock.gateway import gateway

        return getattr(gateway, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
