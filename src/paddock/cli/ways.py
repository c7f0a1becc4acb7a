"""How an agent gets to a model: the connector that it uses, and what to do where there is none."""

import os

from paddock.errors import ConfigError
from paddock.gateway import configured, extra
from paddock.gateway.connectors import Connector
from paddock.runners import agents
from paddock.runners.agent import Agent
from paddock.runners.keys import lacks_models
from paddock.runners.registry import load

_KEYS = {
    "ANTHROPIC_API_KEY": ("claude", "https://api.anthropic.com"),
    "OPENAI_API_KEY": ("openai", "https://api.openai.com"),
    "GEMINI_API_KEY": ("gemini", "https://generativelanguage.googleapis.com"),
}
_KEYS_OF = {"gemini": ("GEMINI_API_KEY",), "codex": ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")}
_OTHERS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
_EXAMPLE = "'fix the failing test'"


def chosen(agent: Agent, name: str | None) -> Connector | None:
    """What it asks by: the connector that was named, or the only one that fits. None if it can do without."""
    if name is None and not lacks_models(agent):
        return None
    extra.need()
    known = configured.connectors()
    connector = _only(agent, known) if name is None else configured.find(name, known)
    if not fits(agent, connector):
        others = [one.name for one in known.values() if fits(agent, one)]
        raise ConfigError(
            f"{agent.title} cannot ask by the connector '{connector.name}': what Gemini speaks is not translated.",
            hint=f"Give --connector: {', '.join(sorted(others))}." if others else how_to_connect(agent),
        )
    connector.read_key()  # before anything is started
    return connector


def _only(agent: Agent, known: dict[str, Connector]) -> Connector:
    fitting = [one for one in known.values() if fits(agent, one)]
    if not fitting:
        raise ConfigError(
            f"{agent.title} asks models, and no connector leads to one that it can ask.", hint=how_to_connect(agent)
        )
    if len(fitting) > 1:
        names = ", ".join(sorted(one.name for one in fitting))
        raise ConfigError("There are several connectors.", hint=f"Give --connector: {names}.")
    return fitting[0]


def fits(agent: Agent, connector: Connector) -> bool:
    """Whether the agent and the connector can understand each other: all wires but Gemini's are translated."""
    return not lacks_models(agent) or (agent.name == "gemini") == ("gemini" in connector.kind.wires)


def how_to_connect(agent: Agent) -> str:
    """What to write into which file, with a key that is there if one is."""
    keys = _KEYS_OF.get(agent.name, _OTHERS)
    key = next(filter(os.environ.get, keys), keys[0])
    name, url = _KEYS[key]
    block = f'[connectors.{name}] with base_url = "{url}" and key = "$ENV.{key}"'
    tries = "`paddock connectors check --model NAME` tries it"
    return f"Add {block} to your paddock.toml: `paddock config` says where that is, {tries}."


def how_to_use() -> str | None:
    """How to use an agent that is here, if there is also a connector for it, or a key."""
    found = [one for one in map(load, agents()) if lacks_models(one) and one.find() is not None]
    known = configured.connectors()
    for agent in found:
        fitting = sorted(one.name for one in known.values() if fits(agent, one))
        if fitting:
            which = f" --connector {fitting[0]}" if len(fitting) > 1 else ""
            return f"{agent.title} is here: paddock agent {agent.name}{which} {_EXAMPLE}"
    for agent in found:
        if any(map(os.environ.get, _KEYS_OF.get(agent.name, _OTHERS))):
            then = f"Then: paddock agent {agent.name} {_EXAMPLE}"
            return f"{agent.title} is here, and a key: {how_to_connect(agent)} {then}"
    return None
