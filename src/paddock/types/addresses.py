"""Addresses of the Internet, and which of them a sandbox may be connected to."""

from collections.abc import Iterable, Iterator
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from paddock.errors import ConfigError

Address = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network

_NEVER = (
    *("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4"),
    *("::/128", "fe80::/10", "fec0::/10", "ff00::/8", "64:ff9b:1::/48"),
    *("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128"),
)
"""Not by any policy: this network, links, groups, what is reserved, and where clouds tell machines their secrets."""

_NAMED_ONLY = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"),
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("::1/128", "fc00::/7", "2001::/23", "2001:db8::/32", "3fff::/20"),
)
"""Only where `private=` names a range that has them: this host, private networks, and what no public machine has."""

_GLOBAL = "2000::/3"
_LAST = ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
"""Where the last four bytes are an address of IPv4: compatible, mapped, translated, and NAT64."""
_6TO4, _TEREDO = "2002::/16", "2001::/32"


def ranges(given: Iterable[str]) -> tuple[Range, ...]:
    """What `private=` names; a `ConfigError` for what is no range, or can never be allowed."""
    return tuple(_range(text) for text in given)


def _range(text: str) -> Range:
    try:
        found = ip_network(text)
    except ValueError:
        raise ConfigError(
            f"private={text!r} is not a range of addresses.", hint='Such as private=("10.0.0.0/8",) or "fd12::/16".'
        ) from None
    if any(_within(found, never) for never in _parsed(_NEVER)):
        raise ConfigError(
            f"private={text!r} is never allowed: these are link-local, metadata or reserved addresses.",
            hint="Leave it out.",
        )
    return found


def why_refused(address: Address, allowed: Iterable[Range]) -> str | None:
    """Why it is not connected to, in a word or two; None if it is. What an address stands for decides, too."""
    allowed = tuple(allowed)
    for one in stands_for(address):
        if any(one in never for never in _parsed(_NEVER) if never.version == one.version):
            return "a link-local, metadata or reserved address"
        if _needs_name(one) and not any(one in named for named in allowed if named.version == one.version):
            return "an address of a private network"
    return None


def stands_for(address: Address) -> Iterator[Address]:
    """Who really is behind it: an IPv6 address may carry one of IPv4, or two."""
    if isinstance(address, IPv4Address):
        yield address
        return
    number = int(address)
    if number > 1 and any(address in block for block in _parsed(_LAST)):
        yield IPv4Address(number & 0xFFFFFFFF)
    elif address in _net(_6TO4):
        yield IPv4Address((number >> 80) & 0xFFFFFFFF)
    elif address in _net(_TEREDO):
        yield IPv4Address((number >> 64) & 0xFFFFFFFF)
        yield IPv4Address(~number & 0xFFFFFFFF)
    else:
        yield address


def _needs_name(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _net(_GLOBAL):
        return True
    return any(address in named for named in _parsed(_NAMED_ONLY) if named.version == address.version)


@cache
def _parsed(texts: tuple[str, ...]) -> tuple[Range, ...]:
    return tuple(ip_network(text) for text in texts)


@cache
def _net(text: str) -> Range:
    return ip_network(text)


def _within(inner: Range, outer: Range) -> bool:
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)
