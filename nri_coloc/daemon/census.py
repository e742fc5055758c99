"""The runtime's list, for a plugin that is never given one (containerd 1.7 does not synchronise what it launches)
and for `restore`, which is no plugin.

A second, external registration gets a Synchronize like any other; once it has come this connection is closed. The
runtime notices at its next event and goes on without it. Nothing is subscribed that could not be missed: whatever is
sent here before the end is answered by the end of the connection, which counts as "no change".
"""

import time
from collections.abc import Callable
from typing import Final

from nri_coloc.daemon.listing import Listing
from nri_coloc.daemon.trunk import RETRY_CAP_S, connect_to
from nri_coloc.errors import ColocError, TransportLost
from nri_coloc.nri import events
from nri_coloc.nri.session import Session

PATIENCE_S: Final = 30.0
"""For each read: the runtime serves one registration at a time, and a failed census is tried again, but for that of a
`restore`."""

INDEX: Final = "99"
"""Last in the order of plugins: nobody waits for a connection that is about to end."""

READ_SIZE: Final = 1 << 18

PAUSE_S: Final = 0.01
"""An old runtime opens its socket a few milliseconds after it has configured what it launched."""


def take(path: str, name: str, listing: Listing, patience_s: float = PATIENCE_S) -> Listing:
    """Register, take the list, leave; raises OSError or ColocError when it cannot be had now."""
    session = Session(f"{name}.census", INDEX)
    with connect_to(path) as connection:
        connection.settimeout(patience_s)
        connection.sendall(session.register())
        while True:
            data = connection.recv(READ_SIZE)
            if not data:
                raise TransportLost("the runtime closed the connection before it sent its list")
            for event in session.receive_data(data):
                if isinstance(event, events.Synchronize):
                    listing.add(event)
                    if not event.more:
                        connection.sendall(session.answer(event.call, None))
                        return listing
                if isinstance(event, events.Configured):
                    connection.sendall(session.configure_answer(event.call, event.nri_version))
            connection.sendall(session.data_to_send())


def take_in_time(
    at: tuple[str, str],
    listing: Callable[[], Listing],
    wait: Callable[[str], None],
    is_ending: Callable[[], bool],
) -> Listing | None:
    """Take the list as soon as the runtime's socket is there, None if the end comes first.

    `at`: the socket's path and the plugin's name. `listing` makes an empty list. `wait` is told why it cannot be had
    yet, "" once it was.
    """
    pause = PAUSE_S
    while not is_ending():
        try:
            listed = take(*at, listing())
        except (OSError, ColocError) as error:
            wait(f"the runtime's list cannot be read: {error}")
            time.sleep(pause)
            pause = min(pause * 1.5, RETRY_CAP_S)
            continue
        wait("")
        return listed
    return None
