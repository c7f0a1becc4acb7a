"""Which hosts a sandbox may reach, and secrets that are attached outside it."""

from dataclasses import dataclass, field
from typing import Literal

from paddock.errors import ConfigError
from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class Network(Record):
    """A network policy; made by `none`, `allow` or `open`."""

    policy: Literal["none", "allow", "open"] = "none"
    hosts: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    @classmethod
    def none(cls) -> "Network":
        """No network at all: the default."""
        return cls()

    @classmethod
    def allow(cls, *hosts: str, private: tuple[str, ...] = ()) -> "Network":
        """Just these hosts, such as `"example.org"` or `"*.github.com:443"`; `private` names address ranges."""
        if isinstance(private, str) or not all(isinstance(host, str) and host for host in (*hosts, *private)):
            raise ConfigError(
                "Network.allow takes host names, and a list of ranges as private=.",
                hint='Such as Network.allow("example.org").',
            )
        return cls("allow", tuple(hosts), tuple(private))

    @classmethod
    def open(cls) -> "Network":
        """Everything but private, link-local and metadata addresses."""
        return cls("open")


@dataclass(frozen=True, slots=True)
class Secret(Record):
    """A value that is attached to requests for `hosts` outside the sandbox, which never holds it."""

    name: str
    hosts: tuple[str, ...] = ()
    value: str | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, object]:
        """Name and hosts; the value never leaves this object."""
        return {"name": self.name, "hosts": list(self.hosts)}
