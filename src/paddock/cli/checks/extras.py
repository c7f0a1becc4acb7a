"""The optional parts of the package."""

from paddock.cli.checks.check import Check
from paddock.extras import EXTRAS, Extra, how_to_get


def installed() -> list[Check]:
    """Each extra, and whether what it brings is there."""
    return [_check(extra) for extra in EXTRAS]


def _check(extra: Extra) -> Check:
    name = f"extra {extra.name}"
    if missing := extra.missing:
        return Check(
            name, "warn", f"{' and '.join(missing)} not installed: for {extra.purpose}", how_to_get(extra.name)
        )
    return Check(name, "ok", f"{' and '.join(extra.modules)}, for {extra.purpose}")
