"""How much a model thinks: as a word or as a number of tokens."""

from paddock.gateway.translate.model import Ask

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32000, "max": 32000}
LEAST_BUDGET = 1024


def effort_of(ask: Ask) -> str | None:
    """The word, also where tokens were asked for."""
    if ask.effort or not ask.budget:
        return ask.effort
    return next((word for word in ("low", "medium") if ask.budget <= _BUDGETS[word]), "high")


def budget_of(ask: Ask, max_output: int) -> int | None:
    """The tokens, which have to be fewer than the answer may have; none if there is no room, or no wish."""
    wanted = ask.budget or _BUDGETS.get(ask.effort or "")
    if not wanted or max_output <= LEAST_BUDGET:
        return None
    return max(LEAST_BUDGET, min(wanted, max_output // 2 if wanted >= max_output else wanted))
