"""Asking a fake model as an agent does."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import pytest

from fake_model.agents import BODIES, PATHS, STREAMED
from paddock.testing import FakeModel


@dataclass
class Client:
    """Asks on any wire."""

    http: httpx.AsyncClient

    async def whole(self, model: FakeModel, wire: str, body: Any = None) -> httpx.Response:
        """The answer at once."""
        return await self.http.post(model.url + PATHS[wire], json=BODIES[wire] if body is None else body)

    async def answer(self, model: FakeModel, wire: str, body: Any = None) -> Any:
        """The same, which is no error."""
        answer = await self.whole(model, wire, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def events(self, model: FakeModel, wire: str) -> AsyncIterator[dict[str, Any]]:
        """The answer as a stream."""
        body = BODIES[wire] | ({} if wire == "gemini" else {"stream": True})
        async with self.http.stream("POST", model.url + STREAMED[wire], json=body) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=60) as http:
        yield Client(http)
