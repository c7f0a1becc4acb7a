"""What may be used, and that nobody gets past it by asking at the same time."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import ConfigError, LimitReachedError
from paddock.gateway.allowances import LEAST_OUTPUT, Allowance, Used, Wanted, cost, fit, prompt_tokens
from paddock.gateway.connectors import Price
from paddock.gateway.ledger import Bound, Call, Ended, Ledger
from paddock.gateway.translate import Usage


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    it = Ledger(tmp_path / "usage.sqlite")
    yield it
    it.close()


def call(user: str | None = "ada", sandbox: str = "sb-1", started: float = 1000.0, model: str = "m") -> Call:
    return Call(sandbox, user, "chat", "c", model, "chat", started)


def bound(**allowed: object) -> Bound:
    return Bound("user", "ada", Allowance(**allowed))  # type: ignore[arg-type]


PRICE = Price(3, 15, 0.3, 3.75)


def test_what_it_costs() -> None:
    usage = Usage(input=1_000_000, output=100_000, cache_read=500_000, cache_write=100_000)
    assert cost(usage, PRICE) == pytest.approx(0.4 * 3 + 0.5 * 0.3 + 0.1 * 3.75 + 0.1 * 15)
    assert cost(usage, None) == 0
    assert cost(usage, PRICE, dearest=True) >= cost(usage, PRICE)


def test_what_fits_is_let_through_as_it_is() -> None:
    want = Wanted(100, 1000, PRICE)
    assert fit(Allowance(), Used(10, 10, 10.0), want, "x") is want
    assert fit(Allowance(requests=11, tokens=5000, money=50.0), Used(10, 10, 10.0), want, "x") is want


def test_output_is_cut_to_what_is_left() -> None:
    assert fit(Allowance(tokens=1000), Used(0, 100, 0.0), Wanted(100, 9000, None), "x").output == 800
    left = fit(Allowance(money=1.0), Used(0, 0, 0.985), Wanted(0, 9000, PRICE), "x").output
    assert left == pytest.approx(1000, abs=1)


@pytest.mark.parametrize(
    ("allowance", "used", "limit"),
    [
        (Allowance(requests=3), Used(3, 0, 0.0), "requests"),
        (Allowance(tokens=1000), Used(1, 1000 - LEAST_OUTPUT + 1, 0.0), "tokens"),
        (Allowance(money=1.0), Used(1, 0, 1.0), "money"),
        (Allowance(requests=0), Used(0, 0, 0.0), "requests"),
    ],
)
def test_what_is_used_up_is_refused(allowance: Allowance, used: Used, limit: str) -> None:
    with pytest.raises(LimitReachedError) as refused:
        fit(allowance, used, Wanted(0, 9000, PRICE), "The user 'ada'")
    assert refused.value.limit == limit


def test_money_needs_a_price() -> None:
    with pytest.raises(LimitReachedError, match="price"):
        fit(Allowance(money=1.0), Used(0, 0, 0.0), Wanted(1, 1, None), "x")


def test_how_many_tokens_a_prompt_has() -> None:
    text = "word " * 3000
    assert prompt_tokens({"messages": [{"content": text}]}) >= len(text) // 5
    image = {"data": "iVBORw0KGgo" * 100_000}
    assert 1000 < prompt_tokens({"messages": [image, "x" * 50]}) < 20_000
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert prompt_tokens(deep) == 1


async def test_what_is_reserved_counts_until_it_is_settled(ledger: Ledger) -> None:
    bounds = [bound(tokens=10_000)]
    row, want = await ledger.reserve(call(), Wanted(1000, 5000, None), bounds)
    _, second = await ledger.reserve(call(), Wanted(1000, 5000, None), bounds)
    assert (want.output, second.output) == (5000, 3000)
    with pytest.raises(LimitReachedError):
        await ledger.reserve(call(), Wanted(1000, 5000, None), bounds)
    await ledger.settle(row, Ended("ok", 200, Usage(900, 100), 0.0))
    _, third = await ledger.reserve(call(), Wanted(1000, 5000, None), bounds)
    assert third.output == 4000


async def test_others_are_others(ledger: Ledger) -> None:
    await ledger.reserve(call(), Wanted(1000, 8000, None), [bound(tokens=9000)])
    with pytest.raises(LimitReachedError):
        await ledger.reserve(call(), Wanted(1000, 8000, None), [bound(tokens=9000)])
    eve = Bound("user", "eve", Allowance(tokens=9000))
    assert (await ledger.reserve(call("eve"), Wanted(1000, 8000, None), [eve]))[1].output == 8000


async def test_time_goes_by(ledger: Ledger) -> None:
    bounds = [bound(requests=1, per="1h")]
    await ledger.reserve(call(started=1000.0), Wanted(1, 1, None), bounds)
    with pytest.raises(LimitReachedError):
        await ledger.reserve(call(started=4599.0), Wanted(1, 1, None), bounds)
    await ledger.reserve(call(started=4601.0), Wanted(1, 1, None), bounds)


@settings(max_examples=40)
@given(
    calls=st.lists(st.tuples(st.floats(1, 20_000), st.sampled_from(["ada", "eve"]), st.integers(0, 500)), max_size=15),
    now=st.floats(1, 25_000),
    per=st.sampled_from([None, "10s", "1h", "100m", "1d"]),
)
def test_what_is_used_is_what_was_used_in_that_time(
    calls: list[tuple[float, str, int]], now: float, per: str | None
) -> None:
    """However the hours fall: compared with counting every request."""

    async def count() -> None:
        with TemporaryDirectory() as directory:
            book = Ledger(Path(directory) / "usage.sqlite")
            try:
                for started, user, used in calls:
                    row, _ = await book.reserve(call(user, started=started), Wanted(700, 0, None), [])
                    await book.settle(row, Ended("ok", 200, Usage(used, 0), 0.0))
                since = 0.0 if per is None else now - (Allowance(per=per).seconds or 0.0)
                mine = [used for started, user, used in calls if user == "ada" and started > since]
                enough = Bound("user", "ada", Allowance(requests=len(mine) + 1, tokens=sum(mine) + 400, per=per))
                await book.reserve(call(started=now), Wanted(0, 400, None), [enough])
                too_little = Bound("user", "ada", Allowance(requests=len(mine) + 1, per=per))
                with pytest.raises(LimitReachedError):
                    await book.reserve(call(started=now), Wanted(0, 400, None), [too_little])
            finally:
                book.close()

    asyncio.run(count())


async def test_many_at_once(ledger: Ledger) -> None:
    asked = [ledger.reserve(call(), Wanted(0, 300, None), [bound(tokens=3000)]) for _ in range(50)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, LimitReachedError) for one in done) == 40
    assert sum(isinstance(one, tuple) for one in done) == 10


OTHER = """
import asyncio, sys
from pathlib import Path
from paddock.errors import LimitReachedError
from paddock.gateway.allowances import Allowance, Wanted
from paddock.gateway.ledger import Bound, Call, Ledger
async def main():
    ledger, got = Ledger(Path(sys.argv[1])), 0
    for _ in range(30):
        try:
            await ledger.reserve(Call("sb", "ada", None, "c", "m", "chat"), Wanted(0, 300, None),
                                 [Bound("user", "ada", Allowance(tokens=6000))])
            got += 1
        except LimitReachedError:
            pass
    ledger.close()
    print(got)
asyncio.run(main())
"""


def test_several_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "usage.sqlite")
    started = [subprocess.Popen([sys.executable, "-c", OTHER, path], stdout=subprocess.PIPE) for _ in range(3)]
    got = [int(process.communicate(timeout=60)[0]) for process in started]
    assert sum(got) == 20


async def test_a_reservation_that_fails_leaves_nothing(ledger: Ledger) -> None:
    for _ in range(3):
        with pytest.raises(LimitReachedError):
            await ledger.reserve(call(), Wanted(1, 1, None), [bound(requests=5), bound(requests=0)])
    assert await ledger.totals() == []


async def test_totals(ledger: Ledger) -> None:
    for model, user, outcome in (("a", "ada", "ok"), ("a", "eve", "UPSTREAM"), ("b", "ada", "ok")):
        row, _ = await ledger.reserve(call(user, model=model), Wanted(1, 1, None), [])
        await ledger.settle(row, Ended(outcome, 200, Usage(10, 2, 4), 0.5))
    by_model = await ledger.totals("model")
    assert [
        (one.group, one.requests, one.failed, one.input, one.output, one.cached, one.money) for one in by_model
    ] == [
        ("a", 2, 1, 20, 4, 8, 1.0),
        ("b", 1, 0, 10, 2, 4, 0.5),
    ]
    assert [one.group for one in await ledger.totals("user", user="eve")] == ["eve"]
    assert len(await ledger.totals("day")) == 1
    assert await ledger.totals("model", since=2000.0) == []
    with pytest.raises(ConfigError):
        await ledger.totals("model; drop table calls")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        await ledger.totals("model", nonsense="x")


async def test_it_is_private_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "usage.sqlite"
    first = Ledger(path)
    await first.reserve(call(), Wanted(1, 1, None), [])
    first.close()
    assert path.stat().st_mode & 0o077 == 0
    second = Ledger(path)
    assert len(await second.totals()) == 1
    second.close()


async def test_one_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "usage.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("pragma user_version = 99")
    database.close()
    ledger = Ledger(path)
    with pytest.raises(ConfigError, match="newer"):
        await ledger.totals()
    ledger.close()
