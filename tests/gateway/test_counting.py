"""What is counted, however it is asked for, cut off or not said; and what happens if nothing can be counted."""

import asyncio
import sqlite3
from typing import Any

import pytest

from gateway.conftest import Place, Placed
from gateway.test_requests import ASK, ENDPOINTS, post
from paddock import Allowance, Price
from paddock.gateway.ledger import Total
from paddock.http.server import Exchange

MANY = Allowance(tokens=100_000)
LONG = {**ASK, "messages": [{"role": "user", "content": "x " * 30_000}]}


async def total(place: Place) -> Total:
    (one,) = await place.gateway._ledger.totals()
    return one


async def reserved(place: Place) -> int:
    """The tokens that count against allowances now."""
    (sum_,) = await place.gateway._ledger._database.run(
        lambda db: db.execute("select total(tokens) from calls").fetchone()
    )
    return int(sum_)


async def ended(place: Place, requests: int = 1) -> None:
    """Return when so many requests are written down, and none of them runs."""
    query = "select count(*), sum(outcome is null) from calls"
    while await place.gateway._ledger._database.run(lambda db: db.execute(query).fetchone()) != (requests, 0):
        await asyncio.sleep(0.01)


async def silent(exchange: Exchange, body: Any) -> None:
    """Thinks for ever."""
    await exchange.gone()
    raise ConnectionAbortedError


async def hang_up(place: Place, body: Any) -> None:
    task = asyncio.ensure_future(post(place, body))
    while not place.provider.asked:
        await asyncio.sleep(0.01)
    task.cancel()
    await ended(place)


@pytest.mark.parametrize(("streamed", "output"), [(False, 500), (True, 0)])
@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_who_hangs_up_before_the_answer(streamed: bool, output: int, wire: str, placed: Placed) -> None:
    """A whole answer may have been written by then, and is paid for; of a stream only what was asked is."""
    async with placed(wire, silent, per_sandbox=MANY) as place:
        await hang_up(place, {**LONG, "stream": streamed})
        used = await total(place)
        assert (used.input > 10_000, used.output) == (True, output)
        assert await reserved(place) == used.input + used.output


async def test_a_provider_that_takes_too_long_may_have_answered(placed: Placed) -> None:
    async with placed("anthropic", silent, timeout=0.2) as place:
        assert (await post(place)).status_code == 504
        assert (await total(place)).output == 500


async def test_a_provider_that_refuses_costs_nothing(placed: Placed) -> None:
    async def refuses(exchange: Exchange, body: Any) -> None:
        await exchange.answer_json(400, {"error": {"message": "no"}})

    async with placed("anthropic", refuses, per_sandbox=MANY) as place:
        assert (await post(place, LONG)).status_code == 400
        assert await reserved(place) == 0


async def test_a_whole_answer_that_is_not_taken(placed: Placed) -> None:
    async def begins(exchange: Exchange, body: Any) -> None:
        await exchange.start(200, [("content-type", "application/json")])
        await exchange.send(b"{")
        await exchange.gone()
        raise ConnectionAbortedError

    async with placed("anthropic", begins) as place:
        await hang_up(place, ASK)
        assert (await total(place)).output == 500


@pytest.mark.parametrize("path", [ENDPOINTS["anthropic"], ENDPOINTS["chat"]])
@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0}, {"prompt_tokens": -5, "completion_tokens": 1.5}])
async def test_a_provider_that_counts_nothing(usage: dict[str, Any], path: str, placed: Placed) -> None:
    async def says(exchange: Exchange, body: Any) -> None:
        message = {"role": "assistant", "content": "x" * 900}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await exchange.answer_json(200, {"id": "1", "choices": [choice], "usage": usage})

    async with placed("chat", says) as place:
        assert (await post(place, LONG, path)).status_code == 200
        used = await total(place)
        assert (used.input > 10_000, used.output > 300) == (True, True)


@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
async def test_counting_tokens_is_free_and_passed_on_as_it_is(wire: str, placed: Placed) -> None:
    path = "/v1/messages/count_tokens" if wire == "anthropic" else "/v1beta/models/m:countTokens"

    async def counts(exchange: Exchange, body: Any) -> None:
        await exchange.answer_json(200, {"input_tokens": 7})

    async with placed(wire, counts, per_sandbox=Allowance(tokens=300), options={"top_k": 4}) as place:
        assert (await post(place, {"model": "m", "messages": LONG["messages"]}, path)).status_code == 200
        assert set(place.provider.asked[0].body) == {"model", "messages"}
        assert await reserved(place) == 0


async def test_answers_at_once_are_each_counted(placed: Placed) -> None:
    async with placed("chat", per_sandbox=Allowance(tokens=2000)) as place:
        assert (await post(place, {**ASK, "n": 10}, ENDPOINTS["chat"])).status_code == 200
        assert 100 <= place.provider.asked[0].body["max_tokens"] < 200
        assert (await post(place, {**ASK, "n": 1e9}, ENDPOINTS["chat"])).status_code == 400


@pytest.mark.parametrize("bound", [Allowance(requests=5), Allowance(money=1)])
@pytest.mark.parametrize("path", [ENDPOINTS["anthropic"], ENDPOINTS["chat"]])
async def test_more_than_can_be_counted(bound: Allowance, path: str, placed: Placed) -> None:
    async with placed("chat", per_sandbox=bound, prices={"*": Price(0, 0)}) as place:
        assert (await post(place, {**ASK, "max_tokens": 10**3000}, path)).status_code == 200
        assert place.provider.asked[0].body["max_tokens"] < 1 << 33


async def test_a_reservation_is_given_back_whenever_somebody_hangs_up(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with placed("anthropic", silent, per_sandbox=Allowance(requests=100, tokens=1000)) as place:
        ledger, entered = place.gateway._ledger, asyncio.Event()
        reserve = ledger.reserve

        async def slow(*args: Any) -> Any:
            found = await reserve(*args)
            entered.set()
            await asyncio.sleep(0.2)
            return found

        monkeypatch.setattr(ledger, "reserve", slow)
        task = asyncio.ensure_future(post(place))
        await entered.wait()
        assert await reserved(place) > 500
        task.cancel()
        await ended(place)
        assert (await reserved(place), place.provider.asked) == (0, [])


async def test_nothing_is_asked_that_cannot_be_counted(placed: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async with placed("anthropic", per_sandbox=MANY) as place:
        monkeypatch.setattr("paddock.gateway.ledger._insert", broken)
        refused = await post(place)
        assert (refused.status_code, "disk" in refused.text) == (503, False)
        assert place.provider.asked == []


async def test_what_is_answered_is_answered_though_it_cannot_be_written_down(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []

    def broken(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with placed("anthropic") as place:
        monkeypatch.setattr("paddock.gateway.ledger._settle", broken)
        assert (await post(place)).status_code == 200
        assert (await post(place)).status_code == 200
    assert [one["message"] for one in told] == ["What a model has used could not be written down"] * 2
    assert "full" in str(told[0]["exception"])
