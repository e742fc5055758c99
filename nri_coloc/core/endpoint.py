"""The address of an HTTP server: one rule for the configuration and for every flag."""

import re
from typing import Final

ALLOWED: Final = '"ADDR:PORT" such as 127.0.0.1:9744 or [::1]:9744'
OR_OFF: Final = f'{ALLOWED}, or "off"'

# the address is required: without one the port would be open to every client that reaches the node
_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9.-]+)):(?P<port>[0-9]{1,5})")


def split(text: str) -> tuple[str, int]:
    """Return address and port of "ADDRESS:PORT"; an IPv6 address stands in brackets. Raises ValueError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"{text[:80]!r} is not an address with a port")
    return found["six"] or found["name"], int(found["port"])
