"""Who has used what: a small database in the state directory, which several processes share."""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from paddock.databases import Database
from paddock.errors import ConfigError
from paddock.gateway.allowances import Allowance, Used, Wanted, fit
from paddock.gateway.translate import Usage
from paddock.state import state_directory
from paddock.types.record import Record

Whose = Literal["sandbox", "user"]
Groups = Literal["day", "user", "chat", "sandbox", "connector", "model"]
GROUPS: tuple[Groups, ...] = ("day", "user", "chat", "sandbox", "connector", "model")
_VERSION = 1
_TABLE = """
create table if not exists calls (
  id integer primary key, started real not null, ended real, sandbox text not null, user text, chat text,
  connector text not null, model text, wire text not null, outcome text, status integer,
  requests integer not null default 1, tokens integer not null default 0, money real not null default 0,
  input integer not null default 0, output integer not null default 0, cached integer not null default 0,
  cache_write integer not null default 0, reasoning integer not null default 0,
  first_byte real, attempts integer
) strict;
create index if not exists of_sandbox on calls (sandbox, started);
create index if not exists of_user on calls (user, started);
create index if not exists by_time on calls (started);
create table if not exists sums (
  whose text not null, name text not null, hour integer not null, requests integer not null, tokens integer not null,
  money real not null, primary key (whose, name, hour)
) strict, without rowid;
create trigger if not exists counted after insert on calls begin
  insert into sums
    select 'sandbox', new.sandbox, cast(new.started / 3600 as integer), new.requests, new.tokens, new.money where true
    on conflict do update set requests = requests + excluded.requests, tokens = tokens + excluded.tokens,
      money = money + excluded.money;
  insert into sums
    select 'user', new.user, cast(new.started / 3600 as integer), new.requests, new.tokens, new.money
    where new.user is not null
    on conflict do update set requests = requests + excluded.requests, tokens = tokens + excluded.tokens,
      money = money + excluded.money;
end;
create trigger if not exists counted_again after update of tokens, money on calls begin
  update sums set tokens = tokens + new.tokens - old.tokens, money = money + new.money - old.money
    where whose = 'sandbox' and name = new.sandbox and hour = cast(new.started / 3600 as integer);
  update sums set tokens = tokens + new.tokens - old.tokens, money = money + new.money - old.money
    where whose = 'user' and name = new.user and hour = cast(new.started / 3600 as integer);
end;
"""
_HOUR = 3600
"""Of whole hours there are sums, so that to look at an allowance is not to look at every request there was."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that is about to be made."""

    sandbox: str
    user: str | None
    chat: str | None
    connector: str
    model: str | None
    wire: str
    started: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class Ended:
    """How it went."""

    outcome: str
    status: int | None
    usage: Usage
    money: float
    first_byte: float | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Bound:
    """What somebody may use."""

    whose: Whose
    name: str
    allowance: Allowance

    @property
    def words(self) -> str:
        return f"The user '{self.name}'" if self.whose == "user" else "This sandbox"


@dataclass(frozen=True, slots=True)
class Total(Record):
    """What was used by one group."""

    group: str | None
    requests: int
    failed: int
    input: int
    output: int
    cached: int
    money: float


class Ledger:
    """The database. Every call is made in one thread, and waits for other processes there."""

    def __init__(self, path: Path | None = None) -> None:
        self._database = Database(path or state_directory() / "usage.sqlite", _TABLE, _VERSION)

    async def reserve(self, call: Call, want: Wanted, bounds: Sequence[Bound]) -> tuple[int, Wanted]:
        """Write down a request with all that it may use, if everybody's allowance has room for it.

        What is left may be less than was wanted; too little is a `LimitReachedError`. Nobody gets in between: the look and
        the writing are one step, for all processes.
        """
        return await self._database.run(lambda database: _reserve(database, call, want, bounds))

    async def settle(self, row: int, ended: Ended) -> None:
        """Put what was used in place of what was reserved."""
        await self._database.run(lambda database: _settle(database, row, ended))

    async def record(self, call: Call, ended: Ended) -> None:
        """Write down a request for which nothing had to be reserved."""
        await self._database.run(lambda database: _settle(database, _insert(database, call, 0, 0.0), ended))

    async def totals(self, by: Groups = "model", since: float = 0.0, **only: str) -> list[Total]:
        """What was used since then, the most expensive first; `only` are names of groups and their values."""
        return await self._database.run(lambda database: _totals(database, by, since, only))

    def close(self) -> None:
        """Idempotent; what was asked is done first."""
        self._database.close()


def _reserve(database: sqlite3.Connection, call: Call, want: Wanted, bounds: Sequence[Bound]) -> tuple[int, Wanted]:
    database.execute("begin immediate")
    try:
        for bound in bounds:
            want = fit(bound.allowance, _used(database, bound, call.started), want, bound.words)
        row = _insert(database, call, want.tokens(), want.money())
        database.execute("commit")
    except BaseException:
        database.execute("rollback")
        raise
    return row, want


def _insert(database: sqlite3.Connection, call: Call, tokens: int, money: float) -> int:
    row = database.execute(
        "insert into calls (started, sandbox, user, chat, connector, model, wire, tokens, money)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (call.started, call.sandbox, call.user, call.chat, call.connector, call.model, call.wire, tokens, money),
    ).lastrowid
    return row or 0


def _used(database: sqlite3.Connection, bound: Bound, now: float) -> Used:
    """Whole hours by their sums, and what is in the time of the first one by its requests."""
    seconds = bound.allowance.seconds
    since = 0.0 if seconds is None else now - seconds
    hour = int(since // _HOUR)
    sums = "select total(requests), total(tokens), total(money) from"
    whole = database.execute(
        f"{sums} sums where whose = ? and name = ? and hour > ?",
        (bound.whose, bound.name, hour),
    ).fetchone()
    part = database.execute(
        f"{sums} calls where {bound.whose} = ? and started > ? and started < ?",
        (bound.name, since, (hour + 1) * _HOUR),
    ).fetchone()
    requests, tokens, money = (one + other for one, other in zip(whole, part, strict=True))
    return Used(int(requests), int(tokens), float(money))


def _settle(database: sqlite3.Connection, row: int, ended: Ended) -> None:
    usage = ended.usage
    database.execute(
        "update calls set ended = ?, outcome = ?, status = ?, tokens = ?, money = ?, input = ?, output = ?, cached = ?,"
        " cache_write = ?, reasoning = ?, first_byte = ?, attempts = ? where id = ?",
        (
            time.time(),
            ended.outcome,
            ended.status,
            usage.total,
            ended.money,
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.reasoning,
            ended.first_byte,
            ended.attempts,
            row,
        ),
    )


def _totals(database: sqlite3.Connection, by: Groups, since: float, only: dict[str, str]) -> list[Total]:
    unknown = {by, *only} - set(GROUPS)
    if unknown:
        raise ConfigError(f"Usage is not kept by {', '.join(sorted(unknown))}.", hint=f"Known: {', '.join(GROUPS)}.")
    column = "date(started, 'unixepoch', 'localtime')" if by == "day" else by
    chosen = "".join(f" and {name} = ?" for name in only if name != "day")
    query = (
        f"select {column}, count(*), sum(outcome is not null and outcome <> 'ok'), total(input), total(output),"  # noqa: S608 - from the list above
        f" total(cached), total(money) from calls where started >= ?{chosen}"
        " group by 1 order by total(money) desc, total(input) + total(output) desc, 1"
    )
    values = [value for name, value in only.items() if name != "day"]
    rows = database.execute(query, (since, *values)).fetchall()
    return [Total(g, n, f or 0, int(i), int(o), int(c), float(m)) for g, n, f, i, o, c, m in rows]
