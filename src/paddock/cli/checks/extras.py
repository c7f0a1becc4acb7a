"""The optional parts of the package."""

from paddock.cli.checks.check import Check
from paddock.extras import EXTRAS, Extra, how_to_get


def installed() -> list[Check]:
    """Each extra, and whether what it brings is there; in one line the adapters to frameworks that are not."""
    others = [extra.name for extra in EXTRAS if extra.adapts and extra.missing]
    found = [_check(extra) for extra in EXTRAS if extra.name not in others]
    if others:
        told = f"not installed, and of use beside those frameworks only: {', '.join(others)}"
        found.append(Check("extras of adapters", "ok", told))
    return found


def _check(extra: Extra) -> Check:
    name = f"extra {extra.name}"
    if missing := extra.missing:
        return Check(
            name, "warn", f"{' and '.join(missing)} not installed: for {extra.purpose}", how_to_get(extra.name)
        )
    return Check(name, "ok", f"{' and '.join(extra.modules)}, for {extra.purpose}")
