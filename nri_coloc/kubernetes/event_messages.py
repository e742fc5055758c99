"""Translate between Events and the messages of `api/cluster/v1/cluster.proto`.

Times are sent as ages: both programs have clocks of their own.
"""

from typing import Final, NamedTuple

from nri_coloc._pb import cluster_pb2 as pb
from nri_coloc.kubernetes.event_reasons import LONGEST_MESSAGE, NODE, Subject
from nri_coloc.kubernetes.node_events import Batch, Entry

_LARGEST: Final = 2**32 - 1
_LONGEST_NAMESPACE: Final = 63
_LONGEST_NAME: Final = 253
_LONGEST_UID: Final = 64
_LONGEST_REASON: Final = 63


class Told(NamedTuple):
    """An Event that the daemon sent.

    times: number of occurrences, 1 at least.
    first_s, last_s: seconds since 1970.
    """

    sequence: int
    subject: Subject
    reason: str
    message: str
    is_warning: bool
    times: int
    first_s: float
    last_s: float


def add(answer: pb.NextResponse, batch: Batch, now_s: float) -> None:
    """Add published Events to an answer. `now_s`: on the clock of the entries."""
    answer.events.extend(_message(entry, now_s) for entry in batch.entries)
    answer.events_lost = batch.lost


def events_of(answer: pb.NextResponse, now_s: float) -> tuple[Told, ...]:
    """Return the Events of an answer. `now_s`: seconds since 1970. An Event with an unusable text is left out.

    A broken Event must not end the connection, on which the node's report depends.
    """
    return tuple(_told(each, now_s) for each in answer.events if _is_usable(each))


def _message(entry: Entry, now_s: float) -> pb.Event:
    namespace, pod, uid = entry.subject
    return pb.Event(
        sequence=entry.sequence,
        namespace=namespace,
        pod=pod,
        uid=uid,
        reason=entry.reason.value,
        message=entry.message,
        is_warning=entry.is_warning,
        count=min(_LARGEST, entry.count),
        first_ago_s=_age_s(entry.first_s, now_s),
        last_ago_s=_age_s(entry.last_s, now_s),
    )


def _age_s(then_s: float, now_s: float) -> int:
    return min(_LARGEST, max(0, int(now_s - then_s)))


def _told(message: pb.Event, now_s: float) -> Told:
    return Told(
        sequence=message.sequence,
        subject=Subject(message.namespace, message.pod, message.uid),
        reason=message.reason,
        message=message.message,
        is_warning=message.is_warning,
        times=max(1, message.count),
        first_s=now_s - message.first_ago_s,
        last_s=now_s - message.last_ago_s,
    )


def _is_usable(message: pb.Event) -> bool:
    subject = Subject(message.namespace, message.pod, message.uid)
    bounds = (
        (message.namespace, _LONGEST_NAMESPACE),
        (message.pod, _LONGEST_NAME),
        (message.uid, _LONGEST_UID),
        (message.reason, _LONGEST_REASON),
        (message.message, LONGEST_MESSAGE),
    )
    is_whole = subject == NODE or all(subject)
    return is_whole and all(len(text) <= most and text.isprintable() for text, most in bounds)
