"""JSON schemas of what tools take: few kinds of values, and what is wrong with those that do not fit."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_KINDS: dict[str, tuple[type[Any], ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
    "array": (list, tuple),
    "object": (Mapping,),
}
_MOST_SHOWN = 100


def text(description: str, default: str | None = None) -> Schema:
    """A text; with a default, or an empty one, it may be left out."""
    return {"type": "string", "description": description, **({} if default is None else {"default": default})}


def number(description: str, default: int, *, least: int = 1, most: int | None = None) -> Schema:
    """A whole number."""
    upper = {} if most is None else {"maximum": most}
    return {"type": "integer", "description": description, "minimum": least, **upper, "default": default}


def flag(description: str) -> Schema:
    """Yes or no, and no unless given."""
    return {"type": "boolean", "description": description, "default": False}


def texts(description: str) -> Schema:
    """A list of texts."""
    return {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": description}


def parameters(**properties: Schema) -> Schema:
    """An object with these, of which those without a default are needed."""
    required = [name for name, told in properties.items() if "default" not in told]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def fitted(arguments: object, schema: Schema) -> dict[str, Any] | str:
    """The arguments as the tool takes them; or, as a text, what is wrong with them, without repeating them.

    Of a schema that was not made here, what is not known is not looked at.
    """
    if not isinstance(arguments, Mapping):
        return "The arguments are no object."
    known: dict[str, Schema] = schema.get("properties") or {}
    unknown = [str(name)[:_MOST_SHOWN] for name in arguments if name not in known]
    if unknown and schema.get("additionalProperties") is False:
        return f"There is no {', '.join(unknown[:10])}. There is: {', '.join(known)}."
    taken = {}
    for name, value in arguments.items():
        told = known.get(name) or {}
        if value is None and "default" in told:  # as some models leave something out
            continue
        if isinstance(value, float) and value.is_integer() and told.get("type") == "integer":
            value = int(value)
        if wrong := _wrong(value, told):
            return f"{name} {wrong}."
        taken[name] = value
    if missing := [name for name in schema.get("required") or () if name not in taken]:
        return f"There has to be {', '.join(missing)}."
    return taken


def _wrong(value: Any, told: Schema) -> str | None:
    kind = told.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    if not isinstance(value, _KINDS[kind]) or (kind in ("integer", "number") and isinstance(value, bool)):
        return f"has to be of the type {kind}"
    if kind == "integer" and not told.get("minimum", value) <= value <= told.get("maximum", value):
        bounds = {"at least": told.get("minimum"), "at most": told.get("maximum")}
        return "has to be " + " and ".join(f"{words} {bound}" for words, bound in bounds.items() if bound is not None)
    if kind == "array" and _has_texts(told) and not (value and all(isinstance(item, str) for item in list(value))):
        return "has to be a list of texts with at least one in it"
    return None


def _has_texts(told: Schema) -> bool:
    return told.get("items") == {"type": "string"} and told.get("minItems") == 1
