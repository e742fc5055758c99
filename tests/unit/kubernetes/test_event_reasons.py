"""Which audit records become Events, and what a pod's author can write into them."""

import re
from pathlib import Path

import pytest

from nri_coloc.core.evictions import Outcome
from nri_coloc.kubernetes import event_reasons
from nri_coloc.kubernetes.event_reasons import LONGEST_MESSAGE, NODE, EventReason, Subject
from nri_coloc.kubernetes.node_events import NodeEvents

POD = {"namespace": "shop", "pod": "web", "pod_uid": "u1", "container": "app"}
NO_POD = {"namespace": "", "pod": "", "pod_uid": "", "container": ""}
ANNOTATION = {
    "event": "annotation.invalid",
    "reason": "bad_value",
    "because": "",
    "key": "coloc.nri.io/qos-class",
    "value": "dedicatd",
    "allowed": "dedicated, shared, reclaimed, system",
    "used": "shared",
    **POD,
}


def record(event, reason, because="the cause", **fields):
    return {"event": event, "reason": reason, "because": because, **POD, **fields}


def annotation(**fields):
    found = event_reasons.of_record({**ANNOTATION, **fields})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("event", "reason", "expected"),
    [
        ("container.admit", "no_free_cpus", EventReason.NO_FREE_CPUS),
        ("container.update", "resize_unmet", EventReason.NO_FREE_CPUS),
        ("container.update", "cpus_freed", EventReason.CPUS_ASSIGNED),
        ("container.late", "too_late", EventReason.PLACED_LATE),
        ("pod.starved", "without_cpu", EventReason.STARVED),
        ("pod.starved", "suppressed", EventReason.SUPPRESSED),
    ],
)
def test_a_record_of_a_pod_becomes_an_event(event, reason, expected):
    found = event_reasons.of_record(record(event, reason))
    assert found is not None
    assert (found.subject, found.reason) == (Subject("shop", "web", "u1"), expected)
    assert found.text == "container app: the cause"


def test_an_annotation_event_names_all_four_values():
    found = annotation()
    assert found.reason is EventReason.ANNOTATION_INVALID
    assert found.text == (
        '"coloc.nri.io/qos-class": "dedicatd" does not count; shared holds instead '
        "(allowed: dedicated, shared, reclaimed, system)"
    )


def test_a_denied_annotation_has_its_own_reason():
    assert annotation(event="annotation.denied").reason is EventReason.ANNOTATION_DENIED


@pytest.mark.parametrize("event", ["container.admit", "pool.resize", "drift.repair", "hook.failed"])
def test_most_records_are_no_event(event):
    assert event_reasons.of_record(record(event, "pool_member")) is None


def test_an_eviction_order_names_cause_and_notice():
    found = event_reasons.of_record(record("pod.evict", "io_stall", "eviction ordered: sda is slow"))
    assert found is not None
    assert (found.subject, found.reason) == (Subject("shop", "web", "u1"), EventReason.EVICTION_ORDERED)
    assert (
        found.text == "eviction ordered: sda is slow; the pod's annotation coloc.nri.io/evict-at has the time"
    )


def test_a_budget_that_refuses_becomes_an_event():
    inputs = {"detail": "The disruption budget jobs needs 1 healthy pods\n", "outcome": "budget"}
    found = event_reasons.of_record(record("pod.evict", "budget", "eviction budget: cut", inputs=inputs))
    assert found is not None
    assert (found.subject, found.reason) == (Subject("shop", "web", "u1"), EventReason.EVICTION_BLOCKED)
    assert found.text == "not evicted: The disruption budget jobs needs 1 healthy pods "


@pytest.mark.parametrize("reason", [*sorted(set(Outcome) - {Outcome.BUDGET}), "declined"])
def test_a_result_is_no_order(reason):
    assert event_reasons.of_record(record("pod.evict", reason)) is None


def test_an_invalid_file_is_an_event_of_the_node():
    found = event_reasons.of_record({**record("config.reload", "invalid"), **NO_POD})
    assert found is not None
    assert (found.subject, found.reason) == (NODE, EventReason.MISCONFIGURED)
    assert event_reasons.of_record({**record("config.reload", "valid"), **NO_POD}) is None


def test_a_setting_without_effect_is_an_event_of_the_node():
    found = annotation(**NO_POD, because="no cpuset")
    assert (found.subject, found.reason) == (NODE, EventReason.MISCONFIGURED)


HOSTILE = [
    "\x1b[2J\x07",
    "a\nb",
    'x" holds; kubectl delete ns prod; "',
    "\u202egnp.exe",
    "\ud800",
    "x" * 70_000,
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("field", ["key", "value"])
def test_a_pods_text_stays_within_its_quotes(field, value):
    text = annotation(**{field: value}).text
    assert text.isascii()
    assert text.isprintable()
    assert text.count('"') - text.count('\\"') == 4


@pytest.mark.parametrize("field", ["allowed", "used"])
def test_other_texts_are_printable(field):
    assert annotation(**{field: "\x1b[2J\u202e"}).text.isprintable()


def test_a_container_name_is_printable():
    found = event_reasons.of_record(record("container.late", "too_late", "a\x1bb", container="c\nd"))
    assert found is not None
    assert found.text.isprintable()


def test_a_message_of_hostile_texts_is_bounded():
    events = NodeEvents()
    for number in range(9):
        events.occurred(annotation(key="\x01" * 300 + str(number), value="\x01" * 300), 0.0)
    [entry] = events.publish(0.0).entries
    assert len(entry.message) <= LONGEST_MESSAGE


DOCUMENT = Path(__file__).parents[3] / "docs" / "kubernetes.md"


def test_every_reason_has_a_next_step():
    table = re.findall(r"^\| `(\w+)` \| (?:pod|node) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert set(table) == set(EventReason)
