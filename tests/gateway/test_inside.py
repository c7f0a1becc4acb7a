"""What a sandbox sees of the gateway: an address, a token, and no key anywhere; and the real router in between."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.conftest import Placed
from gateway.providers import KEY
from paddock import Mount, Namespaces, Sandbox, router_config
from paddock.http.server import Exchange

ROUTER = "@musistudio/claude-code-router@2.0.0"
ASK = """
import json, os, urllib.error, urllib.request
def ask(model, **more):
    body = {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}], **more}
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
                                     {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError as error:
        return str(error)
    except Exception as error:
        return repr(error)
"""
LOOK = """
import os, re
marker = re.compile(os.environ["A"].encode() + b"-" + os.environ["B"].encode())
def look(path, data):
    if marker.search(data):
        print("found in", path)
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            look((pid, name), open(f"/proc/{pid}/{name}", "rb").read())
        except OSError:
            pass
    if int(pid) == os.getpid():
        continue  # it knows what it looks for
    try:
        maps, memory = open(f"/proc/{pid}/maps").read().splitlines(), open(f"/proc/{pid}/mem", "rb", 0)
    except OSError:
        continue
    for line in maps:
        begin, end = (int(one, 16) for one in line.split()[0].split("-"))
        try:
            memory.seek(begin)
            look((pid, line), memory.read(end - begin))
        except (OSError, ValueError, OverflowError):
            pass
for top in ("/workspace", "/cache", "/home", "/tmp", "/run", "/etc", "/dev/shm"):
    for place, _, names in os.walk(top):
        for name in names:
            path = os.path.join(place, name)
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 1 << 22:
                    look(path, open(path, "rb").read())
            except OSError:
                pass
print("looked")
"""


async def fails_in_turn(exchange: Exchange, body: dict[str, Any]) -> None:
    """Every way to fail, by the name of the model; the key is in all that is said."""
    said = json.dumps({"error": {"message": f"no: {KEY}"}}).encode()
    match body["model"]:
        case "cut":
            await exchange.start(200, [("content-type", "text/event-stream"), ("x-request-id", KEY)])
            await exchange.send(said)
            raise ConnectionAbortedError
        case "away":
            await exchange.answer(302, said, "application/json", [("location", f"http://127.0.0.1:9/{KEY}")])
        case "packed":
            await exchange.answer(200, said, "application/json", [("content-encoding", "gzip")])
        case "echo":
            await exchange.answer(200, said, "application/json", [("request-id", KEY)])
        case status:
            await exchange.answer(int(status), said, "application/json", [("request-id", KEY)])


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_the_key_is_nowhere(wire: str, placed: Placed, tmp_path: Path) -> None:
    """After answers and failures of every kind: not in files, environments or memory inside, nor in logs of the host."""
    before, _, after = KEY.rpartition("-")
    async with placed(wire, fails_in_turn, backend="namespaces", retries=0) as place:
        await place.sb.write("ask.py", ASK + "while True:\n    print(ask(input()), flush=True)\n")
        async with await place.sb.start(["python3", "ask.py"], stdin=True) as process:
            for model in ("echo", "cut", "away", "packed", "400", "401", "403", "404", "429", "500", "529", "600"):
                await process.write(f"{model}\n".encode())
                async for chunk in process:
                    assert KEY not in chunk.text
                    break
            seen = await place.sb.exec(["python3", "-c", LOOK], env={"A": before, "B": after}, check=True)
            assert seen.stdout == "looked\n"
            await process.kill()
        shown = [{asked.headers.get("authorization"), asked.headers.get("x-api-key")} for asked in place.provider.asked]
        assert all(shown_one & {KEY, f"Bearer {KEY}"} for shown_one in shown)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "audit.jsonl" for path in kept)
    assert [path for path in kept if KEY.encode() in path.read_bytes()] == []


async def test_the_marker_would_be_found() -> None:
    """The allowed twin: what looks for a key finds one that is there."""
    before, _, after = KEY.rpartition("-")
    async with Sandbox.create(env={"LEAKED": KEY}) as sb:
        await sb.write("leak.txt", KEY)
        async with await sb.start(["sleep", "60"]) as process:
            seen = await sb.exec(["python3", "-c", LOOK], env={"A": before, "B": after}, check=True)
            await process.kill()
        assert "environ" in seen.stdout
        assert "leak.txt" in seen.stdout
        assert "[stack]" in seen.stdout


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real one, from npm, in the directory that PADDOCK_ROUTER names or in one of its own."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("there is no npm here to fetch the router with")
    place = Path(os.environ.get("PADDOCK_ROUTER") or tmp_path_factory.mktemp("router"))
    if not (place / "node_modules/.bin/ccr").exists():
        words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place), ROUTER]
        done = subprocess.run(words, capture_output=True, text=True, timeout=100)
        if done.returncode:
            pytest.skip("the router cannot be fetched with npm here")
    return place


async def test_the_real_router(router: Path, placed: Placed) -> None:
    async with placed("chat", backend="namespaces", model="deep-seek") as place:
        inside = await Sandbox.create(Namespaces(), mounts=[Mount(router, "/router")])
        try:
            attachment = await place.gateway.attach(inside)
            config = router_config(attachment.connector, url=attachment.url, token=attachment.token)
            await inside.write("/home/agent/.claude-code-router/config.json", json.dumps(config))
            program = (router / "node_modules/.bin/ccr").resolve().relative_to(router.resolve())
            async with await inside.start(["node", f"/router/{program}", "start"]):
                await inside.wait_for_port(3456, timeout=60)
                await inside.write("ask.py", ASK + "print(ask('claude-sonnet-4-5', stream=True))\n")
                env = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:3456"}
                done = await inside.exec(["python3", "ask.py"], env=env, check=True)
        finally:
            await inside.close()
        assert "hi " in done.stdout
        assert "message_stop" in done.stdout
        assert KEY not in done.stdout
        (asked,) = place.provider.asked
        assert (asked.body["model"], asked.headers["authorization"]) == ("deep-seek", f"Bearer {KEY}")
