"""A sandbox with a gateway to a fake provider, reached from this host as from inside."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.providers import KEY, Fake, fake
from paddock import Attachment, Connector, Gateway, Sandbox


@dataclass
class Place:
    """What a test has to do with."""

    sb: Sandbox
    gateway: Gateway
    attachment: Attachment
    provider: Fake
    url: str
    """The gateway, from this host."""

    @property
    def token(self) -> str:
        return self.attachment.token


Placed = Callable[..., AbstractAsyncContextManager[Place]]


@pytest.fixture
def placed(tmp_path: Path) -> Placed:
    """Makes one: by default of a provider that speaks what is named."""

    @asynccontextmanager
    async def make(
        wire: str | None = None, answer: Any = None, backend: str = "local", model: str | None = None, **more: Any
    ) -> AsyncIterator[Place]:
        gateway_options = {name: more.pop(name) for name in ("per_sandbox", "per_user") if name in more}
        create = {name: more.pop(name) for name in ("labels",) if name in more}
        async with fake(answer) as provider:
            connector = Connector("fake", provider.url, lambda: KEY, model, wire=wire, **more)  # type: ignore[arg-type]
            async with (
                Gateway([connector], ledger=tmp_path / "usage.sqlite", **gateway_options) as gateway,
                Sandbox.create(backend, **create) as sb,
            ):
                attachment = await gateway.attach(sb, port=0)
                async with await sb.expose(int(attachment.url.rpartition(":")[2])) as endpoint:
                    yield Place(sb, gateway, attachment, provider, endpoint.url.rstrip("/"))

    return make
