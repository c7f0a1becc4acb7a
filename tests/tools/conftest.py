"""Sandboxes with tools over them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from engines.backends import contained
from paddock import Memory, Namespaces, Sandbox
from paddock.driver import BackendSpec
from paddock.testing import COMMANDS
from paddock.tools import Tools, sandbox_tools


@pytest.fixture(params=["memory", "namespaces", "docker"])
def backend(request: pytest.FixtureRequest) -> BackendSpec:
    """Where files and commands are each reached in another way."""
    here: dict[str, BackendSpec] = {"memory": Memory(commands=COMMANDS), "namespaces": Namespaces()}
    return here[request.param] if request.param in here else contained(request, request.param)


@pytest_asyncio.fixture
async def sb(backend: BackendSpec) -> AsyncIterator[Sandbox]:
    async with Sandbox.create(backend) as sandbox:
        yield sandbox


@pytest.fixture
def tools(sb: Sandbox) -> Tools:
    return sandbox_tools(sb)


@pytest_asyncio.fixture
async def memory() -> AsyncIterator[Sandbox]:
    """For what has nothing to do with where it runs."""
    async with Sandbox.create(Memory(commands=COMMANDS)) as sandbox:
        yield sandbox


@pytest_asyncio.fixture
async def real() -> AsyncIterator[Sandbox]:
    async with Sandbox.create(Namespaces()) as sandbox:
        yield sandbox
