"""The fields of a payload, as `docs/protocol.md` has them: little-endian numbers, texts that end with a NUL, raw bytes."""

import struct
from collections.abc import Sequence

_U8, _U16, _U32, _U64 = (struct.Struct(code) for code in ("<B", "<H", "<I", "<Q"))
pack_u8, pack_u16, pack_u32, pack_u64 = _U8.pack, _U16.pack, _U32.pack, _U64.pack
_LAST_ERROR = 4095  # that a Linux kernel has


class Malformed(ValueError):  # noqa: N818 - a state of the bytes
    """A payload that is not what its type says."""


def pack_text(text: bytes) -> bytes:
    """A text, which cannot hold a NUL."""
    if b"\0" in text:
        raise ValueError("a text holds a NUL")
    return b"%b%b\0" % (pack_u32(len(text)), text)


def pack_texts(texts: Sequence[bytes]) -> bytes:
    """A list of texts."""
    return b"".join((pack_u32(len(texts)), *map(pack_text, texts)))


class Fields:
    """A payload, read field by field. What is not there is `Malformed`, and so is what is left at the `end`."""

    __slots__ = ("_at", "_payload")

    def __init__(self, payload: bytes | memoryview) -> None:
        self._payload = payload
        self._at = 0

    def u8(self) -> int:
        """A number of one byte."""
        return self._number(_U8)

    def u16(self) -> int:
        """A number of two bytes."""
        return self._number(_U16)

    def u32(self) -> int:
        """A number of four bytes."""
        return self._number(_U32)

    def u64(self) -> int:
        """A number of eight bytes."""
        return self._number(_U64)

    def text(self) -> bytes:
        """A text, without its NUL."""
        size = self.u32()
        start, self._at = self._at, self._at + size + 1
        if self._at > len(self._payload):
            raise Malformed("a text is longer than the payload")
        raw = bytes(self._payload[start : self._at])
        if raw.find(0) != size:
            raise Malformed("a text holds a NUL, or does not end with one")
        return raw[:-1]

    def texts(self) -> list[bytes]:
        """A list of texts."""
        return [self.text() for _ in range(self.u32())]

    def rest(self) -> bytes:
        """All that is left."""
        start, self._at = self._at, len(self._payload)
        return bytes(self._payload[start:])

    def end(self) -> None:
        """Check that nothing is left."""
        if self._at != len(self._payload):
            raise Malformed("bytes are left over")

    def numbers(self, kind: struct.Struct) -> tuple[int, ...]:
        """Several numbers at once."""
        try:
            values = kind.unpack_from(self._payload, self._at)
        except struct.error:
            raise Malformed("a number is cut off") from None
        self._at += kind.size
        return values

    def _number(self, kind: struct.Struct) -> int:
        return self.numbers(kind)[0]


def read_failure(payload: bytes) -> tuple[int, int]:
    """The errno and the stage of a `FAILED` frame."""
    fields = Fields(payload)
    code, stage = fields.u32(), fields.u8()
    fields.end()
    if code > _LAST_ERROR:
        raise Malformed("an error of no known number")
    return code, stage
