"""What may be asked: every endpoint there is. Anything else does not exist."""

import hmac
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qs, urlsplit

from paddock.gateway.translate import Wire
from paddock.http.server import Exchange

_POST: dict[str, tuple[Wire, str]] = {
    "/v1/messages": ("anthropic", ""),
    "/v1/messages/count_tokens": ("anthropic", "/count_tokens"),
    "/v1/chat/completions": ("chat", ""),
    "/v1/responses": ("responses", ""),
}
_GEMINI = re.compile(r"/v1(?:beta)?/models/([A-Za-z0-9._-]{1,128}):(generateContent|streamGenerateContent|countTokens)")
_PASSED_QUERIES = ("alt", "beta")


@dataclass(frozen=True, slots=True)
class Front:
    """One endpoint, as it was asked."""

    wire: Wire
    counting: bool = False
    """Whether it only wants to know how many tokens something has."""
    model: str | None = None
    """Where the address names it, and not the body."""
    method: str = ""
    """What Gemini has behind the model."""
    query: str = ""

    @property
    def streamed(self) -> bool | None:
        """Whether the answer comes in pieces; None if the body says so."""
        return self.method == "streamGenerateContent" if self.wire == "gemini" else None


def address(exchange: Exchange) -> SplitResult:
    """What is asked for; nothing if that is no address."""
    try:
        return urlsplit(exchange.target)
    except ValueError:
        return SplitResult("", "", "", "", "")


def find(exchange: Exchange) -> Front | None:
    """The endpoint that is asked for, if there is one."""
    if exchange.method != "POST":
        return None
    parts = address(exchange)
    query = "&".join(pair for pair in parts.query.split("&") if pair.partition("=")[0] in _PASSED_QUERIES)
    query = f"?{query}" if re.fullmatch(r"[A-Za-z0-9=&_-]{1,100}", query) else ""
    if parts.path in _POST:
        wire, tail = _POST[parts.path]
        return Front(wire, counting=bool(tail), query=query)
    found = _GEMINI.fullmatch(parts.path)
    if found is None:
        return None
    return Front("gemini", found[2] == "countTokens", found[1], found[2], query)


def is_known(exchange: Exchange, token: str) -> bool:
    """Whether the token came, in one of the ways in which clients send their key."""
    scheme, _, bearer = (exchange.header("authorization") or "").partition(" ")
    given = [
        exchange.header("x-api-key"),
        exchange.header("x-goog-api-key"),
        bearer.strip() if scheme.lower() == "bearer" else None,
        *parse_qs(address(exchange).query).get("key", ())[:1],
    ]
    shown = [one.encode("latin-1", "replace") for one in given if one]
    return any(hmac.compare_digest(one, token.encode()) for one in shown)
