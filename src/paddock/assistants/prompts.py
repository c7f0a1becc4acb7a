"""What an assistant is told: texts with variables, of which each is known before anybody asks."""

import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from paddock.documents import Value
from paddock.errors import ConfigError, visible
from paddock.runners import Message

KNOWN = ("user", "chat", "assistant", "date", "time", "weekday", "workdir", "locale")
"""Variables that always have a value."""
_MOMENT = {"date": "%Y-%m-%d", "time": "%H:%M", "weekday": "%A"}
_VARIABLE = re.compile(r"\{\{\{\{|\}\}\}\}|\{\{\s*([^{}]*?)\s*\}\}")
"""Or two braces as such, which are written as four."""


@dataclass(frozen=True, slots=True)
class Example:
    """A turn that the assistant is shown as if it had been."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts of prompts.yml, still with their variables."""

    system: str = ""
    examples: tuple[Example, ...] = ()
    greeting: str = ""

    def messages(self, variables: Mapping[str, str]) -> list[Message]:
        """What stands before a conversation: the examples."""
        said = [(one.user, one.assistant) for one in self.examples]
        return [
            message
            for asked, answered in said
            for message in (
                Message("user", filled(asked, variables)),
                Message("assistant", filled(answered, variables)),
            )
        ]


def prompts(top: Value | None, declared: Collection[str]) -> Prompts:
    """What a file says. A variable that is neither known nor declared is an error there."""
    if top is None:
        return Prompts()
    for value in _texts(top):
        _check(value, (*KNOWN, *declared))
    found = top.plain()
    examples = tuple(Example(one["user"], one["assistant"]) for one in found.get("examples", ()))
    return Prompts(found.get("system", ""), examples, found.get("greeting", ""))


def filled(text: str, variables: Mapping[str, str]) -> str:
    """A text with its variables in place. What they bring is not looked at again."""
    return _VARIABLE.sub(lambda found: found[0][:2] if found[1] is None else variables[found[1]], text)


def variables_for(
    declared: Mapping[str, str | None], given: Mapping[str, str], known: Mapping[str, str]
) -> dict[str, str]:
    """All variables of a request: what is known, what was declared, and what was given for it."""
    for name, value in given.items():
        if name not in declared:
            raise ConfigError(
                f"The assistant has no variable {visible(repr(name)[:80])}.",
                hint=f"Declared in its assistant.yml: {', '.join(sorted(declared)) or 'none'}.",
            )
        if not isinstance(value, str):
            raise ConfigError(f"The variable {name!r} is no text.", hint="Give a text.")
    found = {**declared, **given}
    missing = sorted(name for name, value in found.items() if value is None)
    if missing:
        raise ConfigError(
            f"The variable {missing[0]!r} has to be given.", hint=f"Give variables={{{missing[0]!r}: …}}."
        )
    return {**{name: value for name, value in found.items() if value is not None}, **known}


def moment() -> dict[str, str]:
    """The variables that say when."""
    now = time.localtime()
    return {name: time.strftime(form, now) for name, form in _MOMENT.items()}


def _texts(value: Value) -> Iterator[Value]:
    if isinstance(value.content, Mapping):
        for inner in value.content.values():
            yield from _texts(inner)
    elif isinstance(value.content, tuple):
        for inner in value.content:
            yield from _texts(inner)
    elif isinstance(value.content, str):
        yield value


def _check(value: Value, known: Collection[str]) -> None:
    text = value.content if isinstance(value.content, str) else ""
    unclosed = _VARIABLE.sub(lambda found: " " * len(found[0]), text).find("{{")
    if unclosed >= 0:
        raise value.at(unclosed).error(
            "a variable is not closed.", "Write }} after its name; two braces as such are {{{{."
        )
    for found in _VARIABLE.finditer(text):
        if found[1] is not None and found[1] not in known:
            raise value.at(found.start()).error(
                f"there is no variable '{visible(found[1][:60])}'.",
                f"Known: {', '.join(known)}. Others are declared as variables: in assistant.yml.",
            )
