"""What providers are like: which wires they speak, where each is at their address, and how a key is shown to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from paddock.gateway.translate import Wire


@dataclass(frozen=True, slots=True)
class Provider:
    """A kind of provider."""

    name: str
    wires: tuple[Wire, ...]
    """What it speaks, the best first."""
    router: str
    """What claude-code-router calls it."""
    hosts: tuple[str, ...] = ()
    """It is told by these names, and names below them."""
    version: str = "/v1"
    """What stands between the address and what is asked, unless the address ends with it."""


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("volcengine", ("chat",), "volcengine", ("volces.com", "volcengine.com"), version=""),
        Provider("deepseek", ("chat",), "deepseek", ("deepseek.com",), version=""),
        Provider("openai", ("chat", "responses"), "openai", ("openai.com",)),
        Provider("anthropic", ("anthropic",), "claude", ("anthropic.com",)),
        Provider("gemini", ("gemini",), "gemini", ("generativelanguage.googleapis.com",), version="/v1beta"),
        Provider("custom", ("chat",), "custom", version=""),
    )
}
"""In the order in which hosts are compared with them."""

PATHS: Mapping[str, str] = {"anthropic": "/messages", "chat": "/chat/completions", "responses": "/responses"}
_ANTHROPIC_VERSION = "2023-06-01"


def detect(url: str) -> Provider:
    """The provider at an address, by the labels of its host's name: what merely looks like one is another."""
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    for provider in PROVIDERS.values():
        if any(host == known or host.endswith(f".{known}") for known in provider.hosts):
            return provider
    return PROVIDERS["custom"]


def endpoint(provider: Provider, base_url: str, wire: Wire, tail: str = "") -> str:
    """Where to ask. An address that names the endpoint itself is left as it is; `tail` is what Gemini has behind it."""
    base = base_url.removesuffix("/")
    path = f"/models/{tail}" if wire == "gemini" else PATHS[wire] + tail
    if wire != "gemini" and base.endswith(PATHS[wire]):
        return base + tail
    version = "/v1" if wire == "anthropic" else provider.version
    return base + path if base.endswith(version) else base + version + path


def shown_key(wire: Wire, key: str) -> Mapping[str, str]:
    """The headers by which a provider knows who asks."""
    if wire == "anthropic":
        return {"anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}
    if wire == "gemini":
        return {"x-goog-api-key": key} if key else {}
    return {"authorization": f"Bearer {key}"} if key else {}
