"""Files against their schema: the first thing that is wrong is an error with its file, line and key.

It knows as much of JSON Schema as the schemas here use, and two formats of its own, `paddock-time` and `paddock-size`:
`time` is another one, which editors know.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from paddock.assistants.schemas import Schema
from paddock.documents import Value
from paddock.errors import ConfigError, visible
from paddock.types.limits import parse_size
from paddock.types.times import parse_time

_KINDS: dict[str, Callable[[Any], bool]] = {
    "object": lambda content: isinstance(content, Mapping),
    "array": lambda content: isinstance(content, tuple),
    "string": lambda content: isinstance(content, str),
    "integer": lambda content: type(content) is int,
    "number": lambda content: type(content) in (int, float),
    "boolean": lambda content: isinstance(content, bool),
    "null": lambda content: content is None,
}
_WORDS = {
    "object": "lines of `name: value`",
    "array": "a list, in lines of `- value`",
    "string": "a text; put it in quotes if it is taken for something else",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}
_FORMATS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "paddock-time": (parse_time, "a time"),
    "paddock-size": (parse_size, "a size"),
}


def check(value: Value, schema: Schema) -> None:
    """Return if the value is as the schema wants it; else a `ConfigError` that says where it is not."""
    if "anyOf" in schema:
        schema = _fitting(value, schema)
    kinds = _kinds(schema)
    if not any(_KINDS[kind](value.content) for kind in kinds):
        raise value.error(f"{_said(value)} cannot be here.", f"Give {' or '.join(_WORDS[kind] for kind in kinds)}.")
    if isinstance(value.content, Mapping):
        _check_object(value, value.content, schema)
    elif isinstance(value.content, tuple):
        _check_list(value, value.content, schema)
    elif value.content is not None:
        _check_scalar(value, schema)


def _kinds(schema: Schema) -> list[str]:
    kind = schema["type"]
    return [kind] if isinstance(kind, str) else list(kind)


def _fitting(value: Value, schema: Schema) -> Schema:
    """The one of several that is of the value's kind."""
    options: list[Schema] = schema["anyOf"]
    for option in options:
        if any(_KINDS[kind](value.content) for kind in _kinds(option)):
            return option
    return {"type": [kind for option in options for kind in _kinds(option)]}


def _check_object(value: Value, content: Mapping[str, Value], schema: Schema) -> None:
    known: dict[str, Schema] = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    if others is False:
        value.mapping(known)
    pattern = schema.get("propertyNames", {}).get("pattern")
    for name, inner in content.items():
        if pattern and not re.fullmatch(pattern, name, re.ASCII):
            raise inner.error(f"'{visible(name)[:60]}' cannot be a name here.", "Use letters, digits, '_' and '-'.")
        if name in known:
            check(inner, known[name])
        elif isinstance(others, dict):
            check(inner, others)
    for name in schema.get("required", ()):
        if name not in content:
            raise value.error(f"there is no '{name}'.", f"Add a line `{name}: …`.")


def _check_list(value: Value, content: tuple[Value, ...], schema: Schema) -> None:
    if len(content) < schema.get("minItems", 0):
        raise value.error("the list is empty.", "Add a line `- value`, or remove it.")
    for inner in content:
        check(inner, schema.get("items", {"type": list(_KINDS)}))


def _check_scalar(value: Value, schema: Schema) -> None:
    content = value.content
    if isinstance(content, str):
        if len(content.strip()) < schema.get("minLength", 0):
            raise value.error("it is empty.", "Give it a text, or remove the line.")
        if len(content) > schema.get("maxLength", math.inf):
            raise value.error(f"it has {len(content)} characters.", f"Keep it to {schema['maxLength']}.")
        if "pattern" in schema and not re.fullmatch(schema["pattern"], content, re.ASCII):
            shown = "what is there" if schema.get("writeOnly") else _said(value)  # somebody may have put a secret there
            raise value.error(f"{shown} is not as it has to be.", str(schema.get("description", schema["pattern"])))
    elif isinstance(content, (int, float)) and not _is_large_enough(content, schema):
        raise value.error(f"{_said(value)} is too small.", "Give a larger number.")
    if "enum" in schema and content not in schema["enum"]:
        raise value.error(f"{_said(value)} is unknown.", f"Known: {', '.join(schema['enum'])}.")
    if "format" in schema:
        _check_format(value, schema["format"])


def _is_large_enough(content: float, schema: Schema) -> bool:
    least, above = schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf)
    return bool(content >= least and content > above)


def _check_format(value: Value, name: str) -> None:
    parse, words = _FORMATS[name]
    key = re.split(r"[.\]]", value.key)[-1]
    try:
        found = parse(value.content)
    except ConfigError as error:
        raise value.error(f"invalid {key}: {_said(value)} is not {words}.", error.hint or "") from None
    if found is None:
        raise value.error(f"invalid {key}: {_said(value)} is not {words}.", "Give a number with s, m, h or d.")


def _said(value: Value) -> str:
    if isinstance(value.content, Mapping):
        return "a mapping"
    if isinstance(value.content, tuple):
        return "a list"
    words = value.written or "nothing"
    return f"'{visible(words[:60])}{'…' if len(words) > 60 else ''}'"
