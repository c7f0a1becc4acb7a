"""Which model an assistant asks: whether it needs one, and by which connector."""

from collections.abc import Collection

from paddock.assistants.assistant import Assistant
from paddock.errors import ConfigError, visible
from paddock.runners.registry import load


def needs_models(assistant: Assistant) -> bool:
    """Whether a model is asked for it."""
    return not assistant.has_sandbox or (load(assistant.sandbox.agent).needs_models and not assistant.is_silent)


def check_connector(assistant: Assistant, known: Collection[str]) -> None:
    """Return if one of these is its; else a `ConfigError` that says what is missing, and where it is written."""
    if (assistant.connector is None and len(known) == 1) or assistant.connector in known:
        return
    raise _no_connector(assistant, sorted(known))


def _no_connector(assistant: Assistant, known: list[str]) -> ConfigError:
    """What is missing, and where it is written."""
    file = f"'{visible(assistant.path)}/assistant.yml'"
    block = f"[connectors.{assistant.connector or 'NAME'}], with base_url= and key="
    add = f"Add {block}, to your paddock.toml: `paddock config` says where that is."
    if assistant.connector is None and known:
        told, hint = "names no connector", f"Name one of them as connector: in {file}."
    elif assistant.connector is None:
        told, hint = "asks a model, which needs a connector", add
    else:
        told, hint = f"wants '{assistant.connector}'", f"{add} Or name another as connector: in {file}."
    return ConfigError(
        f"The assistant '{assistant.name}' {told}, and the gateway has {', '.join(known) or 'none'}.", hint=hint
    )
