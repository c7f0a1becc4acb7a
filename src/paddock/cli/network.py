"""What `--allow`, `--private` and `--secret` name."""

from typing import Annotated

import typer

from paddock.errors import ConfigError
from paddock.types import Network, Secret

Allowed = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="HOST[:PORT]", help="Let it connect to this host, such as pypi.org or '*.npmjs.org:443'."
    ),
]
Private = Annotated[
    list[str] | None,
    typer.Option("--private", metavar="RANGE", help="Also where that is in this private range, such as 10.0.0.0/8."),
]
Attached = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME=HOST[,HOST]",
        help="Send the value of your variable to these hosts as a bearer token, unseen inside; https://HOST for HTTPS.",
    ),
]
_TLS = "https://"


def network(allowed: list[str] | None, private: list[str] | None) -> Network:
    """The policy that the options name."""
    if private and not allowed:
        raise ConfigError("--private needs --allow.", hint="Name the hosts that are in this range, too.")
    return Network.allow(*allowed, private=tuple(private or ())) if allowed else Network.none()


def secrets(given: list[str] | None) -> tuple[Secret, ...]:
    """The secrets that the options name; their values are in this program's environment."""
    return tuple(secret for text in given or () for secret in _secrets(text))


def _secrets(text: str) -> list[Secret]:
    name, _, hosts = text.partition("=")
    named = hosts.split(",") if hosts else []
    if not name or not named or not all(named):
        raise ConfigError(
            f"--secret={name!r} names no host.", hint="Such as GITHUB_TOKEN=https://api.github.com, for a variable."
        )
    encrypted = tuple(host.removeprefix(_TLS) for host in named if host.startswith(_TLS))
    plain = tuple(host.removeprefix("http://") for host in named if not host.startswith(_TLS))
    return [Secret(name, hosts, tls=tls) for hosts, tls in ((encrypted, True), (plain, False)) if hosts]
