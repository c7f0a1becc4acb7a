"""`paddock run --connector`, `paddock connectors` and `paddock usage`, as people call them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.providers import KEY, Fake, fake
from paddock.http.server import Exchange

TOML = """
[connectors.fake]
base_url = "{url}"
key = "$ENV.FAKE_KEY"
model = "m"
wire = "chat"

[connectors.fake.prices."*"]
input = 10
output = 100
"""
ASK = (
    "import json, os, urllib.request as u;"
    "b = json.dumps({'model': 'x', 'max_tokens': 9, 'messages': [{'role': 'user', 'content': 'hi'}]}).encode();"
    "r = u.Request(os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages', b, {'x-api-key': os.environ['ANTHROPIC_API_KEY']});"
    "print(json.load(u.urlopen(r))['content'][0]['text'])"
)


async def paddock(*words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "paddock", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    assert KEY not in (out + errors).decode()
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


def configure(provider: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TOML.format(url=provider.url))
    monkeypatch.setenv("PADDOCK_CONFIG", str(file))
    monkeypatch.setenv("FAKE_KEY", KEY)


async def test_from_run_to_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake() as provider:
        configure(provider, tmp_path, monkeypatch)
        assert await paddock("run", "--connector", "fake", "--", "python3", "-c", ASK) == (0, "hi there\n", "")
        assert provider.asked[0].headers["authorization"] == f"Bearer {KEY}"
        code, out, _ = await paddock(
            "run", "--connector", "fake", "--json", "--", "sh", "-c", "env | grep -c API_KEY=paddock-"
        )
        assert (code, json.loads(out)["stdout"]) == (0, "3\n")
        code, out, _ = await paddock("usage")
        assert out.splitlines()[1].split() == ["m", "1", "0", "16", "3", "5", "0.0007"]
        code, out, _ = await paddock("usage", "--by", "connector", "--json", "--since", "1h")
        assert json.loads(out)["connector"] == "fake"
        assert (await paddock("usage", "--connector", "other"))[1].count("\n") == 1
        code, out, _ = await paddock("logs", "--json")
        (model,) = [one for one in map(json.loads, out.splitlines()) if one["kind"] == "model"]
        assert (model["subject"], model["outcome"], model["initiator"]) == ("m", "ok", "model")


async def test_connectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake() as provider:
        configure(provider, tmp_path, monkeypatch)
        code, out, _ = await paddock("connectors")
        assert out.splitlines()[1].split() == ["fake", "custom", "m", provider.url, "$ENV.FAKE_KEY"]
        assert json.loads((await paddock("connectors", "list", "--json"))[1])["connectors"][0]["name"] == "fake"
        assert (await paddock("connectors", "check"))[:2] == (0, "fake: ok\n")

        async def refuses(exchange: Exchange, body: Any) -> None:
            await exchange.answer_json(401, {"error": {"message": f"bad key {KEY}"}})

        provider.answer = refuses
        code, out, _ = await paddock("connectors", "check", "fake")
        assert (code, "bad key ***" in out) == (1, True)
        code, out, _ = await paddock("config")
        assert "connectors               fake" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "--connector", "fake", "--", "true"], "There is no connector 'fake'"),
        (["connectors", "check", "fake"], "There is no connector 'fake'"),
        (["connectors", "check"], "There are no connectors."),
        (["usage", "--by", "moon"], "day, user"),
        (["run", "-d", "--connector", "fake", "--", "true"], "contradict"),
    ],
)
async def test_mistakes(words: list[str], told: str) -> None:
    code, out, errors = await paddock(*words)
    assert code in (1, 125)
    assert told in out + errors
