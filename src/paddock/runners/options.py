"""What may be chosen about a run. Nothing else becomes an option of an agent's program."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from paddock.errors import ConfigError
from paddock.runners.shapes import can_be_said
from paddock.types.record import Record

Permission = Literal["all", "edit", "plan"]
PERMISSIONS = ("all", "edit", "plan")
_LONGEST = 2_000_000.0
"""Seconds for programs that count in milliseconds, by 32 bits."""


@dataclass(frozen=True, slots=True)
class Options(Record):
    """Choices for every agent; one that an agent has no word for is an error, and not left out."""

    model: str | None = None
    """What it asks the gateway for; as the connector says if it is not given."""
    system: str = ""
    """Added to the agent's own system prompt."""
    permission: Permission = "all"
    """`all`: the sandbox is the boundary. `edit`: files only. `plan`: looking only."""
    max_turns: int | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    timeout: float = 3600.0
    """Seconds for the whole run."""
    patience: float = 180.0
    """Seconds without anything from the model, after which it has failed. Tools that run are waited for."""

    def __post_init__(self) -> None:
        for name in ("allowed_tools", "disallowed_tools"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        for name in ("timeout", "patience"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ConfigError(f"{name}={value!r} is no time.", hint="Give seconds.")
        if self.permission not in PERMISSIONS:
            raise ConfigError(
                f"permission={self.permission!r} is no permission.", hint=f"Known: {', '.join(PERMISSIONS)}."
            )
        if self.max_turns is not None and (type(self.max_turns) is not int or self.max_turns < 1):
            raise ConfigError(f"max_turns={self.max_turns!r} is no number of turns.", hint="Give 1 or more.")
        if self.model is not None and not _is_name(self.model):
            raise ConfigError(f"model={self.model!r} is no name.", hint="Such as 'claude-sonnet-5'.")
        if not isinstance(self.system, str) or not can_be_said(self.system):
            raise ConfigError("system= is no text.", hint="Give what is added to the system prompt.")

    @property
    def tool_seconds(self) -> float:
        """How long a program waits for a granted tool, about which somebody may be asked: no less than for all else."""
        return min(self.timeout, _LONGEST)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """From a block of a configuration; a key that is not known is an error."""
        known = [field.name for field in fields(cls)]
        for name in arguments:
            if name not in known:
                raise ConfigError(f"{name!r} is no option of an agent.", hint=f"Known: {', '.join(known)}.")
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in arguments.items()}
        return cls(**given)

    def refuse(self, title: str, names: tuple[str, ...]) -> None:
        """For an agent that has no word for these."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in names and value != field.default:
                what = f"{field.name}={value!r:.80}"
                raise ConfigError(f"{title} has no word for {what}.", hint="Leave it out, or use another agent.")


def _names(option: str, given: object) -> tuple[str, ...]:
    if isinstance(given, (str, bytes)) or not all(_is_name(name) for name in given):  # type: ignore[attr-defined]
        raise ConfigError(f"{option}={given!r:.80} is no list of tools.", hint="Such as ['Bash', 'Edit'].")
    return tuple(given)  # type: ignore[arg-type]


def _is_name(name: object) -> bool:
    """What can stand behind an option and be nothing but its value."""
    return isinstance(name, str) and 0 < len(name) <= 512 and name.isprintable() and not name.startswith("-")
