"""Which addresses a tool may connect to (D88). Pure: no socket is opened here."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from noetl.addresses import METADATA, refusal
from noetl.runtime.devcluster.cluster import OWN_NETWORKS
from noetl.tool import AddressPolicy

WORLD = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
OURS = [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "fc00::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
]
NOBODYS = {
    "169.254.169.254": "169.254.169.254 is a link-local address",
    "::ffff:169.254.169.254": "169.254.169.254 is a link-local address, inside ::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe": "169.254.169.254 is a link-local address, inside 64:ff9b::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::": "169.254.169.254 is a link-local address, inside 64:ff9b:1:a9fe:a9:fe00::",
    "2002:a9fe:a9fe::1": "169.254.169.254 is a link-local address, inside 2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1": "169.254.169.254 is a link-local address, inside 2001:0:a9fe:a9fe::1",
    "2001:0:808:808::5601:5601": "169.254.169.254 is a link-local address, inside 2001:0:808:808::5601:5601",
    "fe80::1": "fe80::1 is a link-local address",
    "fe80::1%eth0": "fe80::1 is a link-local address",
    "fec0::1": "fec0::1 is a link-local address",
    "0.0.0.0": "0.0.0.0 is an unspecified address",
    "0.1.2.3": "0.1.2.3 is an unspecified address",
    "::": ":: is an unspecified address",
    "::7f00:1": "::7f00:1 is a reserved address",
    "224.0.0.1": "224.0.0.1 is a multicast address",
    "ff02::1": "ff02::1 is a multicast address",
    "255.255.255.255": "255.255.255.255 is a broadcast address",
    "240.0.0.1": "240.0.0.1 is a reserved address",
    "100.100.100.200": "100.100.100.200 is a metadata address",
    "168.63.129.16": "168.63.129.16 is a metadata address",
    "fd00:ec2::254": "fd00:ec2::254 is a metadata address",
    "localhost": '"localhost" is not an IP address',
    "": '"" is not an IP address',
}


@pytest.mark.parametrize("address", WORLD)
@pytest.mark.parametrize("allow_private", [True, False])
def test_public_addresses_are_allowed(address: str, allow_private: bool) -> None:
    assert refusal(address, allow_private=allow_private) is None


@pytest.mark.parametrize("address", OURS)
def test_private_addresses_are_allowed_when_embedded_and_refused_on_a_server_d88(address: str) -> None:
    assert refusal(address, allow_private=True) is None
    reason = refusal(address, allow_private=False)
    assert reason is not None
    assert " is a loopback address" in reason or " is a private address" in reason


@pytest.mark.parametrize("address", NOBODYS)
def test_special_addresses_are_refused_everywhere_d88(address: str) -> None:
    assert refusal(address, allow_private=True) == NOBODYS[address]
    assert refusal(address, allow_private=False) is not None


@pytest.mark.parametrize("address", NOBODYS)
def test_no_setting_allows_a_special_address(address: str) -> None:
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    for allow_private in (True, False):
        assert refusal(address, allow_private=allow_private, allow=everything) == NOBODYS[address]


def test_noetl_up_allows_no_metadata_address() -> None:
    policy = AddressPolicy.of_server(OWN_NETWORKS)
    assert policy.refusal("10.1.2.3") is None
    for address in (*map(str, METADATA), "169.254.169.254", "fd00::1"):
        assert policy.refusal(address) is not None


def test_networks_can_be_allowed() -> None:
    allow = (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    assert refusal("10.1.2.3", allow_private=False, allow=allow) is None
    assert refusal("fd00::5", allow_private=False, allow=allow) is None
    assert refusal("10.2.2.3", allow_private=False, allow=allow) == "10.2.2.3 is a private address"
    assert refusal("::ffff:10.1.2.3", allow_private=False, allow=allow) is None
