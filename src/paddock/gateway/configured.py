"""Connectors and allowances as the user's own configuration has them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

from paddock.config import place, setting
from paddock.documents import near
from paddock.errors import ConfigError, visible
from paddock.gateway.allowances import Allowance
from paddock.gateway.connectors import Connector, Price

T = TypeVar("T", Connector, Allowance, Price)


@dataclass(frozen=True, slots=True)
class Allowances:
    """What everybody may use who is given nothing else."""

    sandbox: Allowance | None = None
    user: Allowance | None = None


class _Where(NamedTuple):
    """A table of the configuration, for people who are told what is wrong in it."""

    source: str
    table: str
    name: str

    def of(self, part: str = "", key: str = "") -> str:
        """File, line and path of the table, of a part of it, or of a key there."""
        line = place(self.source, self.table, self.name, key or part.partition(".")[0])
        return f"{line}: {self.table}.{self.name}{part and f'.{part}'}"


def connectors() -> dict[str, Connector]:
    """Those that are configured, by their names."""
    found = setting("connectors")
    return {name: _connector(name, table, found.source) for name, table in found.value.items()}


def allowances() -> Allowances:
    """The ones that are configured."""
    found = setting("allowances")
    return Allowances(
        **{
            whose: _made(Allowance, table, _Where(found.source, "allowances", whose))
            for whose, table in found.value.items()
        }
    )


def find(name: str, known: Mapping[str, Connector]) -> Connector:
    """The connector of this name."""
    if name not in known:
        raise ConfigError(
            f"There is no connector '{visible(str(name))}'.",
            hint=f"Known: {', '.join(sorted(known))}." if known else "Add one to your paddock.toml, [connectors.NAME].",
        )
    return known[name]


def _connector(name: str, table: Mapping[str, Any], source: str) -> Connector:
    where = _Where(source, "connectors", name)
    prices = table.get("prices", {})
    if not isinstance(prices, Mapping) or not all(isinstance(price, Mapping) for price in prices.values()):
        raise ConfigError(
            f"{where.of('prices')} is not a table of prices by model.", hint="Such as {'*' = {input = 3, output = 15}}."
        )
    options = table.get("options", {})
    if not isinstance(options, Mapping):
        raise ConfigError(f"{where.of('options')} is not a table.", hint="Such as {top_k = 40}.")
    made = {model: _made(Price, price, where, f"prices.{model}") for model, price in prices.items()}
    models = table.get("models", ())
    given = {**table, "name": name, "prices": made, "options": dict(options)}
    return _made(Connector, {**given, "models": tuple(models) if isinstance(models, list) else models}, where)


def _made(kind: type[T], table: Mapping[str, Any], where: _Where, part: str = "") -> T:
    known = sorted({one.name for one in fields(kind)} - {"name"})
    if unknown := sorted(set(table) - set(known) - {"name"}):
        wrong = visible(unknown[0])
        raise ConfigError(
            f"{where.of(part, wrong)} has no '{wrong}'.{near(wrong, known)}", hint=f"Known: {', '.join(known)}."
        )
    try:
        return kind(**table)
    except TypeError:
        needed = "base_url" if kind is Connector else "input and output"
        raise ConfigError(f"{where.of(part)} is not complete.", hint=f"It needs {needed}.") from None
    except ConfigError as error:
        raise ConfigError(f"{where.of(part, _named(error.message, table))}: {error.message}", hint=error.hint) from None


def _named(words: str, table: Mapping[str, Any]) -> str:
    """The key that an error names first."""
    found = re.search("|".join(rf"\b{re.escape(name)}\b" for name in table) or "$", words)
    return found[0] if found else ""
