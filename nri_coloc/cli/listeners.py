"""Find the users whose processes listen at a TCP address of this machine.

Any local process can bind the daemon's HTTP port while no daemon has it, and answer in the daemon's place. The kernel
lists each listening socket with its user (Documentation/networking/proc_net_tcp.rst).
"""

import os
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from nri_coloc.host import files

NET: Final = "/proc/self/net"

_TABLES: Final = ("tcp", "tcp6")
_LISTENING: Final = "0A"
_LOCAL, _STATE, _USER = 1, 3, 7
"""Columns of a row."""


def strangers(host: str, port: int, net: str = NET) -> set[int] | None:
    """Return the users that listen at an address, without root and this process's user; None if nobody listens.

    host: an IP address. net: the folder with the kernel's tables.
    """
    rows = (row.split() for name in _TABLES for row in (files.text(f"{net}/{name}") or "").splitlines()[1:])
    users = {
        int(row[_USER]) for row in rows if row[_STATE] == _LISTENING and _serves(row[_LOCAL], host, port)
    }
    return users - {0, os.geteuid()} if users else None


def _serves(local: str, host: str, port: int) -> bool:
    """Return whether a socket with this local address, such as "0100007F:2610", takes connections to an address."""
    address, _, number = local.partition(":")
    if int(number, 16) != port:
        return False
    # the kernel prints each four bytes as one number of the machine's byte order
    words = (int(address[at : at + 8], 16) for at in range(0, len(address), 8))
    bound = ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
    return bound.is_unspecified or _plain(bound) == _plain(ip_address(host))


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, if it does."""
    return getattr(address, "ipv4_mapped", None) or address
