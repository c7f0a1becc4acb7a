"""`supervisor/vectors.json`: the frames that both sides are tested with."""

import json
from dataclasses import dataclass
from typing import Any

from paddock.wire.fields import Fields, pack_text, pack_texts, pack_u8, pack_u16, pack_u32, pack_u64
from wire.building import SUPERVISOR

Field = list[Any]
_LETTERS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "text": "T", "texts": "L", "raw": "R"}
_NUMBERS = {"u8": pack_u8, "u16": pack_u16, "u32": pack_u32, "u64": pack_u64}


@dataclass(frozen=True)
class Vector:
    """One frame, or what looks like one."""

    name: str
    data: bytes
    side: str = ""
    type: int = 0
    schema: tuple[Field, ...] = ()
    id: int = 0
    descriptors: int = 0
    fields: Any = None

    def __str__(self) -> str:
        return self.name


def _vectors(kind: str) -> list[Vector]:
    return [_vector(entry) for entry in RAW[kind]]


def _vector(entry: dict[str, Any]) -> Vector:
    side, _, name = (entry.get("frame") or "").partition(".")
    shape: dict[str, Any] = RAW[side][name] if side else {"type": 0, "fields": []}
    return Vector(
        f"{entry['name']} ({side} {name})",
        bytes.fromhex(entry["hex"]),
        side,
        shape["type"],
        tuple(shape["fields"]),
        entry.get("id", 0),
        entry.get("descriptors", 0),
        entry.get("fields"),
    )


RAW: dict[str, Any] = json.loads((SUPERVISOR / "vectors.json").read_text())
GOOD, BAD, REFUSED, INCOMPLETE = (_vectors(kind) for kind in ("good", "bad", "refused", "incomplete"))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def kinds(schema: tuple[Field, ...] | list[Field]) -> str:
    """The schema as one word."""
    return "".join(f"({kinds(field[2])})" if field[0] == "list" else _LETTERS[field[0]] for field in schema) or "-"


def pack(schema: tuple[Field, ...] | list[Field], values: Any) -> bytes:
    """Fields to a payload, by the host's functions."""
    return b"".join(_pack(field, values[field[1]]) for field in schema)


def _pack(field: Field, value: Any) -> bytes:
    kind = field[0]
    if kind == "text":
        return pack_text(_bytes(value))
    if kind == "texts":
        return pack_texts([_bytes(text) for text in value])
    if kind == "raw":
        return bytes.fromhex(value)
    if kind == "list":
        return pack_u32(len(value)) + b"".join(pack(field[2], item) for item in value)
    return _NUMBERS[kind](value)


def unpack(schema: tuple[Field, ...] | list[Field], payload: bytes) -> dict[str, Any]:
    """A payload to fields, by the host's functions; `Malformed` if it cannot be."""
    fields = Fields(payload)
    values = _unpack(schema, fields)
    fields.end()
    return values


def _unpack(schema: tuple[Field, ...] | list[Field], fields: Fields) -> dict[str, Any]:
    return {field[1]: _value(field, fields) for field in schema}


def _value(field: Field, fields: Fields) -> Any:
    kind = field[0]
    if kind == "text":
        return fields.text().decode("utf-8", "surrogateescape")
    if kind == "texts":
        return [text.decode("utf-8", "surrogateescape") for text in fields.texts()]
    if kind == "raw":
        return fields.rest().hex()
    if kind == "list":
        return [_unpack(field[2], fields) for _ in range(fields.u32())]
    return getattr(fields, kind)()


def flat(schema: tuple[Field, ...] | list[Field], values: Any) -> list[str]:
    """Fields as the C program prints them."""
    words: list[str] = []
    for field in schema:
        kind, value = field[0], values[field[1]]
        if kind == "list":
            words.append(str(len(value)))
            for item in value:
                words += flat(field[2], item)
        elif kind == "texts":
            words += [str(len(value)), *(f"'{_bytes(text).hex()}" for text in value)]
        elif kind == "text":
            words.append(f"'{_bytes(value).hex()}")
        else:
            words.append(f"'{value}" if kind == "raw" else str(value))
    return words
