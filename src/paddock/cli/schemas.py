"""Types of a JSON schema, in words for a line."""

import json
from collections.abc import Mapping
from typing import Any

_DEEPEST = 4


def in_words(schema: object, definitions: Mapping[str, Any], depth: int = 0) -> str:
    """Such as `integer`, `"a" | "b"`, `array of string` or `string | null`; `any` where nothing is said."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return "any"
    if isinstance(reference := schema.get("$ref"), str):
        return in_words(definitions.get(reference.rpartition("/")[2]), definitions, depth + 1)
    if isinstance(values := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
        return " | ".join(json.dumps(value) for value in values)
    if isinstance(choices := schema.get("anyOf", schema.get("oneOf")), list):
        return " | ".join(dict.fromkeys(in_words(one, definitions, depth + 1) for one in choices))
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"array of {in_words(schema['items'], definitions, depth + 1)}"
    return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
