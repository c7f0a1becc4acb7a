"""Which model is asked, and how much it may say."""

from typing import Any

from paddock.gateway.body import Body
from paddock.gateway.connectors import Connector, Price
from paddock.gateway.errors import BadRequest
from paddock.gateway.fronts import Front

_SMALL = ("haiku", "mini", "flash", "nano", "lite", "small")
_OUTPUT_FIELDS = {
    "anthropic": ("max_tokens",),
    "chat": ("max_completion_tokens", "max_tokens"),
    "responses": ("max_output_tokens",),
}
MOST = 1 << 32
"""Whoever asks for more than this gets no more either, and it can be reckoned with."""
_MOST_ANSWERS = 128
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
    """The bound that the request itself has, on each answer. Of two, a provider may keep to either."""
    found = _outputs(body, wire).values()
    bounds: list[int] = [value for value in found if _is_bound(value)]
    return min(max(bounds), MOST) if bounds and len(bounds) == len(found) else None


def answers(body: Body, wire: str) -> int:
    """How many answers are asked for at once: each may be as long as the bound says."""
    wanted = _generation(body).get("candidateCount") if wire == "gemini" else body.get("n") if wire == "chat" else None
    if wanted is None:
        return 1
    if type(wanted) is not int or not 1 <= wanted <= _MOST_ANSWERS:
        raise BadRequest(f"There can be from 1 to {_MOST_ANSWERS} answers to a request.")
    return wanted


def bound_output(body: Body, wire: str, most: int, *, new_name: bool) -> None:
    """Let each answer have no more than this; `new_name` for a provider that knows the newer of two names only."""
    if wire == "gemini":
        body.put("generationConfig", {**_generation(body), "maxOutputTokens": most}, anew=True)
        return
    names = _OUTPUT_FIELDS[wire]
    found = _outputs(body, wire) or {names[0 if new_name else -1]: None}
    for name, value in found.items():
        if not _is_bound(value) or value > most:
            body.put(name, most)


def check_countable(body: Body, wire: str) -> None:
    """Refuse what would not be counted: an answer that comes when nobody listens, and fields by their other names."""
    if wire == "responses" and body.get("background"):
        raise BadRequest("Answers cannot be made in the background here, since nobody could ask for them later.")
    if wire == "gemini":
        others = [name for name in ("generation_config",) if name in body.value]
        others += [name for name in ("max_output_tokens", "candidate_count") if name in _generation(body)]
        if others:
            raise BadRequest(f"Write '{others[0]}' as Google's own clients do: without '_', in camel case.")


def _outputs(body: Body, wire: str) -> dict[str, Any]:
    table = _generation(body) if wire == "gemini" else {name: body.get(name) for name in _OUTPUT_FIELDS[wire]}
    names = ("maxOutputTokens",) if wire == "gemini" else _OUTPUT_FIELDS[wire]
    return {name: table[name] for name in names if table.get(name) is not None}


def _is_bound(value: object) -> bool:
    return type(value) is int and value > 0


def add_options(body: Body, connector: Connector) -> None:
    """What the connector wants in every request."""
    for name, value in connector.options.items():
        if name not in _NOT_OPTIONS:
            body.put(name, value)


def _generation(body: Body) -> dict[str, Any]:
    return dict(body.table("generationConfig"))
