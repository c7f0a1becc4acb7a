"""Whether a connector works: by asking for a word."""

import json
from typing import Any

from paddock.errors import ConfigError, UnavailableError
from paddock.gateway.asking import message_of
from paddock.gateway.connectors import Connector
from paddock.gateway.errors import RequestFailed
from paddock.gateway.translate import merge_options
from paddock.gateway.upstream import Upstream
from paddock.http.scrubbing import Scrubber

_WORDS = "Say ok."
_MOST = 16


async def ask_for_a_word(connector: Connector, model: str | None = None) -> None:
    """Return if the provider answers; an `UnavailableError` says why not. `model` is instead of the connector's own."""
    model = model or connector.model
    if model is None:
        raise ConfigError(
            f"The connector '{connector.name}' names no model to ask.",
            hint="Name one with --model, or as model = in its block.",
        )
    wire, key = connector.kind.wires[0], connector.read_key()
    tail = f"{model}:generateContent" if wire == "gemini" else ""
    upstream = Upstream(connector)
    try:
        body = json.dumps(merge_options(_smallest(connector, wire, model), connector.options)).encode()
        reply, _ = await upstream.ask(wire, tail, body, {}, key)
        if reply.status_code != 200:
            words = await message_of(reply, Scrubber([key]))
            raise UnavailableError(
                f"HTTP {reply.status_code}: {words.rstrip('.')}.", hint="Look at its address, key and model."
            )
        await reply.aclose()
    except RequestFailed as failed:
        raise UnavailableError(failed.message, hint="Look at its address.") from None
    finally:
        await upstream.close()


def _smallest(connector: Connector, wire: str, model: str) -> dict[str, Any]:
    if wire == "gemini":
        limits = {"maxOutputTokens": _MOST}
        return {"contents": [{"role": "user", "parts": [{"text": _WORDS}]}], "generationConfig": limits}
    if wire == "responses":
        return {"model": model, "input": _WORDS, "max_output_tokens": _MOST, "store": False}
    bound = "max_completion_tokens" if connector.kind.name == "openai" else "max_tokens"
    return {"model": model, bound: _MOST, "messages": [{"role": "user", "content": _WORDS}]}
