"""Secrets with their values: to which requests each belongs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from paddock.errors import ConfigError
from paddock.types import Secret


@dataclass(frozen=True, slots=True)
class Attached:
    """One header that is added outside."""

    header: str
    line: str = field(repr=False)
    value: str = field(repr=False)


class Secrets:
    """All that one sandbox has. What they are is in this object and in no other."""

    def __init__(self, given: Iterable[Secret] = (), environment: Mapping[str, str] | None = None) -> None:
        self._plain: dict[tuple[str, int], list[Attached]] = {}
        self._tls: dict[tuple[str, int], list[Attached]] = {}
        self.described: tuple[Secret, ...] = ()
        """The same without values."""
        self.missing: tuple[str, ...] = ()
        """Those whose value nobody has."""
        for secret in given:
            self._add(secret, {} if environment is None else environment)

    def _add(self, secret: Secret, environment: Mapping[str, str]) -> None:
        self.described += (Secret.from_dict(secret.to_dict()),)
        value = secret.found(environment)
        if value is None:
            self.missing += (secret.name,)
            return
        one = Attached(secret.header, secret.format.replace("{}", value), value)
        for place in secret.places():
            known = (self._tls if secret.tls else self._plain).setdefault(place, [])
            if any(other.header == one.header for other in known):
                raise ConfigError(
                    f"Two secrets have the header {one.header!r} for one host: {secret.name} is the second.",
                    hint="Give each another header=, or other hosts.",
                )
            known.append(one)

    @property
    def opens_tls(self) -> bool:
        """Whether an authority is needed."""
        return any(secret.tls for secret in self.described)

    def plain(self, host: str, port: int) -> list[Attached]:
        """What belongs to requests of plain HTTP there."""
        return self._plain.get((host, port), [])

    def tls(self, host: str, port: int) -> list[Attached]:
        """What belongs to requests of HTTPS there."""
        return self._tls.get((host, port), [])

    def __repr__(self) -> str:
        return f"<Secrets {', '.join(secret.name for secret in self.described)}>"
