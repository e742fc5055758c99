"""The runtime's whole list, put together from the parts of its Synchronize.

Each part becomes facts as it comes, and its messages are freed: a list of any size takes little memory, however much a
pod's author wrote on it.

`take` gets the list for `restore`, which is no plugin, and for a plugin that is never sent one: containerd 1.7 does not
synchronise the plugins that it launches. A second, external registration gets a Synchronize like any other; once it
has come this connection is closed. The runtime notices at its next event and goes on without it. Nothing is subscribed
that could not be missed: a call that comes before the end is answered by the end of the connection, "no change".
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from nri_coloc.core.workload import Container, Pod
from nri_coloc.daemon.connection import RETRY_CAP_S, connect_to
from nri_coloc.errors import ColocError, RemoteProtocolError, TransportLost
from nri_coloc.nri import codec, events
from nri_coloc.nri.session import Session

MOST: Final = 65536
"""Pods and containers; a node runs some hundred."""


PATIENCE_S: Final = 30.0
"""For each read: the runtime serves one registration at a time, and a failed census is tried again, but for that of a
`restore`."""

INDEX: Final = "99"
"""Last in the order of plugins: no hook waits for a connection that is about to end."""

READ_SIZE: Final = 1 << 18

PAUSE_S: Final = 0.01
"""An old runtime opens its socket a few milliseconds after it has configured what it launched."""


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
