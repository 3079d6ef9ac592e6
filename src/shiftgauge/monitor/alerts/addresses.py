"""Which addresses messages may be sent to: those of the public internet, and networks that the operator allows."""

from __future__ import annotations

import ipaddress
import os

#: Networks beyond the public internet that whoever runs the server allows, such as `10.0.0.0/8,127.0.0.1`.
ALLOWED_NETWORKS = "SHIFTGAUGE_WEBHOOK_NETWORKS"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: NAT64 (RFC 6052): the last 32 bits are an IPv4 address.
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")


def to_address(text: str) -> Address:
    """An address as the operating system writes it, without its zone."""
    return ipaddress.ip_address(text.split("%")[0])


def refusal(address: Address) -> str | None:
    """Why no message may be sent to this address; None where it may."""
    try:
        allowed = [
            ipaddress.ip_network(text.strip())
            for text in os.environ.get(ALLOWED_NETWORKS, "").split(",")
            if text.strip()
        ]
    except ValueError as problem:
        return f"{ALLOWED_NETWORKS} cannot be read ({problem})"
    if is_public(address) or any(address in network for network in allowed):
        return None
    return (
        f"the host is {address}, which is not an address of the public internet; whoever runs the monitor may allow it "
        f"with {ALLOWED_NETWORKS}={address}"
    )


def is_public(address: Address) -> bool:
    """Whether this is an address of the public internet, also where an IPv6 address stands for an IPv4 one.

    >>> is_public(ipaddress.ip_address("8.8.8.8")), is_public(ipaddress.ip_address("::ffff:169.254.169.254"))
    (True, False)
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in GLOBAL_UNICAST or (address.sixtofour and not is_public(address.sixtofour)):
            return False
    return address.is_global and not address.is_multicast
