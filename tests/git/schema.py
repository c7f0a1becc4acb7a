"""Requests and answers against GitHub's published description of its API, as far as it is used."""

import json
import re
from pathlib import Path
from typing import Any

_DESCRIBED = json.loads((Path(__file__).parent / "github_schema.json").read_text(encoding="utf-8"))["operations"]
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
}


def check(operation: str, status: int, request: Any, answer: Any) -> None:
    """Fail if GitHub would not have been asked like that, or would not have answered like that."""
    described = _DESCRIBED[operation]
    if "request" in described:
        _conforms(described["request"], request, f"{operation} request", strict=True)
    else:
        assert request is None, operation
    if status in (401, 429, 500, 301):  # which are described for the API as a whole
        return
    assert str(status) in described["responses"], f"{operation} never answers {status}"
    _conforms(described["responses"][str(status)], answer, f"{operation} {status}")


def _conforms(schema: dict[str, Any], value: Any, where: str, *, strict: bool = False) -> None:
    if value is None and schema.get("nullable"):
        return
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            assert any(_is_like(option, value) for option in schema[choice]), f"{where}: {value!r}"
    if kind := schema.get("type"):
        assert isinstance(value, _TYPES[kind]), f"{where}: {value!r} is not of type {kind}"
        assert kind != "integer" or not isinstance(value, bool), where
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r}"
    if "pattern" in schema and isinstance(value, str):
        assert re.search(schema["pattern"], value), f"{where}: {value!r}"
    if isinstance(value, dict):
        _has_fields(schema, value, where, strict)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            _conforms(schema["items"], item, f"{where}[{index}]", strict=strict)


def _has_fields(schema: dict[str, Any], value: dict[str, Any], where: str, strict: bool) -> None:
    missing = set(schema.get("required", ())) - set(value)
    assert not missing, f"{where}: without {missing}"
    properties = schema.get("properties", {})
    for name, inner in value.items():
        assert not strict or name in properties, f"{where}: {name} is sent, which GitHub does not know"
        if name in properties:
            _conforms(properties[name], inner, f"{where}.{name}", strict=strict)


def _is_like(schema: dict[str, Any], value: Any) -> bool:
    try:
        _conforms(schema, value, "")
    except AssertionError:
        return False
    return True
