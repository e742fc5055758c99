"""The slow way to the runtime's stored spec: the relay, one container at a time.

Files have moved the cgroup already; what remains is that the spec says the same, so that no later runc undoes it.
NRI's own UpdateContainers can wedge containerd before NRI 0.12.1 (nri-protocol §6.2). So we call CRI, as the kubelet
does; containerd then asks our own UpdateContainer hook, in the safe order of its locks, and the hook recognises the
call and adds nothing. No short deadline, ever: one that passes while containerd holds its lock costs it every
plugin. One call is in flight, the newest value wins, slowness is answered by sending no further one.
"""

from collections.abc import Callable, Iterable, Mapping
from threading import Condition, Lock, Thread
from typing import Final, Protocol

from nri_coloc.daemon.node import Node
from nri_coloc.daemon.report import Report
from nri_coloc.errors import ColocError
from nri_coloc.model.reasons import AuditEvent, Reason
from nri_coloc.policy import admission

PAUSE_S: Final = 0.05
"""Between two pushes: each costs the runtime one runc under its global lock, and pods want to start too."""

BACK_OFF_S: Final = 2.0
BACK_OFF_CAP_S: Final = 60.0


class Relay(Protocol):
    """What is called of CRI."""

    def push(self, container_id: str, cpus: str) -> None: ...


class Pusher:
    """Knows what the runtime's specs hold; pushes where that differs from what holds now."""

    def __init__(self, node: Node, relay: Relay, report: Report, connected: Callable[[], bool]) -> None:
        self._node = node
        self._relay = relay
        self._report = report
        self._connected = connected
        self._specs: dict[str, str] = {}
        self._waiting: dict[str, None] = {}
        self._in_flight = ("", "")
        self._stopping = False
        self._wanted = Condition(Lock())
        self._thread = Thread(target=self._run, name="pusher", daemon=True)

    def start(self) -> None:
        """Begin to push."""
        self._thread.start()

    def stop(self) -> None:
        """Send no further push; one in flight is left to end by itself."""
        with self._wanted:
            self._stopping = True
            self._wanted.notify()

    def learned(self, container_id: str, cpus: str | None) -> None:
        """Note what a runtime's spec holds now: from Synchronize, an adjustment, an update."""
        self._specs[container_id] = cpus or ""

    def learned_all(self, specs: Mapping[str, str]) -> None:
        """Note what all specs hold now; containers that are not among them are gone."""
        self._specs = dict(specs)

    def forget(self, container_id: str) -> None:
        """Drop a container that ended."""
        self._specs.pop(container_id, None)

    def submit(self, container_ids: Iterable[str]) -> None:
        """Have the specs of these containers brought up to date, in time."""
        with self._wanted:
            self._waiting.update(dict.fromkeys(container_ids))
            self._wanted.notify()

    def recognises(self, container_id: str, cpus: str) -> bool:
        """Whether an update that the runtime asks us about is our own push."""
        return bool(container_id) and self._in_flight == (container_id, cpus)

    def _run(self) -> None:
        back_off = BACK_OFF_S
        while True:
            with self._wanted:
                while not self._stopping and not self._waiting:
                    self._wanted.wait()
                if self._stopping:
                    return
                container_id = next(iter(self._waiting))
                del self._waiting[container_id]
            if self._push(container_id):
                pause, back_off = PAUSE_S, BACK_OFF_S
            else:
                pause, back_off = back_off, min(back_off * 2, BACK_OFF_CAP_S)
            with self._wanted:
                if not self._stopping:
                    self._wanted.wait_for(lambda: self._stopping, pause)

    def _push(self, container_id: str) -> bool:
        """Push one container's set if its spec holds another; False if it must be tried again later."""
        state = self._node.state
        assignment = state.containers.get(container_id)
        if assignment is None:
            self.forget(container_id)
            return True
        if self._node.tuning.observe:
            return True
        cpus = admission.orders(state, assignment).cpus
        if cpus is None or self._specs.get(container_id) == cpus:
            return True
        if not self._connected():
            self.submit((container_id,))
            return False
        self._in_flight = (container_id, cpus)
        try:
            self._relay.push(container_id, cpus)
        except ColocError as error:
            return self._failed(container_id, error)
        finally:
            self._in_flight = ("", "")
        self._specs[container_id] = cpus
        return True

    def _failed(self, container_id: str, error: ColocError) -> bool:
        state = self._node.state
        assignment = state.containers.get(container_id)
        if assignment is None:
            return True  # it ended meanwhile; that is what the runtime refused
        because = f"its spec could not be brought up to date, its cgroup is: {error}"
        self._report.about(assignment, state, (AuditEvent.PUSH_FAILED, Reason.RUNTIME_REFUSED, because))
        self.submit((container_id,))
        return False
