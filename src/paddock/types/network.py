"""Which hosts a sandbox may reach, and secrets that are attached outside it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from paddock.errors import ConfigError, visible
from paddock.types.record import Record

if TYPE_CHECKING:
    from paddock.types.hosts import HostPattern

Kind = Literal["none", "allow", "open"]
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_REFERENCE = "$ENV."
_FRAMING = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te", "trailer"}
)


@dataclass(frozen=True, slots=True)
class Network(Record):
    """A network policy; made by `none`, `allow` or `open`."""

    policy: Kind = "none"
    hosts: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.policy not in get_args(Kind):
            raise ConfigError(f"{self.policy!r} is no network policy.", hint="Use Network.none(), allow() or open().")
        if self.hosts or self.private:
            from paddock.types.addresses import ranges

            self.patterns()
            ranges(self.private)

    def patterns(self) -> "tuple[HostPattern, ...]":
        """What the hosts mean."""
        if not self.hosts:
            return ()
        from paddock.types.hosts import pattern

        return tuple(pattern(text) for text in self.hosts)

    @classmethod
    def none(cls) -> "Network":
        """No network at all: the default."""
        return cls()

    @classmethod
    def allow(cls, *hosts: str, private: Iterable[str] = ()) -> "Network":
        """Just these, such as `"example.org"`, `"*.github.com:443"` or `"GET http://example.org/files"`.

        Without a port 80 and 443 are meant, `:*` is every port. `private` names ranges of addresses that are private, such
        as `"10.0.0.0/8"`, and may be reached where a host is there.
        """
        return cls("allow", _texts(hosts), _texts(private))

    @classmethod
    def open(cls, *, private: Iterable[str] = ()) -> "Network":
        """Everything but private, link-local and metadata addresses; `private` names ranges that may be reached too."""
        return cls("open", (), _texts(private))


def _texts(given: Iterable[str]) -> tuple[str, ...]:
    listed = () if isinstance(given, (str, bytes)) or not isinstance(given, Iterable) else tuple(given)
    if (not listed and given != ()) or not all(isinstance(text, str) and text for text in listed):
        raise ConfigError(
            "Network.allow takes host names, and a list of ranges as private=.",
            hint='Such as Network.allow("example.org").',
        )
    return listed


@dataclass(frozen=True, slots=True)
class Secret(Record):
    """A value that is attached to requests for `hosts` outside the sandbox, which never holds it."""

    name: str
    hosts: Sequence[str] = ()
    """Whole names, such as `"api.github.com"`, with a port if it is not the usual one."""
    value: str | None = field(default=None, repr=False)
    """None: what this host's environment variable of that name has when the sandbox is made; `"$ENV.OTHER"`: another one."""
    header: str = "authorization"
    format: str = "Bearer {}"
    """The header's value; `{}` stands for the secret."""
    tls: bool = False
    """Attach it to HTTPS requests, and never to others, by a certificate authority that only this sandbox trusts."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(f"{self.name!r} is not the name of a secret.", hint="Such as 'GITHUB_TOKEN'.")
        if isinstance(self.hosts, (str, bytes)) or not isinstance(self.hosts, Iterable):
            raise ConfigError(f"Secret {self.name}: hosts= is a list.", hint='Such as hosts=["api.github.com"].')
        object.__setattr__(self, "hosts", tuple(self.hosts))
        if not isinstance(self.tls, bool) or not (self.value is None or isinstance(self.value, str)):
            raise ConfigError(f"Secret {self.name}: value= is text and tls= a bool.", hint="Give those.")
        header = self.header.lower() if isinstance(self.header, str) else ""
        if not _TOKEN.fullmatch(header) or header in _FRAMING:
            raise ConfigError(f"Secret {self.name}: {self.header!r} cannot be its header.", hint="Such as 'x-api-key'.")
        object.__setattr__(self, "header", header)
        if not isinstance(self.format, str) or self.format.count("{}") != 1 or not _is_sendable(self.format):
            raise ConfigError(f"Secret {self.name}: format= has one '{{}}' in it.", hint="Such as 'Bearer {}'.")
        if self.value is not None:
            self.checked(self.value)
        self.places()

    def places(self) -> tuple[tuple[str, int], ...]:
        """The hosts and ports that it is for."""
        return tuple(self._place(text) for text in self.hosts)

    def _place(self, text: str) -> tuple[str, int]:
        from paddock.types.hosts import authority

        try:
            return authority(text, 443 if self.tls else 80)
        except (ValueError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"Secret {self.name}: {visible(repr(text)[:80])} is no host: {error}.",
                hint='Give names such as "api.github.com", with a port if it is not the usual one, and tls=True for HTTPS.',
            ) from None

    def found(self, environment: Mapping[str, str]) -> str | None:
        """The value itself; None if it is in a variable that is not set."""
        if self.variable is None:
            return self.value
        value = environment.get(self.variable)
        return None if value is None else self.checked(value)

    @property
    def variable(self) -> str | None:
        """The variable that has it, if one does."""
        if self.value is None:
            return self.name
        return self.value.removeprefix(_REFERENCE) if self.value.startswith(_REFERENCE) else None

    def checked(self, value: str) -> str:
        """A value that can be sent; the error does not show it."""
        if not value or not _is_sendable(value) or value != value.strip():
            raise ConfigError(
                f"The value of the secret {self.name} cannot be sent in a header.",
                hint="It is printable ASCII, without spaces around it.",
            )
        return value

    def to_dict(self) -> dict[str, object]:
        """All but the value, which never leaves this object; where to look for it is no secret."""
        found = {"name": self.name, "hosts": list(self.hosts), "header": self.header, "format": self.format}
        where = {} if self.value is None or self.variable is None else {"value": self.value}
        return {**found, "tls": self.tls, **where}


def _is_sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()
