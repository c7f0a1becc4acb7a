"""Keys that go inside, by explicit wish: for agents that ask a provider of their own, which no gateway can do for them."""

from typing import ClassVar, Protocol, runtime_checkable

from paddock.errors import ConfigError
from paddock.runners.agent import Agent


@runtime_checkable
class OwnProvider(Protocol):
    """What such an agent says besides."""

    key_variable: ClassVar[str]
    """Where its program looks for its key."""
    hosts: ClassVar[tuple[str, ...]]
    """Whom it has to reach."""


def lacks_models(agent: Agent) -> bool:
    """Whether it can do nothing without the gateway. A program that the user names may be configured to do without."""
    return agent.needs_models and bool(agent.command)


def need_models(agent: Agent, models: object) -> None:
    """Say what is missing before the agent does, which would speak of a login."""
    if models is None and lacks_models(agent):
        raise ConfigError(
            f"{agent.title} asks models by the gateway, and the runner was given none.",
            hint="Give the runner what Gateway.attach returned: Runner(agent, sandbox, models).",
        )


def given(agent: Agent, key: str | None) -> dict[str, str]:
    """What an agent's program finds in its environment."""
    if not isinstance(agent, OwnProvider):
        if key is not None:
            raise ConfigError(
                f"{agent.title} asks models by the gateway, and is given no key.",
                hint="Leave key= out; the key belongs to a connector.",
            )
        return {}
    if key is None:
        hosts = ", ".join(map(repr, agent.hosts))
        raise ConfigError(
            f"{agent.title} asks its own provider, and not the gateway: its key has to be inside the sandbox, where all "
            "that runs there can read it, and the sandbox has to reach that provider.",
            hint=f"If you want that, give key= to the runner, and network=Network.allow({hosts}) to the sandbox.",
        )
    if not isinstance(key, str) or not key.strip() or not key.isprintable():
        raise ConfigError(f"key= is no key of {agent.title}.", hint="Give its text.")
    return {agent.key_variable: key}
