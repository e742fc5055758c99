"""End connections that another thread waits on."""

import socket
from contextlib import suppress


def shut_down(connection: socket.socket) -> None:
    """End a connection, or listening, for both sides: a thread that waits on the socket wakes, which `close` does not.

    Any thread may call it. The owner of the socket closes it.
    """
    with suppress(OSError):  # the peer or the owner closed it meanwhile
        # not the method of SSLSocket, which also drops the TLS state that a reading thread uses
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
