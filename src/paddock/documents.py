"""Files that people write, read within bounds: text, and YAML of which every value knows its file, line and key.

It is the YAML that people mean: `true` and `false` are the only truth values, so that `no` stays a word, as a date does;
no tags, no keys that come twice. What a list of aliases stands for counts as if it had been written out.
"""

import math
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from paddock.errors import ConfigError, UnavailableError, visible
from paddock.extras import how_to_get

if TYPE_CHECKING:
    from yaml.error import YAMLError
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    Node = MappingNode | ScalarNode | SequenceNode

MAX_FILE = 1 << 20
_MAX_YAML = 256 << 10
_MOST = 1 << 20
"""What all values may cost together, with those that aliases stand for."""
_EACH = 16
_DEEPEST = 50
_LONGEST_SHOWN = 60
_FENCE = "---"
_TAG = "tag:yaml.org,2002:"
_PLAIN = (
    (f"{_TAG}null", re.compile(r"(~|null|Null|NULL|)\Z")),
    (f"{_TAG}bool", re.compile(r"(true|True|TRUE|false|False|FALSE)\Z")),
    (f"{_TAG}int", re.compile(r"[-+]?[0-9]+\Z")),
    (f"{_TAG}float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")),
)
"""What a word without quotes is; all others are text."""

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a document, and where it stands."""

    content: "Scalar | tuple[Value, ...] | Mapping[str, Value]"
    file: str
    line: int
    key: str = ""
    """Such as `sandbox.limits.memory` or `mcp[0].id`; empty for the whole."""
    written: str | None = None
    """A scalar as it was written, without quotes; None for others."""
    is_block: bool = False
    """Whether it is a text behind a `|`, whose lines are those of the file."""

    def at(self, offset: int) -> "Value":
        """The same, said to stand where a part of its text does."""
        if not self.is_block:
            return self
        return replace(self, line=self.line + 1 + str(self.content).count("\n", 0, offset))

    def error(self, message: str, hint: str) -> ConfigError:
        """The error that says where; the message goes on after a colon."""
        about = f"{visible(self.key)}: " if self.key else ""
        return ConfigError(f"{visible(self.file)}, line {self.line}: {about}{message}", hint=hint)

    def plain(self) -> Any:
        """The same without places: dicts, lists and scalars."""
        if isinstance(self.content, Mapping):
            return {name: value.plain() for name, value in self.content.items()}
        if isinstance(self.content, tuple):
            return [value.plain() for value in self.content]
        return self.content

    def mapping(self, known: Collection[str] | None = None) -> "Mapping[str, Value]":
        """Its values by name; with `known`, a name that is not among them is refused."""
        if not isinstance(self.content, Mapping):
            raise self.error(f"{self._said()} is not a mapping.", "Write it as lines of `name: value`.")
        for name, value in self.content.items():
            if known is not None and name not in known:
                raise value.error(f"there is no such key here.{near(name, known)}", f"Known: {', '.join(known)}.")
        return self.content

    def items(self) -> "tuple[Value, ...]":
        """Its values in their order."""
        if not isinstance(self.content, tuple):
            raise self.error(f"{self._said()} is not a list.", "Write it as lines of `- value`.")
        return self.content

    def text(self, *, longest: int | None = None) -> str:
        """A scalar as text, as it was written: `1.0` and `yes` too. It is not empty."""
        if self.written is None:
            raise self.error(f"{self._said()} is not text.", "Write it on one line, or in quotes.")
        if not self.written.strip():
            raise self.error("it is empty.", "Give it a text, or remove the line.")
        if longest is not None and len(self.written) > longest:
            raise self.error(f"it has {len(self.written)} characters.", f"Keep it to {longest}.")
        return self.written

    def _said(self) -> str:
        if isinstance(self.content, Mapping):
            return "a mapping"
        if isinstance(self.content, tuple):
            return "a list"
        words = self.written or ""
        return f"'{visible(words[:60])}{'…' if len(words) > 60 else ''}'"


def load(path: str | os.PathLike[str]) -> Value:
    """The YAML in a file; an empty one is an empty mapping."""
    file = os.fspath(path)
    return parse(read_text(file, _MAX_YAML), file)


def load_frontmatter(path: str | os.PathLike[str]) -> tuple[Value, str]:
    """The YAML between two lines of `---` at the top of a file, and the text after it."""
    file = os.fspath(path)
    lines = read_text(file).split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip() == _FENCE][:2]
    if fences[:1] != [0]:
        raise ConfigError(
            f"{visible(file)}, line 1: there is no frontmatter.",
            hint="Begin with a line of ---, then `name: value` lines, then a line of --- again.",
        )
    if len(fences) < 2:
        raise ConfigError(
            f"{visible(file)}, line {len(lines)}: the frontmatter does not end.", hint="Put a line of --- after it."
        )
    end = fences[1]
    return parse("\n".join(lines[1:end]), file, line=2), "\n".join(lines[end + 1 :])


def parse(text: str, file: str, *, line: int = 1) -> Value:
    """The YAML in a text that stands in this file, from this line on."""
    _need()
    from yaml.error import YAMLError

    if len(text) > _MAX_YAML:
        raise ConfigError(f"{visible(file)} has too much YAML.", hint=f"Keep it below {_MAX_YAML >> 10} KiB.")
    try:
        node = _composed(text)
    except YAMLError as error:
        raise _broken(error, text, file, line) from None
    except (ValueError, OverflowError):  # of `chr`
        raise _no_character(text, file, line) from None
    except RecursionError:
        raise ConfigError(f"{visible(file)} is nested too deep.", hint=f"Keep it to {_DEEPEST} levels.") from None
    return Value({}, file, line) if node is None else _Reading(file, line).value(node, "")


def read_text(path: str, most: int = MAX_FILE) -> str:
    """The text of a regular file, in UTF-8 and not too large. Nothing is waited for."""
    shown = visible(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ConfigError(f"{shown} is not a file.", hint="Remove it, or put a file there.")
            data = os.read(fd, most + 1)
        finally:
            os.close(fd)
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}.", hint="Check its permissions.") from None
    if len(data) > most:
        size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB"
        raise ConfigError(f"{shown} is larger than such a file can be.", hint=f"Keep it below {size}.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{shown} is not UTF-8.", hint="Save it as UTF-8.") from None


def _need() -> None:
    if find_spec("yaml") is None:
        raise UnavailableError(
            "Files in YAML need the package pyyaml, which is not installed.", hint=how_to_get("agents")
        )


def _composed(text: str) -> "Node | None":
    from yaml import SafeLoader

    loader = SafeLoader(text)
    try:
        loader.yaml_implicit_resolvers = {None: list(_PLAIN)}
        return cast("Node | None", loader.get_single_node())
    finally:
        loader.dispose()


def _broken(error: "YAMLError", text: str, file: str, line: int) -> ConfigError:
    from yaml.error import MarkedYAMLError

    hint = "Correct it; a text with a colon or a # in it needs quotes."
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        whole = f"{error.context or ''} {error.problem}" if (error.problem or "").startswith("but ") else error.problem
        problem, at = whole or "this is not YAML", error.problem_mark.line
    else:
        problem, at = (
            "there is a character that YAML does not allow",
            text.count("\n", 0, getattr(error, "position", 0)),
        )
    return ConfigError(f"{visible(file)}, line {line + at}: {visible(problem)}.", hint=hint)


def _no_character(text: str, file: str, line: int) -> ConfigError:
    """The first escape that stands for a number which no character has."""
    escapes = re.finditer(r"\\U([0-9A-Fa-f]{8})", text)
    at = next((found.start() for found in escapes if int(found[1], 16) > sys.maxunicode), 0)
    return ConfigError(
        f"{visible(file)}, line {line + text.count(chr(10), 0, at)}: there is no such character.", hint="Write another."
    )


class _Reading:
    """Nodes to values. They are counted as they are met, so that an alias costs what it stands for."""

    def __init__(self, file: str, line: int) -> None:
        self._file, self._line = file, line
        self._left = _MOST
        self._depth = 0

    def value(self, node: "Node", key: str) -> Value:
        here = Value(None, self._file, self._line + node.start_mark.line, key)
        self._left -= _EACH + len(node.value)
        if self._left < 0 or self._depth >= _DEEPEST:
            raise here.error(
                "there is too much here, or it is nested too deep.",
                f"Keep it to {_DEEPEST} levels, and use few aliases: what they stand for counts each time.",
            )
        self._depth += 1
        try:
            return self._read(node, here)
        finally:
            self._depth -= 1

    def _read(self, node: "Node", here: Value) -> Value:
        kind = node.tag.removeprefix(_TAG)
        if node.id == "mapping" and kind == "map":
            return replace(here, content=dict(self._entries(node, here)))
        if node.id == "sequence" and kind == "seq":
            inner = enumerate(node.value)
            return replace(here, content=tuple(self.value(one, f"{here.key}[{number}]") for number, one in inner))
        if node.id != "scalar" or kind not in _SCALARS:
            raise here.error(f"the tag {visible(node.tag)} is not known here.", "Write the value without it.")
        _check_text(node.value, here)
        try:
            is_block = getattr(node, "style", None) == "|"
            return replace(here, content=_SCALARS[kind](node.value), written=node.value, is_block=is_block)
        except ValueError:
            raise here.error("this is not a number that can be used.", "Write another, or put it in quotes.") from None

    def _entries(self, node: "Node", here: Value) -> Iterator[tuple[str, Value]]:
        lines: dict[str, int] = {}
        for name, inner in node.value:
            at = replace(here, line=self._line + name.start_mark.line)
            if name.id != "scalar":
                raise at.error("a key has to be a word.", "Write `name: value`.")
            at = replace(at, key=_below(here.key, name.value))
            _check_text(name.value, at)
            if name.value in lines:
                raise at.error(f"it is there already, on line {lines[name.value]}.", "Keep one of them.")
            lines[name.value] = at.line
            yield name.value, replace(self.value(inner, at.key), line=at.line)


def _check_text(text: str, here: Value) -> None:
    """What escapes can write and nobody can be given: no path, variable, command or message may hold it."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise here.error("it has a character that no text can have.", "Remove the escape, \\0 or \\uD800 to \\uDFFF.")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_SCALARS: dict[str, Callable[[str], Scalar]] = {
    "str": str,
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": _number,
}


def _below(key: str, name: str) -> str:
    name = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"
    return f"{key}.{name}" if key else name


def near(name: str, known: Collection[str]) -> str:
    """Which of these was meant, if one is much like it."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f" Did you mean '{near[0]}'?" if near else ""
