"""How each provider offers tools, calls them, and wants the results: one file each, and no package of theirs."""

from typing import Literal

from paddock.tools.providers import anthropic, chat, gemini, responses
from paddock.tools.providers.shapes import Asked, Provider

ProviderName = Literal["anthropic", "chat", "responses", "gemini"]

PROVIDERS: dict[str, Provider] = {
    "anthropic": anthropic.Anthropic(),
    "chat": chat.Chat(),
    "responses": responses.Responses(),
    "gemini": gemini.Gemini(),
}

__all__ = ["PROVIDERS", "Asked", "Provider", "ProviderName"]
