"""The configuration of claude-code-router, for those who put it between Claude and the gateway."""

from typing import Any
from urllib.parse import urlsplit

from paddock.errors import ConfigError
from paddock.gateway.connectors import Connector
from paddock.gateway.providers import detect

PATH = ".claude-code-router/config.json"
"""Where it is looked for, below a home directory."""
_CHAT = "/chat/completions"
_MAX_TOKENS = 16_384
_MILLISECONDS = 600_000


def router_config(connector: Connector | None, *, url: str | None = None, token: str | None = None) -> dict[str, Any]:
    """What the router's file holds. With the `url` and `token` of a gateway these are its provider, and no key is in it.

    Without them it speaks to the provider itself, with a reference to the key for the router to look up.
    """
    if connector is None:
        raise ConfigError("The router needs a connector.", hint="Give one of those that are configured.")
    if connector.model is None:
        raise ConfigError(f"The connector '{connector.name}' names no model for the router.", hint="Give it a model=.")
    provider = detect(connector.base_url)
    target = f"{url.rstrip('/')}/v1{_CHAT}" if url is not None else _address(connector.base_url, provider.name)
    models = {role: getattr(connector, role) or connector.model for role in ("background", "think")}
    entry: dict[str, Any] = {
        "name": provider.router,
        "api_base_url": target,
        "api_key": token if token is not None else _reference(connector),
        "models": list(dict.fromkeys([connector.model, *models.values()])),
    }
    if provider.name in ("deepseek", "volcengine"):
        entry["transformer"] = {"use": [["maxtoken", {"max_tokens": _MAX_TOKENS}]]}
    named = {role: f"{provider.router},{model}" for role, model in models.items()}
    return {
        "LOG": True,
        "API_TIMEOUT_MS": _MILLISECONDS,
        "NON_INTERACTIVE_MODE": True,
        "Providers": [entry],
        "Router": {"default": f"{provider.router},{connector.model}", **named},
    }


def _address(base_url: str, provider: str) -> str:
    """The whole address that the router wants; one that it cannot guess is taken as it stands."""
    base = base_url.removesuffix("/")
    if urlsplit(base).path.endswith(_CHAT) or provider not in ("volcengine", "deepseek", "openai"):
        return base
    return base + ("/v1" if provider == "openai" else "") + _CHAT


def _reference(connector: Connector) -> str:
    """The router looks up `$NAME` by itself."""
    if callable(connector.key) or connector.key.startswith("$ENV_B64."):
        raise ConfigError(
            f"The router cannot look up the key of the connector '{connector.name}'.",
            hint="Give it the url= and token= of a gateway.",
        )
    return connector.key.replace("$ENV.", "$")
