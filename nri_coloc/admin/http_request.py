"""One HTTP request as bytes: where its head ends, and what it asks for. Pure.

Headers mean nothing here, so none is kept. A body is not read: no method that carries one is served.
"""

import re
from http import HTTPStatus
from typing import Final, NamedTuple

MAX_BYTES: Final = 16 * 1024
"""Of a head: twice what browsers and proxies send at most."""

MAX_HEADERS: Final = 100

_LINE: Final = re.compile(rb"([!-~]{1,32}) ([!-~]+) HTTP/1\.[0-9]")


class Request(NamedTuple):
    """A request that can be answered; `query` is what follows the question mark."""

    method: str
    path: str
    query: str


class BadRequest(ValueError):
    """A head that cannot be served; the text is fit to be sent back."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def end_of_head(received: bytes | bytearray, since: int) -> int:
    """Return the length of the head, -1 while it is not whole; raise BadRequest when it is too long.

    `since`: how many bytes were looked at before. So a head costs as much byte by byte as at once.
    """
    begin = max(0, since - 2)
    ends = [at for at in (received.find(b"\n\r\n", begin), received.find(b"\n\n", begin)) if at >= 0]
    if min(ends, default=len(received)) >= MAX_BYTES:
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head has at most {MAX_BYTES} bytes")
    return min(ends, default=-1)


def read(head: bytes) -> Request:
    """Return what a whole head asks for; raise BadRequest."""
    lines = head.strip(b"\r\n").splitlines()  # RFC 9112, 2.2: an empty line before a request is ignored
    if len(lines) - 1 > MAX_HEADERS:
        raise BadRequest(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"there are at most {MAX_HEADERS} headers"
        )
    asked = _LINE.fullmatch(lines[0]) if lines else None
    if asked is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the first line is not a request of HTTP/1")
    path, _, query = asked[2].decode().partition("?")
    return Request(asked[1].decode(), path, query)
