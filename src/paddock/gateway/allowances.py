"""How much may be used: by a sandbox in its life, by a user in a time. Pure; who has used what, the ledger knows."""

import math
import re
from dataclasses import dataclass

from paddock.errors import ConfigError, LimitReachedError
from paddock.gateway.connectors import Price
from paddock.gateway.translate import Usage
from paddock.types.record import Record
from paddock.types.times import parse_time

MOST_OUTPUT = 16_384
"""What a request that does not say may cost in output."""
LEAST_OUTPUT = 256
"""With less than this left, a request is refused and not cut short."""
_BYTES_PER_TOKEN = 3
"""Fewer than there are in practice, so that what is reserved is rather too much."""
_LONG = 4096
_DATA = re.compile(r"[A-Za-z0-9+/=_:;,-]*")
_MOST_FOR_DATA = 30_000
"""What an image or a document in base64 counts as."""


@dataclass(frozen=True, slots=True)
class Allowance(Record):
    """What may be used; None is no bound."""

    requests: int | None = None
    tokens: int | None = None
    """Input and output together."""
    money: float | None = None
    """Dollars, of models whose prices are known. Others are refused."""
    per: str | float | None = None
    """In which time, such as "1d"; None is the life of a sandbox, or for ever."""

    def __post_init__(self) -> None:
        for name in ("requests", "tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 0 <= value < 1 << 53):
                raise ConfigError(f"An allowance has {name}={value!r}.", hint="Give a number, or leave it out.")
        if self.money is not None and (type(self.money) not in (int, float) or not 0 <= self.money < 1e12):
            raise ConfigError(f"An allowance has money={self.money!r}.", hint="Give dollars, or leave it out.")
        if self.per is not None:
            parse_time(self.per, "per")

    @property
    def seconds(self) -> float | None:
        """The time in which it may be used."""
        return None if self.per is None else parse_time(self.per, "per")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request may use at the most, before it is known."""

    input: int
    output: int
    price: Price | None

    def tokens(self) -> int:
        return self.input + self.output

    def money(self) -> float:
        return cost(Usage(self.input, self.output), self.price, dearest=True)


@dataclass(frozen=True, slots=True)
class Used:
    """What has been used so far, with what requests that run may still use."""

    requests: int
    tokens: int
    money: float


def prompt_tokens(value: object) -> int:
    """About how many tokens a body has. What is no text, such as an image in base64, has far fewer than its size says."""
    size, left = 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            size += min(len(one), _MOST_FOR_DATA) if len(one) > _LONG and _DATA.fullmatch(one, 0, _LONG) else len(one)
        elif isinstance(one, dict):
            left += one.values()
            size += sum(map(len, one))
        elif isinstance(one, list):
            left += one
        else:
            size += 4
    return tokens_of(size)


def tokens_of(size: int) -> int:
    """About how many tokens a text of so many characters has; rather too many."""
    return size // _BYTES_PER_TOKEN + 1


def cost(usage: Usage, price: Price | None, *, dearest: bool = False) -> float:
    """In dollars; nothing where no price is known."""
    if price is None:
        return 0.0
    cached = price.input if price.cached is None else price.cached
    written = price.input if price.cache_write is None else price.cache_write
    if dearest:
        return (usage.input * max(price.input, written, cached) + usage.output * price.output) / 1e6
    plain = max(usage.input - usage.cache_read - usage.cache_write, 0)
    total = plain * price.input + usage.cache_read * cached + usage.cache_write * written + usage.output * price.output
    return total / 1e6


def fit(allowance: Allowance, used: Used, want: Wanted, whose: str) -> Wanted:
    """The request with as much output as is left for it; a `LimitReachedError` if that is too little."""
    if allowance.requests is not None and used.requests >= allowance.requests:
        raise _used_up(whose, "requests", f"{allowance.requests} requests")
    if allowance.tokens is not None:
        left = allowance.tokens - used.tokens - want.input
        want = _cut(want, left, whose, "tokens", f"{allowance.tokens} tokens")
    if allowance.money is not None:
        if want.price is None:
            raise LimitReachedError(
                "There is a bound on money, and no price is known for this model.",
                limit="money",
                hint="Give the connector a price for it.",
            )
        rest = allowance.money - used.money - Wanted(want.input, 0, want.price).money()
        dear = want.price.output
        left = math.floor(rest * 1e6 / dear) if dear else (want.output if rest >= 0 else -1)
        want = _cut(want, left, whose, "money", f"{allowance.money:g} dollars")
    return want


def _cut(want: Wanted, left: int, whose: str, limit: str, words: str) -> Wanted:
    if left >= want.output:
        return want
    if left < min(LEAST_OUTPUT, want.output):
        raise _used_up(whose, limit, words)
    return Wanted(want.input, left, want.price)


def _used_up(whose: str, limit: str, words: str) -> LimitReachedError:
    return LimitReachedError(
        f"{whose} has used up its allowance of {words}, or would with this request.",
        limit=limit,
        hint="Whoever runs this sandbox can allow more.",
    )
