"""The runtime's whole list, put together from the parts of its Synchronize.

Each part is decoded as it comes, and its messages are freed. So a list of any size takes little memory, however large a
pod's annotations are.

`take` gets the list for `restore`, which is no plugin, and for plugins that containerd 1.7 launches: it never sends
them a list. A second, external registration gets a Synchronize like any other. Then this connection is closed. The
runtime notices at its next event and goes on without it. Only hooks that may be missed are subscribed: a call that
comes before the end is answered by the end of the connection, "no change".
"""

import random
import time
from collections.abc import Callable
from typing import Final

from nri_coloc.core.backoff import Backoff
from nri_coloc.core.value import replace
from nri_coloc.core.workload import Container, Pod
from nri_coloc.errors import ColocError, RemoteProtocolError, TransportLost
from nri_coloc.nri import codec, events
from nri_coloc.nri.session import Session
from nri_coloc.runtime.connection import RETRY_CAP_S, connect_to

MOST: Final = 65536
"""Pods and containers in a list; a node runs some hundred."""


PATIENCE_S: Final = 30.0
"""Seconds for each read: the runtime serves one registration at a time. A failed attempt is repeated, but not one of
`restore`."""

INDEX: Final = "99"
"""Last in the order of plugins: no hook waits for a connection that is about to end."""

READ_SIZE: Final = 1 << 18

PAUSE_S: Final = 0.01
"""Seconds. An old runtime opens its socket a few milliseconds after it has configured the plugin that it launched."""


class Listing:
    """For one Synchronize: `add` its parts, then read `pods` and `containers`."""

    def __init__(self, reader: codec.Reader) -> None:
        self.pods: dict[str, Pod] = {}
        self._containers: list[Container] = []
        self._reader = reader

    def add(self, part: events.Synchronize) -> None:
        """Take one part; raise RemoteProtocolError for a list without end."""
        for pod in part.pods:
            self.pods[pod.id] = self._reader.pod_of(pod)
        # a container may come in an earlier part than its pod
        self._containers += [codec.container_of(container, Pod("")) for container in part.containers]
        if len(self.pods) + len(self._containers) > MOST:
            raise RemoteProtocolError(f"Synchronize lists over {MOST} pods and containers")

    @property
    def containers(self) -> list[Container]:
        """Return the containers, without records that a pod's author may have written."""
        return [self._trusted(container) for container in self._containers]

    def _trusted(self, container: Container) -> Container:
        pod = self.pods.get(container.pod_id)
        forged = pod is not None and pod.claims_record and container.record
        return replace(container, record="") if forged else container


def take(path: str, name: str, listing: Listing, patience_s: float = PATIENCE_S) -> Listing:
    """Register, return the list, and leave; raises OSError or ColocError if it cannot be had now."""
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
    """Return the list as soon as the runtime's socket is there, None if the daemon ends first.

    at: the socket's path and the plugin's name.
    listing: makes an empty list.
    wait: called with the reason why the list cannot be had yet, and with "" once it was read.
    is_ending: returns whether the daemon ends.
    """
    backoff = Backoff(random.random, PAUSE_S, RETRY_CAP_S)
    while not is_ending():
        try:
            listed = take(*at, listing())
        except (OSError, ColocError) as error:
            wait(f"the runtime's list cannot be read: {error}")
            time.sleep(backoff.failed())
            continue
        wait("")
        return listed
    return None
