"""Choose the Kubernetes Event of an audit record: its reason, from a closed list, and its message. Pure.

Texts of a pod, such as annotations, are hostile input. They are quoted as JSON in ASCII, so that they can neither end
their quotes nor control a terminal, and cut.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.texts import cut, plain

LONGEST_MESSAGE: Final = 512
"""Characters; the API server allows 1,024."""

LONGEST_QUOTED: Final = 64
"""Characters of a text of a pod, before it is escaped."""

LONGEST_LIST: Final = 120
"""Characters of the allowed values."""


class EventReason(StrEnum):
    """The reason of an Event; docs/kubernetes.md has the next step for each."""

    ANNOTATION_INVALID = "AnnotationInvalid"
    ANNOTATION_DENIED = "AnnotationDenied"
    NO_FREE_CPUS = "NoFreeCPUs"
    CPUS_ASSIGNED = "CPUsAssigned"
    PLACED_LATE = "PlacedLate"
    SUPPRESSED = "SuppressedForLong"
    STARVED = "Starved"
    EVICTION_ORDERED = "EvictionOrdered"
    EVICTION_BLOCKED = "EvictionBlocked"
    LENDING_ON = "LendingOn"
    LENDING_OFF = "LendingOff"
    LENDING_DRAINING = "LendingDraining"
    LENDING_ENDING = "LendingEnding"
    MISCONFIGURED = "Misconfigured"
    CHECK_FAILED = "CheckFailed"


NORMAL: Final = frozenset(
    {
        EventReason.CPUS_ASSIGNED,
        EventReason.LENDING_ON,
        EventReason.LENDING_OFF,
        EventReason.LENDING_DRAINING,
        EventReason.LENDING_ENDING,
    }
)
"""Reasons of type Normal; all others are warnings."""


class Subject(NamedTuple):
    """The pod of an Event; empty texts for the node."""

    namespace: str = ""
    pod: str = ""
    uid: str = ""


NODE: Final = Subject()


class Occurrence(NamedTuple):
    """One occurrence of an Event.

    topic: the part that the text is about, such as an annotation. The message has the newest text of each topic.
    """

    subject: Subject
    reason: EventReason
    text: str
    topic: str = ""


def of_record(record: Mapping[str, Any]) -> Occurrence | None:
    """Return the occurrence that an audit record shows; None for most records."""
    reason = _OF_EVENT.get(record["event"]) or _OF_REASON.get(record["reason"])
    if reason is None:
        return None
    subject = Subject(record["namespace"], record["pod"], record["pod_uid"])
    if reason is EventReason.EVICTION_ORDERED:
        return _of_eviction(subject, record)
    if reason is EventReason.MISCONFIGURED:
        return _of_node(record) if record["reason"] == Reason.INVALID else None
    if not all(subject):
        return _of_node(record) if "key" in record else None
    if "key" in record:
        return Occurrence(subject, reason, _of_annotation(record), str(record["key"]))
    container = record["container"]
    where = f"container {plain(container)}: " if container else ""
    return Occurrence(subject, reason, where + plain(record["because"]), container)


def quoted(text: str, most: int = LONGEST_QUOTED) -> str:
    """Return a text of a pod in quotes, as ASCII without control characters."""
    return json.dumps(text if len(text) <= most else f"{text[: most - 1]}…")


_OF_EVENT: Final[Mapping[str, EventReason]] = {
    AuditEvent.ANNOTATION_INVALID: EventReason.ANNOTATION_INVALID,
    AuditEvent.ANNOTATION_DENIED: EventReason.ANNOTATION_DENIED,
    AuditEvent.LATE: EventReason.PLACED_LATE,
    AuditEvent.CONFIG_RELOAD: EventReason.MISCONFIGURED,
    AuditEvent.POD_EVICT: EventReason.EVICTION_ORDERED,
}
_OF_REASON: Final[Mapping[str, EventReason]] = {
    Reason.NO_FREE_CPUS: EventReason.NO_FREE_CPUS,
    Reason.RESIZE_UNMET: EventReason.NO_FREE_CPUS,
    Reason.CPUS_FREED: EventReason.CPUS_ASSIGNED,
    Reason.WITHOUT_CPU: EventReason.STARVED,
    Reason.SUPPRESSED: EventReason.SUPPRESSED,
}
_NO_ORDER: Final = frozenset(
    {
        Reason.ACCEPTED,
        Reason.GONE,
        Reason.REFUSED,
        Reason.UNREACHABLE,
        Reason.DECLINED,
    }
)
"""Reasons of `pod.evict` in records of a result, and of a pod that is not evicted."""


def _of_eviction(subject: Subject, record: Mapping[str, Any]) -> Occurrence | None:
    """Return the occurrence of an eviction order, or of a budget that refused one."""
    if record["reason"] == Reason.BUDGET:
        detail = record.get("inputs", {}).get("detail", record["because"])
        return Occurrence(subject, EventReason.EVICTION_BLOCKED, f"not evicted: {plain(detail)}")
    if record["reason"] in _NO_ORDER:
        return None
    text = f"{plain(record['because'])}; the pod's annotation coloc.nri.io/evict-at has the time"
    return Occurrence(subject, EventReason.EVICTION_ORDERED, text)


def _of_node(record: Mapping[str, Any]) -> Occurrence:
    """Return the occurrence of a setting that is invalid or without effect on this node."""
    return Occurrence(NODE, EventReason.MISCONFIGURED, plain(record["because"]), record.get("key", ""))


def _of_annotation(record: Mapping[str, Any]) -> str:
    """Return the sentence on one annotation: its key and value, the allowed values and the value that holds."""
    allowed = cut(plain(record["allowed"]), LONGEST_LIST)
    used = cut(plain(record["used"]), LONGEST_QUOTED)
    holds = f"; {used} holds instead" if used else ""
    written = f"{quoted(record['key'], LONGEST_LIST)}: {quoted(record['value'])}"
    return f"{written} does not count{holds} (allowed: {allowed})"
