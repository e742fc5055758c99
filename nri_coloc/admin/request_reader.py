"""Reads one request from a socket within a total time and a total size, however it is dripped in."""

import io
import socket
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class RequestTooLarge(HTTPException):
    """The stranger sent more than a request can be; `http.server` answers 431 to any HTTPException."""


class RequestReader(io.RawIOBase):
    """The raw side of a handler's `rfile`; its limits hold for everything that is ever read from it."""

    def __init__(
        self,
        connection: socket.socket,
        max_bytes: int,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._left = max_bytes
        self._clock = clock
        self._deadline = clock() + timeout_s

    def readable(self) -> bool:
        """Tell `io` that reading is what this is for."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill the buffer with what is there; TimeoutError and RequestTooLarge end the request."""
        remaining = self._deadline - self._clock()
        if remaining <= 0:
            raise TimeoutError("the request took too long")
        if self._left <= 0:
            raise RequestTooLarge("the request is too large")
        self._connection.settimeout(remaining)
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count
