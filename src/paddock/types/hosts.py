"""Names of other machines, as text: one way to write each, and nothing that two readers could read differently."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from paddock.errors import ConfigError, visible

MAX_NAME = 253
WEB_PORTS = frozenset({80, 443})
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_METHODS = re.compile(r"[A-Z]{1,20}(,[A-Z]{1,20})*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_HINT = 'Such as "example.org", "*.example.org:443", "10.0.0.7:8080" or "GET,HEAD http://example.org/files".'


def host(text: str) -> str:
    """A name or an address as everybody writes it; `ValueError` for anything that somebody could read as another one."""
    if not text.isascii() or not 0 < len(text) <= MAX_NAME + 1:
        raise ValueError("it is no name of a host")
    small = text.lower()
    if ":" in small:
        return str(_version_6(small))
    name = small.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return str(_version_4(small))
    if len(name) > MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("it is no name of a host")
    return name


def authority(text: str, port: int | None = None) -> tuple[str, int]:
    """A host and a port, as in a URL; `port` where none is given. `ValueError` if it is anything else."""
    if text.startswith("["):
        inner, closed, rest = text[1:].partition("]")
        if not closed or ":" not in inner:
            raise ValueError("it is no address")
        name, colon, number = inner, rest[:1], rest[1:]
        if rest and colon != ":":
            raise ValueError("it is no port")
    else:
        name, colon, number = text.partition(":")
    if not colon and port is not None:
        return host(name), port
    return host(name), port_number(number)


def port_number(text: str) -> int:
    """A port, without a sign, spaces or zeros before it."""
    if not _PORT.fullmatch(text) or not text.isascii() or int(text) > 65535:
        raise ValueError("it is no port")
    return int(text)


def shown(name: str, port: int) -> str:
    """Both as one text, for people."""
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _version_4(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)  # four numbers without zeros before them, and nothing else
    except ValueError:
        raise ValueError("it is an address in an unusual notation") from None


def _version_6(text: str) -> IPv6Address:
    try:
        found = IPv6Address(text)
    except ValueError:
        raise ValueError("it is an address in an unusual notation") from None
    usual = found.compressed == text and "." not in text and "%" not in text
    if not usual or found.ipv4_mapped is not None:
        raise ValueError("it is an address in an unusual notation")
    return found


def is_address(name: str) -> bool:
    """Whether a host, as `host` returns it, is an address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class HostPattern:
    """What one text of `Network.allow` means."""

    host: str
    below: bool = False
    """Whether every name below it is meant, and not itself."""
    ports: frozenset[int] | None = WEB_PORTS
    """None: every port."""
    http: bool = False
    """Whether only plain HTTP is meant, whose requests can be looked at."""
    methods: frozenset[str] = frozenset()
    """Empty: every method."""
    path: str = ""
    """Where paths begin; empty: everywhere."""

    def covers(self, name: str, port: int) -> bool:
        """Whether this host and port are meant, whatever is asked of them. Names are compared label by label."""
        if self.ports is not None and port not in self.ports:
            return False
        if not self.below:
            return name == self.host
        return name.endswith("." + self.host) and not is_address(name)

    def allows(self, method: str, path: str | None) -> bool:
        """Whether this request is; `path` is one that `plain_path` returned."""
        if self.methods and method not in self.methods:
            return False
        if not self.path:
            return True
        return path is not None and (path == self.path or path.startswith(self.path.removesuffix("/") + "/"))


def pattern(text: str) -> HostPattern:
    """What it means; a `ConfigError` that names it if it means nothing."""
    try:
        return _pattern(text)
    except ValueError as error:
        why = str(error)
        raise ConfigError(f"Network.allow: {visible(repr(text))} is no pattern: {why}.", hint=_HINT) from None


def _pattern(text: str) -> HostPattern:
    words, scheme, rest = text.rpartition("http://")
    if scheme:
        return _web_pattern(words, rest)
    if "://" in text:
        raise ValueError(_why_no_scheme(text))
    if "/" in text:
        raise ValueError("a path needs http:// before the host, and nothing of an encrypted request can be looked at")
    return _place(text, WEB_PORTS)


def _why_no_scheme(text: str) -> str:
    scheme, _, rest = text.partition("://")
    if scheme.split(" ")[-1] != "https":
        return "the only scheme is http://, and without one every protocol is meant"
    if "/" in rest.rstrip("/") or " " in scheme:
        return "HTTPS is encrypted, so that neither its paths nor its methods can be looked at; give HOST:443"
    return "for HTTPS give HOST:443"


def _web_pattern(words: str, rest: str) -> HostPattern:
    methods = words.removesuffix(" ")
    if words and (words == methods or not _METHODS.fullmatch(methods) or "CONNECT" in methods.split(",")):
        raise ValueError("before http:// there are methods such as GET,HEAD and one space")
    name, slash, path = rest.partition("/")
    place = _place(name, frozenset({80}))
    begins = plain_path(slash + path) if slash else ""
    if begins is None or "?" in path or "#" in path:
        raise ValueError("its path is not a plain one")
    allowed = frozenset(methods.split(",")) if methods else frozenset[str]()
    return HostPattern(place.host, place.below, place.ports, True, allowed, "" if begins == "/" else begins)


def _place(text: str, usual: frozenset[int]) -> HostPattern:
    below = text.startswith("*.")
    rest = text[2:] if below else text
    if rest.count(":") > 1 and not rest.startswith("["):
        return HostPattern(host(rest), False, usual)
    name, ports = _ports(rest, usual)
    if name == "*":
        raise ValueError("it names no host; Network.open() is for all of them")
    whole = _named(name)
    if below and is_address(whole):
        raise ValueError("nothing is below an address")
    return HostPattern(whole, below, ports)


def _ports(text: str, usual: frozenset[int]) -> tuple[str, frozenset[int] | None]:
    name, bracket, rest = text.rpartition("]")
    before, colon, number = rest.partition(":")
    name += bracket + before
    if not colon:
        return name, usual
    return name, None if number == "*" else frozenset({port_number(number)})


def _named(name: str) -> str:
    """As it is asked for: names in other scripts in the form that they have on the wire."""
    if name.startswith("[") and name.endswith("]") and ":" in name:
        return host(name[1:-1])
    if name.isascii():
        return host(name)
    small = name.lower().removesuffix(".")
    try:
        encoded = small.encode("idna")
        same = encoded.decode("idna") == small
    except UnicodeError:
        same = False
    if not same:
        raise ValueError("its letters mean another name than they show; give it as xn--…")
    return host(encoded.decode("ascii"))


def plain_path(path: str) -> str | None:
    """A request's path, decoded, if every server has to read it the same way; None if one could lead somewhere else."""
    from unicodedata import normalize
    from urllib.parse import unquote_to_bytes

    if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path or "\\" in path:
        return None
    if re.search(r"%(?![0-9A-Fa-f]{2})|%(2[fF]|5[cC]|25|[01][0-9A-Fa-f]|7[fF])", path):
        return None
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return None
    folded = normalize("NFKC", decoded)
    if folded.count("/") != path.count("/") or "\\" in folded:
        return None
    leads_up = any(segment.partition(";")[0].strip() in (".", "..") for segment in folded.split("/"))
    return None if leads_up else decoded
