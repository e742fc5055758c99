"""Errors of a ttrpc connection, by the side that caused them.

This package imports nothing of the project, so its errors stand alone and the caller translates them. A status that the
peer answers is not an error here: it is an ordinary Response event.
"""


class TtrpcError(Exception):
    """Base class of all errors that this package raises on purpose."""


class LocalError(TtrpcError):
    """Our side asked for something that the protocol forbids; nothing was written."""


class RemoteError(TtrpcError):
    """The peer broke the protocol in a way that no answer can mend; the connection is dead."""


class ConnectionDead(TtrpcError):
    """The connection failed or ended earlier; `__cause__` keeps why, where there was a reason."""
