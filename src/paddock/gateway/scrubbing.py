"""Answers without the key, wherever it comes from: a provider may repeat it in an error, or anywhere else."""

_INSTEAD = b"[removed]"


class Scrubber:
    """Bytes in, bytes out, at once but for those that the key may begin with."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """As much as can be let through now."""
        if not self._secret:
            return data
        data = (self._held + data).replace(self._secret, _INSTEAD)
        keep = self._may_begin(data)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def end(self) -> bytes:
        """The rest."""
        held, self._held = self._held, b""
        return held

    def text(self, text: str) -> str:
        """A whole text at once."""
        return text.replace(self._secret.decode(), _INSTEAD.decode()) if self._secret else text

    def _may_begin(self, data: bytes) -> int:
        """How many of the last bytes are the beginning of the key."""
        most = min(len(self._secret) - 1, len(data))
        tail = data[len(data) - most :]
        at = tail.find(self._secret[:1])
        while at != -1:
            if self._secret.startswith(tail[at:]):
                return most - at
            at = tail.find(self._secret[:1], at + 1)
        return 0
