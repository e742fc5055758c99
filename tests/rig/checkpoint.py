"""The daemon's checkpoint of its learnt values, read apart from the product's own reader."""

import json
import zlib
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint; AssertionError if a character of it is missing or wrong."""
    text = path.read_bytes()
    head, _, body = text.partition(b"\n")
    name, version, checksum, length = head.split(b" ")
    assert (name, version) == (b"nri-coloc-forecast", b"1"), head
    assert len(body) == int(length), f"{len(body)} bytes of {int(length)}"
    assert zlib.crc32(body) == int(checksum, 16), "its checksum is wrong"
    found: dict[str, Any] = json.loads(body)
    return found
