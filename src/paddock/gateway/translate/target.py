"""Where a request goes, and what its connector adds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paddock.gateway.translate.reading import Body

# What a connector sets by its own fields, and what is none of the provider's business.
NO_OPTIONS = frozenset({"max_tokens", "temperature", "model", "key", "proxy"})


@dataclass(frozen=True, slots=True)
class Target:
    """A provider's model.

    - `max_output` bounds what a request asks for, and is asked for where it says nothing and the provider insists;
    - `reasoning` says how thinking is asked for: by `effort` (newer models), by `budget` of tokens (Claude up to 4.5),
      or not at all (`none`, the default, because many models refuse to be asked);
    - `openai` is for OpenAI itself, whose newer models refuse `max_tokens`, which others know alone;
    - `options` go into the body, except those that a connector has fields for;
    - `leave_out` are fields of the body that this provider refuses.
    """

    model: str
    max_output: int | None = None
    reasoning: Literal["effort", "budget", "none"] = "none"
    openai: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    leave_out: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Written:
    """A body to send, and what could not be said in it."""

    body: Body
    warnings: tuple[str, ...] = ()


def merge_options(body: Body, options: Mapping[str, Any]) -> Body:
    """`body` with a connector's options in it, except `NO_OPTIONS`."""
    return body | {key: value for key, value in options.items() if key not in NO_OPTIONS}


def output_limit(asked: int | None, target: Target) -> int | None:
    """How many tokens may be answered."""
    limits = [limit for limit in (asked, target.max_output) if limit is not None]
    return min(limits) if limits else None


def given(**fields: Any) -> Body:
    """The fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}
