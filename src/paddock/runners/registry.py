"""Which agents there are: a name and where its file is. Nothing is imported early."""

from importlib import import_module

import paddock.runners.agents  # noqa: F401 - now: later, the folder would take the function's place in paddock.runners
from paddock.errors import ConfigError
from paddock.runners import programs
from paddock.runners.agent import Agent
from paddock.runners.programs import Program

_AGENTS = {
    "acp": "paddock.runners.agents.acp:Acp",
    "claude": "paddock.runners.agents.claude:Claude",
    "cursor": "paddock.runners.agents.cursor:Cursor",
    "codex": "paddock.runners.agents.codex:Codex",
    "gemini": "paddock.runners.agents.gemini:Gemini",
    "opencode": "paddock.runners.agents.opencode:OpenCode",
    "scripted": "paddock.runners.agents.scripted:Scripted",
}


def agents() -> tuple[str, ...]:
    """The names of all."""
    return tuple(sorted(_AGENTS))


def load(name: str) -> Agent:
    """One of them, imported now."""
    if name not in _AGENTS:
        raise ConfigError(f"There is no agent {name!r}.", hint=f"Known: {', '.join(agents())}.")
    module, _, attribute = _AGENTS[name].partition(":")
    agent: Agent = getattr(import_module(module), attribute)()
    return agent


def find_agent(name: str) -> Program:
    """Its program on this host: on the PATH, or in a `node_modules` here or above."""
    agent = load(name)
    program = agent.find()
    if program is None:
        raise programs.missing(agent.title, agent.install)
    return program
