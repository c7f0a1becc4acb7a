"""Which addresses are connected to: what stands behind them decides."""

import ipaddress
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.types.addresses import ranges, stands_for, why_refused

PUBLIC = ("8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8")
PRIVATE = (
    *(
        "127.0.0.1",
        "127.255.255.254",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "198.18.0.1",
    ),
    *("192.0.0.8", "192.0.2.1", "198.51.100.1", "203.0.113.7", "192.88.99.1"),
    *("::1", "fc00::1", "fd12::1", "2001:db8::1", "2001:10::1", "100::1", "5f00::1"),
    *(
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2002:a00:1::1",
    ),
    *("2001:0:a00:1:0:0:f7f7:f7f7", "2001:0:808:808:0:0:80ff:fffe", "::ffff:0:7f00:1"),
)
NEVER = (
    *("0.0.0.0", "0.1.2.3", "169.254.0.1", "169.254.169.254", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("::", "fe80::1", "fec0::1", "ff02::1", "fd00:ec2::254", "fd20:ce::254", "64:ff9b:1::a9fe:a9fe"),
    *(
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "::a9fe:a9fe",
        "2001:0:a9fe:a9fe::",
        "::ffff:0.0.0.0",
    ),
)
EVERYTHING = ranges(["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize("text", PUBLIC)
def test_public(text: str) -> None:
    assert why_refused(ip_address(text), ()) is None


@pytest.mark.parametrize("text", PRIVATE)
def test_private_unless_named(text: str) -> None:
    assert why_refused(ip_address(text), ()) == "an address of a private network"
    assert why_refused(ip_address(text), EVERYTHING) is None


@pytest.mark.parametrize("text", NEVER)
def test_never(text: str) -> None:
    assert "metadata" in (why_refused(ip_address(text), EVERYTHING) or "")


def test_a_range_is_no_larger_than_it_says() -> None:
    named = ranges(["10.0.0.0/8"])
    assert why_refused(ip_address("10.255.0.1"), named) is None
    assert why_refused(ip_address("::ffff:10.255.0.1"), named) is None
    assert why_refused(ip_address("11.0.0.1"), named) is None
    assert why_refused(ip_address("192.168.0.1"), named)
    assert why_refused(ip_address("fd00::1"), named)


@given(st.ip_addresses(v=4))
def test_nothing_that_python_calls_private_is_let_through(address: IPv4Address) -> None:
    """The lists are ours, since those of Python differ from version to version; they are not shorter than its."""
    if why_refused(address, ()) is None:
        assert address.is_global or address in ipaddress.ip_network("192.0.0.0/24")
        assert not address.is_multicast


@given(st.ip_addresses(v=6))
def test_the_same_for_version_6(address: IPv6Address) -> None:
    if why_refused(address, ()) is None:
        carried = [one for one in stands_for(address) if isinstance(one, IPv4Address)]
        assert carried or address in ipaddress.ip_network("2000::/3")
        assert all(why_refused(one, ()) is None for one in carried)


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "64:ff9b::", "::ffff:0:0:0"]))
def test_what_is_carried_decides(address: IPv4Address, prefix: str) -> None:
    carried = IPv6Address(int(IPv6Address(prefix)) | int(address))
    for allowed in ((), ranges(["10.0.0.0/8", "127.0.0.0/8"])):
        assert why_refused(carried, allowed) == why_refused(address, allowed)
