"""What is optional: the extras of this package, what each is for, and how to get one that is missing."""

from dataclasses import dataclass
from importlib.util import find_spec

from paddock.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class Extra:
    """One of them."""

    name: str
    purpose: str
    modules: tuple[str, ...]
    """What it brings, by the names that are imported."""
    adapts: bool = False
    """Whether it is for people who have another framework, and of no use to others."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of its modules that are not installed; nothing is imported."""
        return tuple(module for module in self.modules if find_spec(module) is None)


EXTRAS = (
    Extra("cli", "the command line", ("typer", "rich")),
    Extra("git", "the git gate", ("pygit2",)),
    Extra("bridge", "tools", ("mcp",)),
    Extra("agents", "skills, files in YAML, and conversations", ("yaml", "prompt_toolkit")),
    Extra("acp", "agents by the Agent Client Protocol", ("acp",)),
    Extra("docker", "containers", ("aiodocker",)),
    Extra("gateway", "the gateway for models", ("h11", "httpx2")),
    Extra("network", "rules for the network", ("h11",)),
    Extra("secrets", "secrets that stay outside", ("h11", "cryptography")),
    Extra("fsspec", "files for pandas and others, as paddock://", ("fsspec",), adapts=True),
    Extra("inspect-ai", "evaluations with Inspect", ("inspect_ai",), adapts=True),
    Extra("deepagents", "LangChain's deep agents", ("deepagents",), adapts=True),
    Extra("openai-agents", "the OpenAI Agents SDK", ("agents",), adapts=True),
    Extra("pydantic-ai", "Pydantic AI", ("pydantic_ai",), adapts=True),
    Extra("smolagents", "smolagents", ("smolagents",), adapts=True),
)


class MissingExtraError(UnavailableError, ImportError):
    """A module was imported whose extra is not installed."""


def find(name: str) -> Extra:
    """One of them by its name."""
    return next(extra for extra in EXTRAS if extra.name == name)


def how_to_get(extra: str) -> str:
    """The command that installs an extra: of an installed package, and of a clone, where it leaves the sources in use."""
    return f"pip install 'paddock[{extra}]', or in a clone .venv/bin/pip install -e '.[{extra}]'."


def need(extra: str) -> None:
    """Return if all that an extra brings is installed. What imports it at its top asks this before."""
    for module in find(extra).missing:
        raise MissingExtraError(
            f"This needs the extra {extra!r}, and its module {module!r} is not installed.", hint=how_to_get(extra)
        )
