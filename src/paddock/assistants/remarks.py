"""What is no mistake in an assistant, and yet not what whoever wrote it will have meant, or not to be had on this host."""

import os
import shutil
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from paddock.assistants.assistant import FILE, Assistant
from paddock.assistants.connecting import check_connector, needs_models
from paddock.assistants.settings import SandboxSettings
from paddock.errors import ConfigError, visible
from paddock.gateway import configured
from paddock.runners.registry import load
from paddock.types.network import Network

_PLACES = (FILE, "prompts.yml", "hooks.py", "skills", "mcp")
_NEARLY = 0.85
_OF_AGENTS = ("backend", "image", "limits", "policy", "idle_timeout", "lifetime", "workspace", "env", "prepare")
"""In the sandbox block, but of no use where there is no sandbox."""


def remarks(found: Assistant) -> Iterator[str]:
    """A sentence for each."""
    yield from _unread(Path(found.path))
    yield from _unused(found)
    yield from _missing(found)


def _unread(folder: Path) -> Iterator[str]:
    """Files whose names are nearly those of others."""
    there = sorted(os.listdir(folder))
    missing = [place for place in _PLACES if place not in there]
    for name in there:
        meant = get_close_matches(name, missing, 1, _NEARLY)
        if meant and name not in (*_PLACES, "assistant.yaml", "prompts.yaml"):
            yield f"'{visible(name)}' is not read. Did you mean '{meant[0]}'?"


def _unused(found: Assistant) -> Iterator[str]:
    if found.is_silent:
        yield "its agent has no prompt, skill or tool, and is never asked."
    if found.has_sandbox:
        return
    nothing = SandboxSettings()
    unused = [name for name in _OF_AGENTS if getattr(found.sandbox, name) != getattr(nothing, name)]
    unused += ["network"] if found.network != Network.none() else []
    if unused:
        words = ", ".join(unused).replace("limits", "memory, cpu or pids")
        yield f"without an agent there is no sandbox, and {words} are for nothing."


def _missing(found: Assistant) -> Iterator[str]:
    """What each request would be told."""
    agent = load(found.sandbox.agent) if found.has_sandbox else None
    if agent is not None and not found.sandbox.image and agent.command and agent.find() is None and agent.install:
        yield f"{agent.title} is not on this host: `paddock agents` says how to get it."
    if needs_models(found):
        try:
            check_connector(found, configured.connectors())
        except ConfigError as error:
            yield str(error)
    for secret in found.secrets:
        if secret.variable and secret.variable not in os.environ:
            yield f"the secret {secret.name} has no value: the variable {secret.variable} is not set here."
    for server in found.servers:
        try:
            program = server.server().server
        except ConfigError as error:
            yield str(error)
            continue
        if not isinstance(program, str) and not _is_here(program[0], found.path):
            yield f"the program '{visible(program[0])}' of the server {server.name} is not on this host."


def _is_here(program: str, folder: str) -> bool:
    """On the PATH, or seen from the folder, in which it starts."""
    return (shutil.which(program) or shutil.which(os.path.join(folder, program))) is not None
