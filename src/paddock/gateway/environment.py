"""How the agents inside find the gateway: every one has its own names for it."""

from paddock.gateway.connectors import Connector

_MOST_OUTPUT = "16384"
"""Other providers' models take less than Claude asks for by itself."""


def variables(connector: Connector, token: str, port: int) -> dict[str, str]:
    """What commands find in their environment."""
    url = f"http://127.0.0.1:{port}"
    found = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": token,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": token,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": token,
    }
    if "anthropic" not in connector.kind.wires:
        found["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = _MOST_OUTPUT
    if connector.model is not None:
        found |= _claude_models(connector, connector.model)
    return found


def _claude_models(connector: Connector, model: str) -> dict[str, str]:
    small = connector.background or model
    return {
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": connector.think or model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": small,
        "CLAUDE_CODE_SUBAGENT_MODEL": model,
    }
