"""Write Events of the daemon into the API server, on a thread of their own, so that no report waits for them.

They are core/v1, because `kubectl describe` shows its count and times on every version, and a PATCH may change them: an
object of events.k8s.io/v1 takes no change but of its series. The name of an object follows from pod, UID and reason. So
a repetition changes the same object, also after a restart of the companion or of the daemon, and an object that the
API server has deleted meanwhile (after an hour, `--event-ttl`) is created again.
"""

import hashlib
import random
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from threading import Event, Lock
from typing import Any, Final

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.core.backoff import Backoff
from nri_coloc.core.texts import PlainLog
from nri_coloc.core.token_bucket import Bucket, Rate, take
from nri_coloc.kubernetes import event_messages
from nri_coloc.kubernetes.api import Api, ApiError, ApiRefused
from nri_coloc.kubernetes.event_delivery import Delivery
from nri_coloc.kubernetes.event_messages import Told
from nri_coloc.kubernetes.event_reasons import NODE

COMPONENT: Final = "nri-coloc"
"""Source of the Events; the policies let the companion write no other."""

RATE: Final = Rate(burst=16, every_s=2.0)
"""Events of a node: 16 at once, 30 a minute."""

TURN_S: Final = 1.0
NODE_NAMESPACE: Final = "default"
"""Namespace of Events of a node, as the kubelet uses it."""

MOST_BACKOFF_S: Final = 300.0

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST_POD: Final = 200
_IMPOSSIBLE: Final = frozenset({400, 413, 422})
"""Statuses of a request that will never be accepted. A policy's refusal has 422."""


class EventWriter:
    """Events of one node. `run` and `turn` belong to one thread, all else to the thread of the daemon's connection."""

    def __init__(self, api: Api, node: str, *, log: PlainLog) -> None:
        self._api = api
        self._node = node
        self._log = log
        self._lock = Lock()
        self._taken = Event()
        self._delivery = Delivery()
        self._lost = 0
        self._bucket = Bucket()
        self._backoff = Backoff(random.random, most_s=MOST_BACKOFF_S)
        self._problem = ""

    @property
    def recorded(self) -> int:
        """Return the sequence number up to which all Events of this connection were written."""
        with self._lock:
            return self._delivery.recorded

    def connected(self) -> None:
        """Begin with the numbers of a new connection."""
        with self._lock:
            self._delivery.connected()
            self._lost = self._delivery.lost

    def take(self, answer: pb.NextResponse) -> None:
        """Take the Events of an answer."""
        newest = max((each.sequence for each in answer.events), default=0)
        with self._lock:
            self._delivery.take(event_messages.events_of(answer, time.time()), newest)
            lost = answer.events_lost + self._delivery.lost
        if answer.events:
            self._taken.set()
        if lost > self._lost:
            self._log.warning(
                "Events were lost: too many at once, or refused by the API server",
                daemon=answer.events_lost,
                companion=lost - answer.events_lost,
            )
        self._lost = lost

    def run(self, stop: Event) -> None:
        """Write Events until `stop` is set and `end` was called."""
        while not stop.is_set():
            try:
                pause_s = self.turn(time.monotonic())
            except Exception as error:  # noqa: BLE001 - one Event must not end the thread
                pause_s = self._stumbled(error)
            if pause_s is None:
                self._taken.wait()
            else:
                stop.wait(pause_s)
            self._taken.clear()  # before both looks: neither an Event nor the end that comes after it is missed

    def end(self) -> None:
        """Wake `run`, whose `stop` is set already."""
        self._taken.set()

    def turn(self, now_s: float) -> float | None:
        """Write one Event if the rate allows it; return the seconds until the next turn, None if no Event waits."""
        with self._lock:
            event = self._delivery.first()
        if event is None:
            return None
        bucket = take(self._bucket, RATE, now_s)
        if bucket is None:
            return TURN_S
        self._bucket = bucket
        try:
            self._write(event)
        except ApiError as error:
            return self._failed(event, error, now_s)
        with self._lock:
            self._delivery.written(event)
        self._backoff.succeeded()
        self._problem = ""
        return 0.0

    def _stumbled(self, error: Exception) -> float:
        """Give up the Event of an unexpected error; return the seconds until the next turn."""
        self._tell(ApiError(f"{type(error).__name__}: {error}"), 0)
        with self._lock:
            event = self._delivery.first()
            if event is not None:
                self._delivery.impossible(event)
        return self._backoff.failed()

    def _write(self, event: Told) -> None:
        """Create the object, or change the existing one."""
        body = body_of(event, self._node)
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            raise ApiRefused(f"no name of an object: {namespace}/{name}", 422)
        path = f"/api/v1/namespaces/{namespace}/events"
        changed = {key: body[key] for key in _CHANGED}
        if event.times > 1:
            try:
                self._api.merge(f"{path}/{name}", changed)
            except ApiRefused as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
            else:
                return
        try:
            self._api.create(path, body)
        except ApiRefused as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            self._api.merge(f"{path}/{name}", changed)

    def _failed(self, event: Told, error: ApiError, now_s: float) -> float:
        """Return the seconds until the next try, after an error."""
        status = error.status if isinstance(error, ApiRefused) else 0
        self._tell(error, status)
        with self._lock:
            if status in _IMPOSSIBLE or status == HTTPStatus.NOT_FOUND or _is_ending(error):
                self._delivery.impossible(event)
                return 0.0
            if status == HTTPStatus.FORBIDDEN:
                self._delivery.refused(event, now_s)
            else:
                self._delivery.failed(event, now_s)
        return self._backoff.failed(error.retry_after_s if isinstance(error, ApiRefused) else 0.0)

    def _tell(self, error: ApiError, status: int) -> None:
        """Log an error, if it is another one than before."""
        kind = f"status {status}" if status else str(error)
        if kind == self._problem:
            return
        self._problem = kind
        remedy = "; let the service account create and patch events" if status == HTTPStatus.FORBIDDEN else ""
        self._log.warning("an Event was not written", because=f"{error}{remedy}")


_CHANGED: Final = ("count", "firstTimestamp", "lastTimestamp", "message")


def body_of(event: Told, node: str) -> dict[str, Any]:
    """Return the object of an Event."""
    involved = _involved(event, node)
    namespace = involved.get("namespace", NODE_NAMESPACE)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": name_of(involved, event.reason)},
        "involvedObject": involved,
        "reason": event.reason,
        "message": event.message,
        "type": "Warning" if event.is_warning else "Normal",
        "count": event.times,
        "firstTimestamp": _timestamp(event.first_s),
        "lastTimestamp": _timestamp(event.last_s),
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
    }


def name_of(involved: Mapping[str, str], reason: str) -> str:
    """Return the name of an Event's object: another pod of the same name has another one."""
    digest = hashlib.sha256(f"{involved['uid']}/{reason}".encode()).hexdigest()[:16]
    return f"{involved['name'][:_LONGEST_POD].rstrip('-.')}.{digest}"


def _involved(event: Told, node: str) -> dict[str, str]:
    if event.subject == NODE:
        # as the kubelet does it: `kubectl describe node` looks for the name in place of the UID
        return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node}
    namespace, pod, uid = event.subject
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod, "uid": uid}


def _timestamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_ending(error: ApiError) -> bool:
    """Return whether the Event's namespace is being deleted, which the API server answers with 403."""
    if not isinstance(error, ApiRefused):
        return False
    details = error.body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return any(
        isinstance(each, dict) and each.get("reason") == "NamespaceTerminating" for each in causes or ()
    )
