"""An image that is not here is pulled, and says how far it is."""

import os
import shutil
from pathlib import Path

from docker.registry import Image, serving
from engines.daemon import Engine
from paddock import Sandbox
from paddock.backends.docker import Docker
from paddock.progress import reporting


async def test_it_is_pulled(docker_engine: Engine) -> None:
    told: list[tuple[str, bool]] = []
    busybox = Path(shutil.which("busybox") or "/bin/busybox").read_bytes()
    with serving(Image({"bin/busybox": busybox, "bin/sh": busybox, "big": os.urandom(3 << 20)})) as registry:
        name = f"{registry}/tools/small:1"
        with reporting(lambda words, detail: told.append((words, detail))):
            async with Sandbox.create(Docker(socket=docker_engine.socket), image=name) as sb:
                assert (await sb.exec("echo $PULLED")).stdout == "yes\n"
                assert (await sb.stat("/big")).size == 3 << 20
        assert [words for words, detail in told if not detail] == [
            f"pulling the image {name}",
            f"pulled the image {name}",
        ]
        assert any("Downloading" in words or "Pull complete" in words for words, detail in told if detail)
        told.clear()
        with reporting(lambda words, detail: told.append((words, detail))):
            async with Sandbox.create(Docker(socket=docker_engine.socket), image=name):
                assert told == []  # it is here now
        docker_engine.api.call("DELETE", f"/images/{name}", force="1")
