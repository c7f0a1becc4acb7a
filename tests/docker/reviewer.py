"""A host process that works in layers, and tells what it found: `reviewer.py SOCKET DIRECTORY [die]`.

With `die` it is gone in the middle of it.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from paddock import Mount, Sandbox
from paddock.backends.docker import Docker


async def die(socket: str, top: str) -> None:
    host = Path(top, "killed")
    host.mkdir()
    (host / "gone").write_text("x")
    async with Sandbox.create(Docker(socket=socket), workspace=host, review=True) as sb:
        assert (await sb.exec("rm gone; mkdir d; echo x > d/x; chmod 0 d")).exit_code == 0
        await sb.start(["sleep", "1000"])
        os.kill(os.getpid(), signal.SIGKILL)


async def main(socket: str, top: str, end: str = "") -> None:
    if end:
        await die(socket, top)
    found: dict[str, object] = {}
    for name in ("plain", "with, comma"):
        host = Path(top, name)
        host.mkdir(exist_ok=True)
        (host / "f").write_text("below")
        (host / "gone").write_text("x")
        async with Sandbox.create(
            Docker(socket=socket), mounts=[Mount(host, "/project", mode="rw")], review=True, workdir="/project"
        ) as sb:
            layer = sb._core.launched.driver.layers["/project"]  # type: ignore[attr-defined]
            told = await sb.exec("cat f; echo above > f; rm gone; mkdir d; echo new > d/n; cat f")
            assert told.exit_code == 0, told.stderr
            await sb.write("by-the-host", "x")
            upper = {path.name: path.lstat().st_uid for path in Path(layer.upper).iterdir()}
            found[name] = {
                "kind": layer.kind,
                "said": told.stdout,
                "read": await sb.read("f"),
                "upper": sorted(upper),
                "ours": all(uid == os.getuid() for name, uid in upper.items() if name != "gone"),
                "by": sb.isolation.files.by,
            }
        found[f"{name}, then"] = {path.name: path.read_text() for path in host.iterdir()}
    state = Path(os.environ["HOME"], ".local/state/paddock/sandboxes")
    found["left"] = [path.name for path in state.iterdir() if not path.name.startswith(".")]
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
