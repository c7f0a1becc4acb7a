"""Which model is asked, and how much it may say."""

from typing import Any

from paddock.gateway.body import Body
from paddock.gateway.connectors import Connector, Price
from paddock.gateway.fronts import Front

_SMALL = ("haiku", "mini", "flash", "nano", "lite", "small")
_OUTPUT_FIELDS = {
    "anthropic": ("max_tokens",),
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
}
_NOT_OPTIONS = ("max_tokens", "temperature", "model", "key", "proxy")
"""What a request decides by itself, or what is no field of one."""


def choose(connector: Connector, asked: str | None, *, thinks: bool) -> str | None:
    """The model for a request that names another, or none."""
    known = {connector.model, connector.background, connector.think, *connector.models}
    if connector.model is None or asked in known:
        return asked
    if connector.background and asked and any(word in asked.lower() for word in _SMALL):
        return connector.background
    return connector.think if thinks and connector.think else connector.model


def thinks(body: Body, front: Front) -> bool:
    """Whether a request asks for thinking."""
    if front.wire == "anthropic":
        return body.table("thinking").get("type") in ("enabled", "adaptive")
    if front.wire == "gemini":
        return bool(_generation(body).get("thinkingConfig"))
    return bool(body.get("reasoning_effort") or body.get("reasoning"))


def price(connector: Connector, model: str | None) -> Price | None:
    """What a model costs, if that is known."""
    return connector.prices.get(model or "", connector.prices.get("*"))


def most_output(body: Body, wire: str) -> int | None:
    """The bound that the request itself has."""
    if wire == "gemini":
        found = [_generation(body).get("maxOutputTokens")]
    else:
        found = [body.get(name) for name in _OUTPUT_FIELDS[wire]]
    return next((value for value in found if type(value) is int and value > 0), None)


def bound_output(body: Body, wire: str, most: int, *, new_name: bool) -> None:
    """Let the answer have no more than this; `new_name` for a provider that knows the newer of two names only."""
    if most_output(body, wire) == most:
        return
    if wire == "gemini":
        body.put("generationConfig", {**_generation(body), "maxOutputTokens": most})
        return
    names = _OUTPUT_FIELDS[wire]
    present = next((name for name in names if body.get(name) is not None), None)
    body.put(present or names[0 if new_name else -1], most)


def add_options(body: Body, connector: Connector) -> None:
    """What the connector wants in every request."""
    for name, value in connector.options.items():
        if name not in _NOT_OPTIONS:
            body.put(name, value)


def _generation(body: Body) -> dict[str, Any]:
    return dict(body.table("generationConfig"))
