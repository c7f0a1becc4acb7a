"""Thinking that passes through a client of another provider, and is valid again when it comes back.

A provider takes thinking back only with its own signature, and may insist on it within a loop of tool calls. Clients
return signatures as they got them; so one that is foreign to the client's format is put there with its origin.
"""

from paddock.gateway.translate.model import Seal

_FOREIGN = "paddock:"


def seal_text(wire: str, seal: Seal) -> str:
    """The signature for a client of `wire`."""
    if seal.origin in ("", wire):
        return seal.signature
    return f"{_FOREIGN}{seal.origin}:{seal.id}:{seal.signature}"


def seal_of(wire: str, text: str, id: str = "") -> Seal:
    """The seal in a signature that a client of `wire` returns, or its provider makes."""
    if text.startswith(_FOREIGN) and text.count(":") >= 3:
        return Seal(*text.removeprefix(_FOREIGN).split(":", 2))
    return Seal(wire, id, text)
