"""Engines that are not there, do not answer, or have not got what is wanted."""

import asyncio
import socket
from pathlib import Path

import pytest

from engines.daemon import Engine
from paddock import Sandbox, UnavailableError
from paddock.backends.docker import Docker, engine
from paddock.progress import reporting


async def test_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="podman system service"):
        await Sandbox.create(Docker(socket=tmp_path / "nothing.sock"), image="busybox")


async def test_an_address_that_is_none() -> None:
    with pytest.raises(UnavailableError, match="not the address"):
        await Sandbox.create(Docker(socket="carrier-pigeon://home"), image="busybox")


async def test_one_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.SECONDS_TO_ANSWER == 5
    monkeypatch.setattr(engine, "SECONDS_TO_ANSWER", 0.2)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "mute.sock"))
        listening.listen()
        with pytest.raises(UnavailableError, match="did not answer within"):
            await Sandbox.create(Docker(socket=tmp_path / "mute.sock"), image="busybox")


async def test_one_that_is_something_else(tmp_path: Path) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / "other.sock"):
        with pytest.raises(UnavailableError):
            await Sandbox.create(Docker(socket=tmp_path / "other.sock"), image="busybox")


async def test_an_image_that_is_nowhere(docker_engine: Engine, tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    with (
        reporting(lambda words, detail: told.append((words, detail))),
        pytest.raises(UnavailableError, match=r"'127\.0\.0\.1:1/nosuch:7' is not here and could not be pulled"),
    ):
        await Sandbox.create(Docker(socket=docker_engine.socket), image="127.0.0.1:1/nosuch:7")
    assert told[0] == ("pulling the image 127.0.0.1:1/nosuch:7", False)
    assert docker_engine.api.held() == []
