"""The address of an HTTP server: one rule for the configuration and for every flag, and the names of that address."""

import re
from ipaddress import ip_address
from typing import Final

ALLOWED: Final = '"ADDR:PORT" such as 127.0.0.1:9744 or [::1]:9744'
OR_OFF: Final = f'{ALLOWED}, or "off"'

# the address is required: without one the port would be open to every client that reaches the node
_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9.-]+)):(?P<port>[0-9]{1,5})")
_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]*)?")


def split(text: str) -> tuple[str, int]:
    """Return address and port of "ADDRESS:PORT"; an IPv6 address stands in brackets. Raises ValueError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"{text[:80]!r} is not an address with a port")
    return found["six"] or found["name"], int(found["port"])


def is_own_name(host: str, bound: str, configured: str) -> bool:
    """Return whether a request's Host header may name a server that listens at an address.

    A site whose name server gives the site's name a loopback address (DNS rebinding) reads the answers through the
    browser of a person there. No site has an address or "localhost" as its name. A server at another address is open to
    its network anyway, and clients use any name that the network has for it. Every browser sends the header.

    bound: the address of the socket, without its port.
    configured: the name or the address in the settings.
    """
    if not host or not ip_address(bound).is_loopback:
        return True
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["six"] or found["name"]).lower().removesuffix(".")
    return name in ("localhost", configured.lower()) or _is_address(name)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
