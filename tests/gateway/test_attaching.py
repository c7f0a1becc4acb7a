"""Attachments come and go: several of one sandbox, while the gateway closes, and when whoever closes it is cancelled."""

import asyncio

import httpx2
import pytest

from gateway.conftest import Placed
from gateway.test_requests import post
from paddock import ClosedError, Sandbox


async def test_another_one_of_the_same_sandbox(placed: Placed) -> None:
    async with placed("anthropic") as place:
        second = await place.gateway.attach(place.sb, port=0)
        assert second.token in (await place.sb.exec("env")).stdout
        await place.attachment.close()
        assert second.token in (await place.sb.exec("env")).stdout
        third = await place.gateway.attach(place.sb, port=0)
        await third.close()
        assert second.token in (await place.sb.exec("env")).stdout
        await second.close()
        assert "ANTHROPIC_API_KEY" not in (await place.sb.exec("env")).stdout


async def test_what_is_attached_while_the_gateway_closes(placed: Placed) -> None:
    async with placed("anthropic") as place, Sandbox.create("local") as other:
        attaching = asyncio.ensure_future(place.gateway.attach(other))
        await asyncio.sleep(0)
        await place.gateway.close()
        with pytest.raises(ClosedError):
            await attaching
        assert "ANTHROPIC_API_KEY" not in (await other.exec("env")).stdout


async def test_a_gateway_is_closed_twice(placed: Placed) -> None:
    async with placed("anthropic") as place:
        await post(place)
        await place.gateway.close()
        await place.gateway.close()


async def test_a_gateway_is_closed_though_one_is_cancelled(placed: Placed) -> None:
    async with placed("anthropic") as place:
        closing = asyncio.ensure_future(place.gateway.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(httpx2.HTTPError):
            (await post(place)).raise_for_status()
