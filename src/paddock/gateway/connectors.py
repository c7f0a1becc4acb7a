"""`Connector`: which model an agent speaks to, at whose address and with whose key. None of it gets into a sandbox."""

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from paddock.errors import ConfigError, visible
from paddock.gateway.providers import PROVIDERS, Provider, detect
from paddock.gateway.translate import Wire
from paddock.types.record import Record

Key = str | Callable[[], str]
"""Where a key is found: `$ENV.NAME`, `$ENV_B64.NAME`, or a function of yours that is asked each time. "" is no key."""

_REASONING = ("none", "effort", "budget")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_REFERENCE = re.compile(r"\$(ENV|ENV_B64)\.([A-Za-z_][A-Za-z0-9_]*)")
_VISIBLE = re.compile(r"[!-~]{1,8192}")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HOW_KEYS_ARE_GIVEN = "Name the variable that holds it, such as '$ENV.ANTHROPIC_API_KEY'."


@dataclass(frozen=True, slots=True)
class Price(Record):
    """Dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of input that the provider had already; as `input` if it is not given."""
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "cache_write"):
            value = getattr(self, name)
            if value is not None or name in ("input", "output"):
                _check_price(name, value)


def _check_price(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise ConfigError(f"The price {name}={value!r} is no price.", hint="Give dollars for a million tokens.")


@dataclass(frozen=True, slots=True)
class Connector(Record):
    """One way to models."""

    name: str
    base_url: str
    key: Key = field(default="", repr=False)
    model: str | None = None
    """What is asked for, whatever the sandbox names; None lets it choose."""
    background: str | None = None
    """For small tasks beside the work; as `model` if it is not given."""
    think: str | None = None
    """For requests that ask for thinking; as `model` if it is not given."""
    models: tuple[str, ...] = ()
    """Others that a sandbox may name."""
    provider: str | None = None
    """One of `PROVIDERS`; told by the host's name if it is not given."""
    wire: Wire | None = None
    """What a provider of another kind speaks: `anthropic`, `chat`, `responses` or `gemini`."""
    reasoning: Literal["none", "effort", "budget"] = "none"
    """How a provider of other words is asked to think: by `effort`, by `budget`, or not at all, since many refuse it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are added to every request."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model; `*` is any other."""
    timeout: float = 300.0
    """Seconds without a byte, after which a request has failed."""
    retries: int = 2
    proxy: str | None = None
    """By which this host reaches the provider."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_url(self.name, self.base_url)
        _check_key(self.name, self.key)
        _check_provider(self)
        if self.proxy is not None:
            _check_proxy(self.name, self.proxy)
        if isinstance(self.timeout, bool) or not isinstance(self.timeout, (int, float)) or not 0 < self.timeout <= 3600:
            raise _wrong(self.name, "timeout", self.timeout, "Give seconds, at most 3600.")
        if type(self.retries) is not int or not 0 <= self.retries <= 10:
            raise _wrong(self.name, "retries", self.retries, "Give a number from 0 to 10.")

    @property
    def kind(self) -> Provider:
        """What the provider is like."""
        provider = PROVIDERS[self.provider] if self.provider else detect(self.base_url)
        return provider if self.wire is None else replace(provider, wires=(self.wire,))

    def read_key(self) -> str:
        """The key itself, for one request; "" where none is needed."""
        found = _given(self.name, self.key) if callable(self.key) else _looked_up(self.name, self.key)
        if found and not _VISIBLE.fullmatch(found):
            raise ConfigError(
                f"The key of the connector '{self.name}' has characters that no key has.", hint="Look at its source."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything but a function that gives the key."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("key", "options", "prices")}
        prices = {model: price.to_dict() for model, price in self.prices.items()}
        key = "a function" if callable(self.key) else self.key
        return {**plain, "models": list(self.models), "key": key, "options": dict(self.options), "prices": prices}


def _given(name: str, function: Callable[[], str]) -> str:
    """What it says is not repeated, as it may be about the key."""
    try:
        found = function()
    except Exception as error:
        raise ConfigError(
            f"The key of the connector '{name}' cannot be had ({type(error).__name__}).", hint="Look at its function."
        ) from error
    if not isinstance(found, str):
        raise ConfigError(f"The key of the connector '{name}' is no text.", hint="Look at its function.")
    return found


def _looked_up(name: str, reference: str) -> str:
    found = _REFERENCE.fullmatch(reference)
    if found is None:  # it was checked when it was made: there is none
        return ""
    way, variable = found.groups()
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ConfigError(
            f"The connector '{name}' wants its key from {variable}, which is not set.", hint=f"Set {variable}."
        )
    if way == "ENV":
        return value
    try:
        return base64.b64decode(value, validate=True).decode("ascii").strip()
    except (binascii.Error, UnicodeDecodeError):
        raise ConfigError(
            f"The connector '{name}' wants its key from {variable}, which is no base64.",
            hint=f"Encode it, or refer to it as $ENV.{variable}.",
        ) from None


def _wrong(name: str, what: str, value: object, hint: str) -> ConfigError:
    return ConfigError(f"The connector '{name}' has {what}={visible(repr(value)[:80])}.", hint=hint)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{visible(repr(name)[:80])} is no name for a connector.", hint="Use letters, digits, '_', '.' and '-'."
        )


def _check_url(name: str, url: object) -> None:
    """Keys travel there: so by TLS, or on this host."""
    parts = None
    if isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url:
        try:
            parts = urlsplit(url)
            usable = parts.hostname and parts.port != 0 and not (parts.username or parts.query or parts.fragment)
        except ValueError:
            usable = None
        if usable and parts is not None and parts.scheme == "https":
            return
        if usable and parts is not None and parts.scheme == "http" and parts.hostname in _LOOPBACK:
            return
    if parts is not None and parts.scheme == "http" and not parts.username:
        raise _wrong(name, "base_url", url, "A key goes by https, or to this host itself.")
    raise ConfigError(
        f"The base_url of the connector '{name}' is no address.", hint="Such as 'https://api.anthropic.com'."
    )


def _check_proxy(name: str, proxy: object) -> None:
    if not isinstance(proxy, str) or not re.fullmatch(r"(https?|socks5h?)://[!-~]+", proxy):
        raise ConfigError(f"The proxy of the connector '{name}' is no address.", hint="Such as 'http://proxy:3128'.")


def _check_key(name: str, key: object) -> None:
    """What is written down is found by others. The value itself is not shown: somebody may have put a key there."""
    if callable(key) or key == "" or (isinstance(key, str) and _REFERENCE.fullmatch(key)):
        return
    raise ConfigError(f"The key of the connector '{name}' is not a reference to one.", hint=_HOW_KEYS_ARE_GIVEN)


def _check_provider(connector: Connector) -> None:
    if connector.provider is not None and connector.provider not in PROVIDERS:
        raise _wrong(connector.name, "provider", connector.provider, f"Known: {', '.join(PROVIDERS)}.")
    wires = ("anthropic", "chat", "responses", "gemini")
    if connector.wire is not None and connector.wire not in wires:
        raise _wrong(connector.name, "wire", connector.wire, f"Known: {', '.join(wires)}.")
    if connector.reasoning not in _REASONING:
        raise _wrong(connector.name, "reasoning", connector.reasoning, f"Known: {', '.join(_REASONING)}.")
    if isinstance(connector.models, str) or not all(isinstance(model, str) and model for model in connector.models):
        raise _wrong(connector.name, "models", connector.models, "Give a list of names.")
    for what in ("model", "background", "think"):
        value = getattr(connector, what)
        if value is not None and not (isinstance(value, str) and value):
            raise _wrong(connector.name, what, value, "Give the name of a model.")
