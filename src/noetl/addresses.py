"""Which addresses a tool may connect to (D88): a pure check of the final address, after name resolution.

For an IPv6 address that embeds an IPv4 address (mapped, NAT64, 6to4, Teredo), both are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Metadata services, which give credentials of the machine to any process, at addresses in ordinary ranges.
METADATA: Final = frozenset(
    ip_address(each) for each in ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254")
)
NAT64: Final = ip_network("64:ff9b::/96")
NAT64_LOCAL: Final = ip_network("64:ff9b:1::/48")
IPV4_COMPATIBLE: Final = ip_network("::/96")
SITE_LOCAL: Final = ip_network("fec0::/10")
# IANA's registries of special-purpose addresses. `is_global` changes with the patch level of Python.
PRIVATE: Final[tuple[Network, ...]] = (
    *map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24")),
    *map(IPv4Network, ("192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24")),
    *map(IPv6Network, ("100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7")),
)
GLOBAL: Final[tuple[Network, ...]] = (  # exceptions within these
    *map(IPv4Network, ("192.0.0.9/32", "192.0.0.10/32")),
    *map(IPv6Network, ("2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28")),
)


def refusal(address: str, *, allow_private: bool, allow: Sequence[Network] = ()) -> str | None:
    """Why a tool may not connect to this address; None: it may.

    `allow_private` permits loopback and private addresses; `allow` permits those in its networks. Neither permits
    another special address, such as that of a metadata service.
    """
    try:
        outer = ip_address(address.partition("%")[0])
    except ValueError:
        return f'"{address}" is not an IP address'
    for each in (outer, *_inside(outer)):
        what = _class(each)
        if what is None:
            continue
        if what not in ("loopback", "private") or not (allow_private or _is_in(each, allow)):
            carrier = "" if each == outer else f", inside {address}"
            article = "an" if what == "unspecified" else "a"
            return f"{each} is {article} {what} address{carrier}"
    return None


def _inside(address: Address) -> Iterator[Address]:
    """The IPv4 addresses that an IPv6 address reaches through a translator or a tunnel."""
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    low = int(address) & 0xFFFF_FFFF
    if address in NAT64:
        yield IPv4Address(low)
    if address in NAT64_LOCAL:
        # A prefix of 96 bits has the IPv4 address at the end, one of 48 bits on both sides of bits 64 to 71.
        split = (int(address) >> 64 & 0xFFFF) << 16 | int(address) >> 40 & 0xFFFF
        yield from (IPv4Address(each) for each in (low, split) if each >> 24)


def _class(address: Address) -> str | None:
    """The special class of an address; None: it is ordinary, apart from an embedded address."""
    if address in METADATA:
        return "metadata"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None or address in NAT64:
            return None
        if address in IPV4_COMPATIBLE and int(address) > 1:
            return "reserved"
        if address in SITE_LOCAL:
            return "link-local"
        if address in NAT64_LOCAL:
            return "private"
    elif int(address) >> 24 in (0, 255):
        return "broadcast" if int(address) >> 24 else "unspecified"
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_reserved:
        return "reserved"
    return "private" if _is_in(address, PRIVATE) and not _is_in(address, GLOBAL) else None


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def is_loopback_host(host: str) -> bool:
    """Whether a host name or an address in a setting stands for this machine. It resolves no names."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
