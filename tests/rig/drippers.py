"""Local clients that send half an HTTP request, a byte at a time, and connect again after they were disconnected."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final

PAUSE_S: Final = 0.02
"""Between two bytes of one connection."""

CONNECT_S: Final = 1.0


@contextmanager
def dripping(port: int, sockets: int) -> Iterator[None]:
    """Keep this number of half requests open at a port of this machine while the block lasts."""
    ended = Event()
    clients = [Thread(target=_drip, args=(port, ended), daemon=True) for _ in range(sockets)]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        ended.set()
        for client in clients:
            client.join()


def _drip(port: int, ended: Event) -> None:
    while not ended.is_set():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=CONNECT_S) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
            while not ended.wait(PAUSE_S):
                client.sendall(b"x")
