"""The same sequence of calls gives the same answers in memory and on a real file system."""

import asyncio
import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock import Sandbox, SandboxError
from paddock.testing import plant_link

EXAMPLES = 3_000 if os.environ.get("PADDOCK_SOAK") else 150

names = st.sampled_from(["a", "b", "c", "é", "a b", ".h"])
relative = st.lists(names, min_size=1, max_size=3).map("/".join)
tops = st.sampled_from(["", "/workspace/", "/cache/", "/tmp/", "/etc/", "../", "../cache/", "./"])
paths = st.one_of(
    st.tuples(tops, relative).map("".join),
    st.sampled_from([".", "/", "/workspace", "..", "/home", "", "a/../b", "a/.."]),
)
targets = st.one_of(
    relative, paths.filter(bool), st.sampled_from(["../..", "a/../../b", "/workspace/a", "/etc/passwd"])
)
content = st.one_of(st.text(max_size=5), st.binary(max_size=5))
patterns = st.sampled_from(["*", "**", "**/a", "a/*", "?", "[ab]", "*/b", "/workspace/**/b", "/*"])
modes = st.sampled_from([None, 0o600, 0o755])

calls = st.one_of(
    st.tuples(st.just("write"), paths, content),
    st.tuples(st.just("write_mode"), paths, modes),
    st.tuples(st.just("write_files"), st.dictionaries(paths, content, max_size=3)),
    st.tuples(st.just("read_bytes"), paths),
    st.tuples(st.just("read"), paths),
    st.tuples(st.just("range"), paths, st.integers(0, 6), st.integers(0, 6)),
    st.tuples(st.just("exists"), paths),
    st.tuples(st.just("stat"), paths),
    st.tuples(st.just("list"), paths),
    st.tuples(st.just("scan"), paths),
    st.tuples(st.just("mkdir"), paths),
    st.tuples(st.just("delete"), paths, st.booleans()),
    st.tuples(st.just("move"), paths, paths, st.booleans()),
    st.tuples(st.just("copy"), paths, paths, st.booleans()),
    st.tuples(st.just("glob"), patterns, paths),
    st.tuples(st.just("link"), relative, targets),
    st.tuples(st.just("set_workdir"), paths),
    st.tuples(st.just("view_read"), paths, paths),
    st.tuples(st.just("view_write"), paths, paths),
)


class Steps:
    """Each kind of call, as a comparable answer."""

    def __init__(self, sb: Sandbox) -> None:
        self.sb = sb

    async def do(self, call: tuple[Any, ...]) -> Any:
        name, *arguments = call
        try:
            step = getattr(self, name, None) or getattr(self.sb, name)
            return await step(*arguments)
        except SandboxError as error:
            return error.code, error.path, str(error)
        except FileNotFoundError:
            return "NO LINK MADE"

    async def write_mode(self, path: str, mode: int | None) -> None:
        await self.sb.write(path, "m", mode=mode)

    async def range(self, path: str, offset: int, limit: int) -> bytes:
        return await self.sb.read_bytes(path, offset=offset, limit=limit)

    async def stat(self, path: str) -> Any:
        return _comparable(await self.sb.stat(path))

    async def scan(self, path: str) -> Any:
        return [_comparable(found) for found in await self.sb.scan(path)]

    async def delete(self, path: str, recursive: bool) -> None:
        await self.sb.delete(path, recursive=recursive)

    async def move(self, path: str, to: str, overwrite: bool) -> None:
        await self.sb.move(path, to, overwrite=overwrite)

    async def copy(self, path: str, to: str, overwrite: bool) -> None:
        await self.sb.copy(path, to, overwrite=overwrite)

    async def link(self, path: str, target: str) -> None:
        try:
            plant_link(self.sb, path, target)
        except OSError as error:
            if isinstance(error, SandboxError):
                raise
            raise FileNotFoundError from None

    async def view_read(self, scope: str, path: str) -> Any:
        view = self.sb.restrict(scope)
        return await view.read_bytes(path), await view.list("/")

    async def view_write(self, scope: str, path: str) -> None:
        await self.sb.restrict(scope, read_only=False).write(path, "v")


def _comparable(found: Any) -> Any:
    size = None if found.is_dir else found.size
    mode = None if found.path in ("/", "/home") else found.mode
    return found.name, found.path, found.kind, size, mode, found.target


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(calls, max_size=14))
def test_memory_and_local_agree(sequence: list[tuple[Any, ...]]) -> None:
    async def both() -> None:
        async with Sandbox.create("memory") as one, Sandbox.create("local") as other:
            for call in sequence:
                answers = await Steps(one).do(call), await Steps(other).do(call)
                assert answers[0] == answers[1], call
            assert await one.glob("/**") == await other.glob("/**")

    asyncio.run(both())
