"""What a manager was told: arguments, else variables and files, else the defaults; all of it checked."""

from dataclasses import dataclass
from typing import Any, cast

from paddock.config import ARGUMENT, OPTIONS, setting
from paddock.errors import ConfigError
from paddock.manager.policies import Policy
from paddock.types.managed import PolicyName
from paddock.types.times import parse_time


@dataclass(frozen=True, slots=True)
class Settings:
    """The numbers that a manager works with."""

    policy: PolicyName
    max_total: int
    max_per_user: int | None
    idle_timeout: float | None
    stop_after: float | None
    lifetime: float | None
    oneshot_lifetime: float | None
    grace: float
    retention: float | None
    clean_at: str | None
    sweep_every: float | None
    quota: int | None

    def policy_for(self, name: str | None, idle_timeout: float | None, lifetime: float | None) -> Policy:
        """The rules for one request, which may bring times of its own."""
        wanted = self.policy if name is None else policy_name(name)
        usual = {
            "oneshot": Policy("oneshot", None, self.oneshot_lifetime, 0.0),
            "session": Policy("session", self.idle_timeout, None, self.grace),
            "longrunning": Policy("longrunning", self.stop_after, self.lifetime, self.grace),
            "persistent": Policy("persistent"),
        }[wanted]
        refused = {"oneshot": [idle_timeout], "persistent": [idle_timeout, lifetime]}.get(wanted, [])
        if any(time is not None for time in refused):
            raise ConfigError(
                f"A {wanted} sandbox takes no such time.", hint="idle_timeout= is for 'session' and 'longrunning'."
            )
        return Policy(
            wanted,
            usual.idle_timeout if idle_timeout is None else seconds("idle_timeout", idle_timeout),
            usual.lifetime if lifetime is None else seconds("lifetime", lifetime),
            usual.grace,
        )


def chosen(argument: str, given: Any, option: str | None = None) -> Any:
    """The value that holds. An argument is checked by the same rules as a text in a variable."""
    name = option or f"manager_{argument}"
    found = setting(name, given)
    if found.source != ARGUMENT or given is None:
        return found.value
    return OPTIONS[name].parse(given, argument)


def chosen_unless_none(argument: str, given: Any) -> Any:
    """The same for what is without a bound by default: None leaves it to variables and files."""
    name = f"manager_{argument}"
    return setting(name).value if given is None else OPTIONS[name].parse(given, argument)


def policy_name(given: str) -> PolicyName:
    """A policy by its name."""
    return cast(PolicyName, OPTIONS["manager_policy"].parse(given, "policy"))


def seconds(name: str, given: float) -> float:
    """A time that has to be there."""
    found = parse_time(given, name)
    if found is None:
        raise ConfigError(f"{name}={given!r} is not a time.", hint="Give seconds above 0.")
    return found
