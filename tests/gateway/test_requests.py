"""What sandboxes may ask, what providers may say, and what neither gets: the key, or more than is allowed."""

import asyncio
import gzip
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gateway.conftest import Place, Placed
from gateway.providers import KEY, fake, usual
from paddock import Allowance, ConfigError, Connector, Event, Gateway, NotAuthorizedError, Price, Sandbox, sync
from paddock.consent import begun_by
from paddock.gateway import asking, intake
from paddock.http.server import Exchange

ASK: dict[str, Any] = {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "hi"}]}
ENDPOINTS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
}


async def post(place: Place, body: Any = ASK, path: str = "/v1/messages", **headers: str) -> httpx2.Response:
    shown = {"x-api-key": place.token, **headers}
    async with httpx2.AsyncClient(timeout=60) as client:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(place.url + path, content=data, headers=shown)


async def totals(place: Place) -> list[tuple[str | None, int, int]]:
    """Model, requests, failed."""
    return [(one.group, one.requests, one.failed) for one in await place.gateway._ledger.totals()]


# Who may ask


@pytest.mark.parametrize("wire", ENDPOINTS)
async def test_without_the_token(wire: str, placed: Placed) -> None:
    async with placed(wire) as place:
        for headers in ({"x-api-key": "wrong"}, {"x-api-key": ""}, {"authorization": "Bearer x", "x-api-key": ""}):
            refused = await post(place, path=ENDPOINTS[wire], **headers)
            assert refused.status_code == 401
            assert "token" in refused.json()["error"]["message"]
        assert place.provider.asked == []
        assert (await post(place, path=ENDPOINTS[wire])).status_code == 200


@pytest.mark.parametrize("way", ["x-api-key", "x-goog-api-key", "authorization", "query"])
async def test_every_way_to_show_it(way: str, placed: Placed) -> None:
    async with placed("gemini") as place:
        shown = {} if way == "query" else {way: f"Bearer {place.token}" if way == "authorization" else place.token}
        query = f"?key={place.token}" if way == "query" else ""
        answer = await post(place, path=ENDPOINTS["gemini"] + query, **{"x-api-key": "", **shown})
        assert answer.status_code == 200
        assert place.token not in place.provider.asked[0].path
        assert place.token not in str(place.provider.asked[0].headers)


async def test_another_sandboxes_token(placed: Placed) -> None:
    async with placed("anthropic") as one, Sandbox.create("local") as other:
        there = await one.gateway.attach(other, port=0)
        assert there.token != one.token
        assert (await post(one, **{"x-api-key": there.token})).status_code == 401
        assert (await post(one)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("DELETE", "/v1/messages"),
        ("POST", "/"),
        ("POST", "/v1/messages/"),
        ("POST", "//v1/messages"),
        ("POST", "/v1/messages/../files"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/files"),
        ("POST", "/v1/embeddings"),
        ("GET", "/v1/organizations/api_keys"),
        ("POST", "/v1beta/models/m:batchGenerateContent"),
        ("POST", "/v1beta/models/a/b:generateContent"),
        ("POST", "/v1beta/models/%2e%2e:generateContent"),
        ("POST", "/v1/responses/resp_1/cancel"),
    ],
)
async def test_there_is_nothing_else(method: str, path: str, placed: Placed) -> None:
    async with placed("anthropic") as place, httpx2.AsyncClient() as client:
        headers = {"x-api-key": place.token}
        answer = await client.request(method, place.url + path, content=json.dumps(ASK), headers=headers)
        assert answer.status_code in (400, 404)
        assert place.provider.asked == []


async def test_health_and_models(placed: Placed) -> None:
    async with placed("chat", model="big", background="small") as place, httpx2.AsyncClient() as client:
        assert (await client.get(f"{place.url}/health")).json() == {"status": "ok"}
        assert (await client.get(f"{place.url}/v1/models")).status_code == 401
        listed = await client.get(f"{place.url}/v1/models", headers={"authorization": f"Bearer {place.token}"})
        assert [one["id"] for one in listed.json()["data"]] == ["big", "small"]


async def test_a_model_does_not_attach(tmp_path: Path) -> None:
    connector = Connector("c", "https://x.example")
    async with Gateway([connector], ledger=tmp_path / "u") as gateway, Sandbox.create("local") as sb:
        with begun_by("model"), pytest.raises(NotAuthorizedError):
            await gateway.attach(sb)


async def test_a_key_that_is_missing_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    connector = Connector("c", "https://x.example", "$ENV.NO_SUCH_KEY")
    async with Gateway([connector], ledger=tmp_path / "u") as gateway, Sandbox.create("local") as sb:
        with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
            await gateway.attach(sb)
        with pytest.raises(ConfigError, match="nothing"):
            await gateway.attach(sb, "nothing")
        assert "ANTHROPIC_BASE_URL" not in (await sb.exec("env")).stdout


# What gets to the provider


async def test_the_body_is_passed_on_as_it_is(placed: Placed) -> None:
    body = b'{ "messages" : [{"role":"user","content":"\\u00e4 \xc3\xa4"}],\n"model":"m", "x":1e2, "max_tokens":9}'
    async with placed("anthropic") as place:
        assert (await post(place, body)).status_code == 200
        assert place.provider.asked[0].raw == body


async def test_only_the_model_is_replaced(placed: Placed) -> None:
    body = b'{ "messages" : [],\n"model":"claude-opus-9", "x":1e2}'
    async with placed("anthropic", model="mine") as place:
        await post(place, body)
        assert place.provider.asked[0].raw == body.replace(b"claude-opus-9", b"mine")


async def test_only_listed_headers_are_passed_on(placed: Placed) -> None:
    sent = {
        "anthropic-beta": "b1",
        "cookie": "c=1",
        "x-evil": "1",
        "authorization": "Bearer zzz",
        "host": "evil.example",
    }
    async with placed("anthropic") as place:
        assert (await post(place, **sent)).status_code == 200
        got = place.provider.asked[0].headers
        assert got["anthropic-beta"] == "b1"
        assert got["x-api-key"] == KEY
        assert got["host"] == place.provider.url.removeprefix("http://")
        assert not {"cookie", "x-evil", "authorization"} & set(got)
        assert place.token not in str(got)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model":"a","model":"b"}', b'{"a":' + b"[" * 99_999, b"\xff"])
async def test_bodies_that_are_none(body: bytes, placed: Placed) -> None:
    async with placed("anthropic") as place:
        refused = await post(place, body)
        assert refused.status_code == 400
        assert refused.json()["error"]["type"] == "invalid_request_error"
        assert place.provider.asked == []


async def test_a_body_that_is_too_long(placed: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_BODY", 1000)
    async with placed("anthropic") as place:
        assert (await post(place, b'{"a":"' + b"x" * 2000 + b'"}')).status_code == 413


async def test_what_cannot_be_translated_is_refused_with_its_place(placed: Placed) -> None:
    async with placed("chat") as place:
        refused = await post(place, {**ASK, "messages": 3})
        assert (refused.status_code, "messages" in refused.text) == (400, True)
        refused = await post(place, path=ENDPOINTS["gemini"])
        assert (refused.status_code, "Gemini" in refused.text) == (400, True)
        assert place.provider.asked == []


async def test_tokens_are_guessed_where_nobody_can_be_asked(placed: Placed) -> None:
    async with placed("chat") as place:
        assert (await post(place, path="/v1/messages/count_tokens")).json()["input_tokens"] > 0
        assert place.provider.asked == []
    async with placed("anthropic") as place:
        assert (await post(place, path="/v1/messages/count_tokens")).json() == {"input_tokens": 7}


# What providers may say


async def test_a_redirect_is_not_followed(placed: Placed) -> None:
    async with fake() as elsewhere:

        async def leads_away(exchange: Exchange, body: Any) -> None:
            await exchange.answer(307, b"", "text/plain", [("location", f"{elsewhere.url}/v1/messages")])

        async with placed("anthropic", leads_away) as place:
            assert (await post(place)).status_code == 502
            assert elsewhere.asked == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_the_key_is_taken_out_of_errors(status: int, wire: str, placed: Placed) -> None:
    async def echoes(exchange: Exchange, body: Any) -> None:
        message = f"wrong key: {KEY}"
        await exchange.answer_json(status, {"error": {"message": message}}, [("request-id", KEY)])

    async with placed(wire, echoes) as place:
        refused = await post(place)
        assert refused.status_code == status
        assert "wrong key" in refused.json()["error"]["message"]
        assert KEY not in refused.text + str(refused.headers)
        assert refused.json()["type"] == "error"
        assert await totals(place) == [("m", 1, 1)]


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_the_key_is_taken_out_of_answers(wire: str, placed: Placed) -> None:
    async def echoes(exchange: Exchange, body: Any) -> None:
        if wire == "anthropic":
            start = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": KEY}}
            events = [b"event: x\ndata: " + json.dumps(start).encode() + b"\n\n"]
        else:
            chunk = {"id": "1", "choices": [{"index": 0, "delta": {"content": f"it is {KEY}"}}]}
            events = [f"data: {json.dumps(chunk)}\n\n".encode(), b"data: [DONE]\n\n"]
        await exchange.start(200, [("content-type", "text/event-stream"), ("x-request-id", KEY)])
        for byte in b"".join(events):
            await exchange.send(bytes([byte]))
        await exchange.finish()

    async with placed(wire, echoes) as place:
        answer = await post(place, {**ASK, "stream": True})
        assert "*" * len(KEY) in answer.text
        assert KEY not in answer.text + str(answer.headers)


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_an_answer_without_an_end(wire: str, placed: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MAX_ANSWER", 1 << 20)

    async def endless(exchange: Exchange, body: Any) -> None:
        await exchange.start(200, [("content-type", "text/event-stream")])
        while True:
            await exchange.send(b"data: " + b"x" * 65_536)

    async with placed(wire, endless) as place:
        with pytest.raises(httpx2.HTTPError):
            (await post(place, {**ASK, "stream": True})).raise_for_status()
        await asyncio.wait_for(place.provider.hung_up.wait(), 30)
        assert await totals(place) == [("m", 1, 1)]


async def test_an_answer_that_is_packed(placed: Placed) -> None:
    async def packed(exchange: Exchange, body: Any) -> None:
        bomb = gzip.compress(bytes(1 << 20))
        await exchange.answer(200, bomb, "application/json", [("content-encoding", "gzip")])

    async with placed("chat", packed) as place:
        assert (await post(place)).status_code == 502
        assert place.provider.asked[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("answer", [b"", b"nonsense", b"[]", b'{"choices": 3}', b"{}", b'{"error": {"message": "no"}}'])
async def test_answers_that_cannot_be_understood(answer: bytes, placed: Placed) -> None:
    async def says(exchange: Exchange, body: Any) -> None:
        await exchange.answer(200, answer, "application/json")

    async with placed("chat", says) as place:
        told = await post(place)
        assert told.status_code >= 400 or told.json()["type"] == "message"
        streamed = await post(place, {**ASK, "stream": True})
        assert streamed.status_code == 200
        assert "error" in streamed.text


async def test_a_provider_that_hangs_up_in_the_middle(placed: Placed) -> None:
    async def cut(exchange: Exchange, body: Any) -> None:
        await exchange.start(200, [("content-type", "text/event-stream")])
        await exchange.send(b'data: {"type":"x"}\n\n')
        raise ConnectionAbortedError

    async with placed("anthropic", cut) as place:
        with pytest.raises(httpx2.HTTPError):
            await post(place, {**ASK, "stream": True})
        assert await totals(place) == [("m", 1, 1)]


async def test_nobody_there(placed: Placed) -> None:
    async with placed("anthropic", retries=0) as place:
        await _gone(place)
        assert (await post(place)).status_code == 502


async def _gone(place: Place) -> None:
    """Its upstream leads to where nobody listens."""
    upstream = place.gateway._upstreams["fake"]
    object.__setattr__(upstream.connector, "base_url", "http://127.0.0.1:9")


async def test_it_is_tried_again(placed: Placed) -> None:
    states = [529, 503, 200]

    async def unsteady(exchange: Exchange, body: Any) -> None:
        status = states.pop(0)
        if status == 200:
            await usual(exchange, body)
        else:
            await exchange.answer_json(status, {"error": {"message": "busy"}})

    async with placed("anthropic", unsteady) as place:
        assert (await post(place)).status_code == 200
        assert len(place.provider.asked) == 3


async def test_not_for_ever_and_not_for_everything(placed: Placed) -> None:
    async def busy(exchange: Exchange, body: Any) -> None:
        await exchange.answer_json(429, {"error": {"message": "busy"}}, [("retry-after", "3600")])

    async with placed("anthropic", busy) as place:
        refused = await post(place)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "3600")
        assert len(place.provider.asked) == 1

    async def wrong(exchange: Exchange, body: Any) -> None:
        await exchange.answer_json(400, {"error": {"message": "no"}})

    async with placed("anthropic", wrong) as place:
        assert (await post(place)).status_code == 400
        assert len(place.provider.asked) == 1


# Who hangs up


@asynccontextmanager
async def hanging(placed: Placed, wire: str) -> AsyncIterator[Place]:
    async def hangs(exchange: Exchange, body: Any) -> None:
        await exchange.start(200, [("content-type", "text/event-stream")])
        await exchange.send(b": begun\n\n")
        await exchange.gone()
        raise ConnectionAbortedError

    async with placed(wire, hangs) as place:
        yield place


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_who_hangs_up_is_not_waited_for(wire: str, placed: Placed) -> None:
    async with hanging(placed, wire) as place:
        task = asyncio.ensure_future(post(place, {**ASK, "stream": True}))
        while not place.provider.asked:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait_for(place.provider.hung_up.wait(), 30)
        while await totals(place) != [("m", 1, 1)]:
            await asyncio.sleep(0.01)


async def test_closing_ends_what_runs(placed: Placed) -> None:
    async with hanging(placed, "anthropic") as place:
        task = asyncio.ensure_future(post(place, {**ASK, "stream": True}))
        while not place.provider.asked:
            await asyncio.sleep(0.01)
        assert "ANTHROPIC_API_KEY" in (await place.sb.exec("env")).stdout
        await place.attachment.close()
        with pytest.raises(httpx2.HTTPError):
            await task
        await asyncio.wait_for(place.provider.hung_up.wait(), 30)
        assert "ANTHROPIC_API_KEY" not in (await place.sb.exec("env")).stdout
        with pytest.raises(httpx2.HTTPError):
            (await post(place)).raise_for_status()


# How much


async def test_requests_are_counted(placed: Placed) -> None:
    async with placed("anthropic", per_sandbox=Allowance(requests=2)) as place:
        done = [await post(place) for _ in range(3)]
        assert [one.status_code for one in done] == [200, 200, 429]
        assert [one.headers.get("x-should-retry") for one in done] == [None, None, "false"]  # agents would, for minutes
        assert len(place.provider.asked) == 2


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_many_at_once_do_not_get_past_it(wire: str, placed: Placed) -> None:
    """Each may use more than 500 tokens, so that two fit into what is allowed."""
    async with placed(wire, per_sandbox=Allowance(tokens=1200)) as place:
        done = await asyncio.gather(*(post(place) for _ in range(20)))
        states = sorted(one.status_code for one in done)
        assert len(place.provider.asked) == states.count(200) < 20
        totals = await place.gateway._ledger.totals()
        assert sum(one.input + one.output for one in totals) <= 1200


async def test_the_answer_is_bounded_by_what_is_left(placed: Placed) -> None:
    for wire in ("anthropic", "chat"):
        async with placed(wire, per_sandbox=Allowance(tokens=450)) as place:
            assert (await post(place)).status_code == 200
            assert 256 <= place.provider.asked[0].body["max_tokens"] < 450


async def test_money_of_a_user(placed: Placed) -> None:
    prices = {"*": Price(10, 100)}
    bound = {"per_user": Allowance(money=0.06, per="1h"), "labels": {"user": "ada"}, "prices": prices}
    async with placed("anthropic", **bound) as place:
        assert (await post(place)).status_code == 200
        (total,) = await place.gateway._ledger.totals("user")
        assert total.group == "ada"
        assert total.money == pytest.approx((16 * 10 + 5 * 100) / 1e6)
        await asyncio.gather(*(post(place) for _ in range(10)))
        (total,) = await place.gateway._ledger.totals("user")
        assert total.money <= 0.06
    async with placed("anthropic", **{**bound, "prices": {}}) as place:
        assert (await post(place)).status_code == 429


# What is written down


async def test_events_and_the_ledger(placed: Placed) -> None:
    async with placed("anthropic") as place:
        async with place.sb.events() as events:
            await post(place)
            await post(place, **{"x-api-key": "wrong"})
            found: list[Event] = []
            while len(found) < 2:
                event = await anext(events)
                if event.kind == "model":
                    found.append(event)
        assert [(event.subject, event.outcome, event.count) for event in found] == [
            ("m", "ok", 21),
            (None, "NOT_AUTHORIZED", 0),
        ]
        assert found[1].denied
        (total,) = await place.gateway._ledger.totals()
        assert (total.input, total.output, total.cached) == (16, 5, 3)


async def test_many_streams(placed: Placed) -> None:
    async with placed("chat") as place:
        done = await asyncio.gather(*(post(place, {**ASK, "stream": True}) for _ in range(60)))
        assert all("message_stop" in one.text for one in done)
        (total,) = await place.gateway._ledger.totals()
        assert (total.requests, total.failed, total.output) == (60, 0, 300)


@pytest.mark.soak
@pytest.mark.alone  # it looks at the memory of this process
@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_200_streams_at_once_take_no_more_for_being_long(wire: str, placed: Placed) -> None:
    """Short ones first, for what each takes by itself: in this process are their clients and the provider, too."""
    piece = {"id": "1", "choices": [{"index": 0, "delta": {"content": "x" * 16_000}}]}
    event = f"data: {json.dumps(piece)}\n\n".encode()
    all_there = asyncio.Barrier(200)

    async def talks(exchange: Exchange, body: Any) -> None:
        await exchange.start(200, [("content-type", "text/event-stream")])
        await exchange.send(b": begun\n\n")
        await all_there.wait()
        for _ in range(body["max_tokens"]):
            await exchange.send(event)
        await exchange.send(b"data: [DONE]\n\n")
        await exchange.finish()

    async with placed(wire, talks) as place, httpx2.AsyncClient(timeout=100, limits=httpx2.Limits()) as client:

        async def read(pieces: int) -> int:
            shown, size = {"x-api-key": place.token}, 0
            body = json.dumps({**ASK, "stream": True, "max_tokens": pieces})
            async with client.stream("POST", f"{place.url}/v1/messages", content=body, headers=shown) as answer:
                async for chunk in answer.aiter_raw():
                    size += len(chunk)
            return size

        async def most_memory(pieces: int) -> int:
            most, reading = 0, asyncio.gather(*(read(pieces) for _ in range(200)))
            while not reading.done():
                most = max(most, _memory())
                await asyncio.sleep(0.01)
            assert min(reading.result()) > pieces * 16_000
            return most

        short = await most_memory(32)
        assert await most_memory(128) - short < 24 << 20  # of 300 MiB more that pass


def _memory() -> int:
    """What this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_without_async(tmp_path: Path) -> None:
    connector = Connector("c", "http://127.0.0.1:9", lambda: KEY, "m", retries=0)
    with sync.Gateway([connector], ledger=tmp_path / "usage") as gateway, sync.Sandbox.create("local") as sb:
        attachment = gateway.attach(sb, port=0)
        token = sb.exec('printf %s "$OPENAI_API_KEY"').stdout
        assert (attachment.token, attachment.connector.name) == (token, "c")
        ask = "import os, urllib.request as u; print(u.urlopen(os.environ['ANTHROPIC_BASE_URL'] + '/health').status)"
        assert sb.exec(["python3", "-c", ask]).stdout == "200\n"
        attachment.close()
        assert sb.exec('printf %s "$OPENAI_API_KEY"').stdout == ""


async def test_a_users_allowance_without_a_user_is_whoever_runs_this(placed: Placed) -> None:
    async with placed("anthropic", per_user=Allowance(requests=1, per="1h")) as place:
        assert [(await post(place)).status_code for _ in range(2)] == [200, 429]
        (total,) = await place.gateway._ledger.totals("user")
        assert total.group


@pytest.mark.parametrize(
    ("status", "said", "final"),
    [(401, {}, True), (403, {}, True), (400, {"x-should-retry": "false"}, True), (500, {}, False)],
)
async def test_agents_are_told_when_asking_again_will_not_help(
    status: int, said: dict[str, str], final: bool, placed: Placed
) -> None:
    async def refuses(exchange: Exchange, body: Any) -> None:
        await exchange.answer_json(status, {"error": {"message": "no"}}, said.items())

    async with placed("anthropic", refuses, retries=0) as place:
        assert ((await post(place)).headers.get("x-should-retry") == "false") == final
