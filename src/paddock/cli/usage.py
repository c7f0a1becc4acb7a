"""`paddock usage`: what models were used, by whom, and what it cost."""

import json
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from paddock.cli.ending import errors_told, wait_for
from paddock.cli.order import seconds
from paddock.cli.showing import Watch, table, watched
from paddock.errors import ConfigError, visible
from paddock.gateway.ledger import GROUPS, Groups, Ledger, Total

Only = Annotated[str | None, typer.Option(metavar="NAME", help="Only what is of this one.")]


def usage(
    by: Annotated[str, typer.Option(metavar="WHAT", help=f"In groups: {', '.join(GROUPS)}.")] = "model",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only of the last so long, such as 24h or 7d.")
    ] = None,
    user: Only = None,
    connector: Only = None,
    sandbox: Only = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each group, on a line.")] = False,
    watch: Watch = None,
) -> None:
    """Show what sandboxes have used of models, through the gateway of any process.

    Tokens are as the providers count them; a request that was cut off counts by its size. Money is what the prices of the
    connectors come to, and - where there are none.

    \b
      paddock usage
      paddock usage --by user --since 24h
      paddock usage --by day --connector claude --json
    """
    with errors_told(as_json):
        chosen = _group(by)
        only = {"user": user, "connector": connector, "sandbox": sandbox}
        given = {name: value for name, value in only.items() if value is not None}
        watched(lambda: _lines(chosen, seconds(since, "--since"), given, as_json), watch)


def _group(by: str) -> Groups:
    for name in GROUPS:
        if name == by:
            return name
    raise ConfigError(f"--by={by!r} is no group.", hint=f"Give one of: {', '.join(GROUPS)}.")


def _lines(by: Groups, last: float | None, only: dict[str, str], as_json: bool) -> Iterator[str]:
    found = wait_for(_asked(by, 0.0 if last is None else time.time() - last, only))
    if as_json:
        yield from (json.dumps({by: total.group} | _plain(total)) for total in found)
        return
    rows: list[tuple[str, ...]] = [(by.upper(), "REQUESTS", "FAILED", "INPUT", "CACHED", "OUTPUT", "DOLLARS")]
    for one in found:
        counts = (one.requests, one.failed, one.input, one.cached, one.output)
        rows.append(
            (visible(one.group or "-"), *(f"{count:,}" for count in counts), f"{one.money:.4f}" if one.money else "-")
        )
    yield from table(rows)


def _plain(total: Total) -> dict[str, object]:
    return {name: value for name, value in total.to_dict().items() if name != "group"}


async def _asked(by: Groups, since: float, only: dict[str, str]) -> list[Total]:
    ledger = Ledger()
    try:
        return await ledger.totals(by, since, **only)
    finally:
        ledger.close()
