"""Names of hosts, patterns and paths: one reading each, or none."""

import string
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import ConfigError, Network
from paddock.egress.rules import Rules, Verdict
from paddock.types.hosts import authority, host, pattern, plain_path

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=5).map(".".join)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("example.org", "example.org"),
        ("EXAMPLE.org.", "example.org"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("localhost", "localhost"),
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "::1"),
        ("2001:DB8::7", "2001:db8::7"),
    ],
)
def test_usual_names(text: str, meant: str) -> None:
    assert host(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "a..b", ".a", "a.b..", "-a.b", "a-.b", "a_b.c", "a" * 64 + ".org", "a." * 127 + "org"),
        *("allowed.com\0.evil.com", "allowed.com@evil.com", "allowed.com#evil.com", "allowed.com%2eevil.com", "a b.c"),
        *("allowed.com/evil", "allowed.com\\evil", "allowed.com?x", "a.b\r\n", "\ta.b", "a.b ", "mün.de", "\uff41.com"),
        *("0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "127.1", "127.0.1", "1.2.3", "1.2.3.4.5", "1.2.3.4."),
        *("01.2.3.4", "1.2.3.256", "a.1", "a.0x1", "1.2.3.0x4", "4294967296", "٣.1.1.1"),
        *("::ffff:127.0.0.1", "::ffff:7f00:1", "fe80::1%eth0", "[::1]", "0:0:0:0:0:0:0:1", "::0001", ":::", "1::2::3"),
    ],
)
def test_names_that_somebody_reads_differently(text: str) -> None:
    with pytest.raises(ValueError, match="it is"):
        host(text)


@given(st.text(max_size=40))
def test_whatever_is_taken_is_plain(text: str) -> None:
    try:
        found = host(text)
    except ValueError:
        return
    assert set(found) <= set(string.ascii_lowercase + string.digits + "-.:")
    assert host(found) == found


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_addresses_have_one_form(address: IPv4Address | IPv6Address) -> None:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return
    assert host(address.compressed) == address.compressed
    if address.exploded != address.compressed:
        with pytest.raises(ValueError, match="unusual"):
            host(address.exploded)


@pytest.mark.parametrize(
    "text", ["a.b:0", "a.b:00443", "a.b:65536", "a.b:+1", "a.b: 1", "a.b:", "a.b:80:81", "[::1]80", "[::1"]
)
def test_ports_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="it is"):
        authority(text)
    assert authority("a.b:443") == ("a.b", 443)
    assert authority("[::1]:443") == ("::1", 443)


# Patterns


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("allowed.com", [("allowed.com", 443), ("allowed.com", 80)], [("allowed.com", 22), ("www.allowed.com", 443)]),
        ("allowed.com:8080", [("allowed.com", 8080)], [("allowed.com", 443)]),
        ("allowed.com:*", [("allowed.com", 1), ("allowed.com", 65535)], [("x.com", 443)]),
        (
            "*.allowed.com",
            [("a.allowed.com", 443), ("a.b.allowed.com", 443)],
            [("allowed.com", 443), ("notallowed.com", 443)],
        ),
        ("Allowed.Com.", [("allowed.com", 443)], [("allowed.com.evil", 443), ("evil-allowed.com", 443)]),
        ("münchen.de", [("xn--mnchen-3ya.de", 443)], [("munchen.de", 443)]),
        ("10.0.0.7:8080", [("10.0.0.7", 8080)], [("10.0.0.70", 8080), ("10.0.0.7", 80)]),
        ("[::1]:8080", [("::1", 8080)], [("::1", 80)]),
        ("2001:db8::7", [("2001:db8::7", 443)], [("2001:db8::70", 443)]),
    ],
)
def test_patterns(text: str, yes: list[tuple[str, int]], no: list[tuple[str, int]]) -> None:
    found = pattern(text)
    assert all(found.covers(*place) for place in yes)
    assert not any(found.covers(*place) for place in no)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://a.b/c", "encrypted"),
        ("GET https://a.b", "encrypted"),
        ("https://a.b", "HOST:443"),
        ("ftp://a.b", "scheme"),
        ("a.b/c", "path"),
        ("*", r"Network.open\(\)"),
        ("*.*.b", "no name"),
        ("a.*.b", "no name"),
        ("*a.b", "no name"),
        ("*.10.0.0.7", "below an address"),
        ("user@a.b", "no name"),
        ("a.b:http", "port"),
        ("127.1", "unusual"),
        ("faß.de", "xn--"),
        ("get http://a.b", "methods"),
        ("CONNECT http://a.b", "methods"),
        ("http://a.b/../c", "plain"),
        ("http://a.b/c%2fd", "plain"),
        ("http://a.b/c?d", "plain"),
    ],
)
def test_patterns_that_mean_nothing(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        Network.allow(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "private", ["10.0.0.0/8", ["10.0.0.1/8"], ["ten"], ["169.254.0.0/16"], ["169.254.169.254/32"], [7]]
)
def test_ranges_that_are_none(private: object) -> None:
    with pytest.raises(ConfigError):
        Network.allow("a.b", private=private)  # type: ignore[arg-type]
    assert Network.allow("a.b", private=["10.0.0.0/8", "fd12::/16"]).private == ("10.0.0.0/8", "fd12::/16")


def test_a_policy_survives_json() -> None:
    network = Network.allow("*.a.b:443", "GET http://c.d/e", private=("10.0.0.0/8",))
    assert Network.from_dict(network.to_dict()) == network
    with pytest.raises(ConfigError):
        Network.from_dict({"policy": "allow", "hosts": ["https://a.b/c"]})
    with pytest.raises(ConfigError):
        Network("everything")  # type: ignore[arg-type]


@given(NAMES, NAMES)
def test_only_whole_labels_count(name: str, other: str) -> None:
    rules = Rules(Network.allow(f"*.{name}"))
    assert rules.place(f"{other}.{name}", 443) is Verdict.ANYTHING
    assert rules.place(name, 443) is Verdict.NOTHING
    assert rules.place(f"{other}{name}", 443) is Verdict.NOTHING or f"{other}{name}".endswith(f".{name}")
    exact = Rules(Network.allow(name))
    assert exact.place(name, 80) is Verdict.ANYTHING
    assert exact.place(f"{name}.{other}", 80) is Verdict.NOTHING
    assert exact.place(f"{other}.{name}", 80) is Verdict.NOTHING


def test_nothing_is_allowed_by_nothing() -> None:
    for network in (Network.none(), Network.allow()):
        assert Rules(network).place("example.org", 443) is Verdict.NOTHING
    assert Rules(Network.open()).place("example.org", 9) is Verdict.ANYTHING


# Requests


def test_methods_and_paths() -> None:
    rules = Rules(Network.allow("GET,HEAD http://a.b/files", "POST http://a.b/in/box/"))
    assert rules.place("a.b", 80) is Verdict.REQUESTS
    assert rules.place("a.b", 443) is Verdict.NOTHING
    for method, target in (
        ("GET", "/files"),
        ("HEAD", "/files/x?y=../z"),
        ("POST", "/in/box/1"),
        ("GET", "/files/%41"),
    ):
        assert rules.request("a.b", 80, method, target), target
    for method, target in (
        ("POST", "/files"),
        ("GET", "/filesystem"),
        ("GET", "/"),
        ("POST", "/in/box"),
        ("get", "/files"),
    ):
        assert not rules.request("a.b", 80, method, target), target
    both = Rules(Network.allow("a.b:80", "GET http://a.b/files"))
    assert both.request("a.b", 80, "DELETE", "/%2e%2e/x")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/ok/../no",
            "/ok/./x",
            "/ok/..",
            "/ok/%2e%2e/no",
            "/ok/%2E./no",
            "/ok/.%2e/no",
            "/ok/..;/no",
            "/ok/..;a=b/no",
        ),
        *(
            "/ok%2fx",
            "/ok%2Fx",
            "/ok\\..\\no",
            "/ok%5c..",
            "/ok/%252e%252e/no",
            "/ok/%c0%ae%c0%ae/no",
            "/ok/%00",
            "/ok/%",
        ),
        *(
            "/ok/%zz",
            "/ok/%0d%0a",
            "/ok/%ef%bc%8e%ef%bc%8e/no",
            "/ok/%ef%bc%8f..",
            "ok",
            "//\\x",
            "/ok /x",
            "/ok/%20../%20..",
        ),
    ],
)
def test_paths_that_lead_elsewhere(path: str) -> None:
    rules = Rules(Network.allow("http://a.b/ok"))
    assert not rules.request("a.b", 80, "GET", path)
    assert rules.request("a.b", 80, "GET", "/ok/x.y/..z/a%20b/%C3%A9")


@given(st.text(alphabet="/.%2e5cfF;\\ab", max_size=30))
def test_a_path_that_is_taken_stays_below(path: str) -> None:
    found = plain_path(f"/ok/{path}")
    if found is None:
        return
    segments = found.split("/")
    assert segments[:2] == ["", "ok"]
    assert not {".", ".."} & {segment.partition(";")[0] for segment in segments}
    assert "\\" not in found
    assert found.count("/") == f"/ok/{path}".count("/")
