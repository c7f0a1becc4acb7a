"""Answers without the key, wherever it comes from: a provider may repeat it in an error, or anywhere else."""

import json

_INSTEAD = b"[removed]"


class Scrubber:
    """Bytes in, bytes out, at once but for those that the key may begin with."""

    def __init__(self, secret: str) -> None:
        quoted = json.dumps(secret)[1:-1]
        forms = {secret, quoted, quoted.replace("/", "\\/")}  # as it is, and as JSON may have it
        self._secrets = [form.encode() for form in sorted(forms, key=len, reverse=True) if form]
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """As much as can be let through now."""
        if not self._secrets:
            return data
        data = self._without(self._held + data)
        keep = max(_begun(data, secret) for secret in self._secrets)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def end(self) -> bytes:
        """The rest."""
        held, self._held = self._held, b""
        return held

    def text(self, text: str) -> str:
        """A whole text at once."""
        return self._without(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def _without(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret, _INSTEAD)
        return data


def _begun(data: bytes, secret: bytes) -> int:
    """How many of the last bytes are the beginning of it."""
    most = min(len(secret) - 1, len(data))
    tail = data[len(data) - most :]
    at = tail.find(secret[:1])
    while at != -1:
        if secret.startswith(tail[at:]):
            return most - at
        at = tail.find(secret[:1], at + 1)
    return 0
