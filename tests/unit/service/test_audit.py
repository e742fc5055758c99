"""service/audit.py: records keep the contract's order, come from any thread, and never delay a hook."""

import itertools
import json
import os
import threading
from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, Crowd, NodeState, PodPlace, Pools
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Container, Pod, QoSClass
from nri_coloc.service import audit
from nri_coloc.service.audit import FIELDS, AuditLog, Record, pod_of, worded

WEB = Pod("sandbox-1", uid="0f6d", name="web", namespace="shop")
APP = Assignment(Container("9c1b", "sandbox-1", "app"), QoSClass.DEDICATED, "dedicated", exclusive=0b11)
EMPTY = NodeState(Topology.build([CPU(n) for n in range(8)]), Pools())
NODE = NodeState(EMPTY.topology, Pools(), {"sandbox-1": PodPlace(WEB)}, Crowd.of((APP,)))
ADMITTED = Decision(
    AuditEvent.ADMIT, Reason.WHOLE_CORE, "core 0-1 is free", subject=APP, after=Knobs(cpus="0-1")
)
AT = 1_763_633_049_120_345_678
STARTED = Record(AuditEvent.DAEMON_START, Reason.STARTED, "the daemon started")


def record_of(
    decision: Decision, state: NodeState, decision_id: str, us: int | None, previous: NodeState | None = None
) -> Record:
    return worded(decision, pod_of(decision, state, previous), decision_id, us)


class Losses:
    def __init__(self) -> None:
        self.counted: dict[str, int] = {}

    def __call__(self, why: str, count: int) -> None:
        self.counted[why] = self.counted.get(why, 0) + count


@pytest.fixture
def losses() -> Losses:
    return Losses()


@pytest.fixture
def pipe():
    """Yield a pipe as stdout: a function that reads the output so far, and the writing end."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield (lambda: os.read(reader, 1 << 20).decode()), writer
    os.close(reader)
    os.close(writer)


def test_followers_get_each_record(pipe, losses):
    heard: list[Any] = []
    log = AuditLog(pipe[1], ring_size=10, lost=losses, followers=(heard.append,))
    log.submit(STARTED)
    log.drain()
    assert [fields["event"] for fields in heard] == ["daemon.start"]


def failing(_: object) -> None:
    raise KeyError("a mistake")


def test_a_follower_that_fails_ends_nothing(pipe, losses):
    log = AuditLog(pipe[1], ring_size=10, lost=losses, followers=(failing,))
    log.submit(STARTED)
    log.submit(STARTED)
    log.drain()
    assert losses.counted == {"unfollowed": 2}
    assert pipe[0]().count("daemon.start") == 2


@pytest.fixture
def log(pipe, losses) -> AuditLog:
    """Return an audit log without a running thread: the test drains it."""
    return AuditLog(pipe[1], ring_size=100, lost=losses, clock=lambda: AT, queue_bound=4)


def written(text: str) -> list[dict[str, Any]]:
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_a_long_sentence_ends_after_a_clause(log, pipe):
    whole = f"own CPUs 0-1: lowest free whole core of node 0; free were {'0,' * 60}0; wished was numa single"
    log.submit(replace(STARTED, because=whole, extra={"inputs": {"n": 2}, "candidates": []}))
    log.drain()
    (record,) = written(pipe[0]())
    assert record["because"] == "own CPUs 0-1: lowest free whole core of node 0"
    assert (record["inputs"], record["candidates"]) == ({"n": 2, "details": whole}, [])


def test_one_long_clause_is_cut(log, pipe):
    log.submit(replace(STARTED, because="x" * 5000))
    log.drain()
    (record,) = written(pipe[0]())
    assert record["because"] == "x" * 159 + "…"
    assert record["inputs"] == {"details": "x" * 999 + "…"}


def test_a_sentence_that_just_fits_stays_whole(log, pipe):
    log.submit(replace(STARTED, because=f"{'x' * 150}; {'y' * 8}"))
    log.drain()
    (record,) = written(pipe[0]())
    assert (len(record["because"]), "inputs" in record) == (160, False)


class TestRecordOf:
    def test_the_example_of_the_design_comes_out_whole(self, log, pipe):
        log.submit(record_of(ADMITTED, NODE, "29", 71))
        log.drain()
        assert written(pipe[0]()) == [
            {
                "seq": 1,
                "ts": "2025-11-20T10:04:09.120345Z",
                "decision_id": "29",
                "event": "container.admit",
                "namespace": "shop",
                "pod": "web",
                "pod_uid": "0f6d",
                "container": "app",
                "container_id": "9c1b",
                "class": "dedicated",
                "pool": "dedicated",
                "before": {},
                "after": {"cpus": "0-1"},
                "reason": "whole_core",
                "because": "core 0-1 is free",
                "latency_us": 71,
            }
        ]

    def test_a_record_may_be_left_to_the_audits_thread_to_make(self, log, pipe):
        log.submit(lambda: record_of(ADMITTED, NODE, "29", 71))
        log.drain()
        assert [record["pod"] for record in written(pipe[0]())] == ["web"]

    def test_what_cannot_be_made_costs_one_record_and_is_counted(self, log, pipe, losses):
        def broken() -> Record:
            raise ValueError("no such pod")

        log.submit(broken)
        log.submit(record_of(ADMITTED, NODE, "29", 71))
        log.drain()
        assert [record["seq"] for record in written(pipe[0]())] == [2]
        assert losses.counted == {"unrenderable": 1}

    def test_a_pool_has_no_container(self):
        resized = Decision(AuditEvent.POOL_RESIZE, Reason.CPUS_TAKEN, "0-1 were taken", pool="share")
        record = record_of(resized, NODE, "1", 5)
        assert (record.pool, record.container, record.pod, record.class_) == ("share", "", "", "")

    def test_a_pods_own_limit_names_the_pod(self):
        limit = Decision(AuditEvent.POD_LIMIT, Reason.BOX_MEMBER, "it is reclaimed", pod_id="sandbox-1")
        record = record_of(limit._replace(qos=QoSClass.RECLAIMED), NODE, "1", None)
        assert record.class_ == "reclaimed"
        assert (record.namespace, record.pod, record.pod_uid, record.latency_us) == (
            "shop",
            "web",
            "0f6d",
            None,
        )

    def test_a_removed_pod_is_named_from_the_state_before(self):
        gone = Decision(AuditEvent.RELEASE, Reason.REMOVED, "it was removed", subject=APP)
        assert record_of(gone, EMPTY, "1", 9, previous=NODE).pod == "web"

    def test_an_unknown_pod_has_no_name(self):
        gone = Decision(AuditEvent.RELEASE, Reason.REMOVED, "it was removed", subject=APP)
        assert record_of(gone, EMPTY, "1", 9).pod == ""
        assert record_of(gone, EMPTY, "1", 9, previous=EMPTY).pod == ""


class TestLine:
    def line(self, log, pipe, record: Record) -> str:
        log.submit(record)
        log.drain()
        text: str = pipe[0]()
        return text

    def test_fields_come_in_the_order_of_the_contract(self, log, pipe):
        (record,) = written(self.line(log, pipe, STARTED))
        assert tuple(record) == FIELDS[:16]

    @pytest.mark.parametrize("event", [AuditEvent.ANNOTATION_INVALID, AuditEvent.ANNOTATION_DENIED])
    def test_an_annotation_says_key_value_allowed_and_used(self, log, pipe, event):
        said = Record(event, Reason.BAD_VALUE, "no", key="k", value="v", allowed="a", used="u")
        (record,) = written(self.line(log, pipe, said))
        assert [record[name] for name in ("key", "value", "allowed", "used")] == ["k", "v", "a", "u"]

    def test_extra_fields_come_last_and_replace_nothing(self, log, pipe):
        said = Record(AuditEvent.DAEMON_START, Reason.STARTED, "it", extra={"version": "1", "seq": 99})
        (record,) = written(self.line(log, pipe, said))
        assert (list(record)[-1], record["seq"], record["version"]) == ("version", 1, "1")

    @pytest.mark.parametrize("value", ["a\nb", "\x1b[2J", "\u2028", "\u202e", "\udc80", '"'], ids=ascii)
    def test_a_hostile_name_is_escaped_and_stays_on_its_line(self, log, pipe, value):
        text = self.line(log, pipe, Record(AuditEvent.ADMIT, Reason.POOL_MEMBER, "it", pod=value))
        assert text.count("\n") == 1
        assert text.rstrip("\n").isascii()
        assert text.rstrip("\n").isprintable()
        assert json.loads(text)["pod"] == value

    @pytest.mark.parametrize("value", [float("nan"), {(1, 2): 3}], ids=["nan", "tuple key"])
    def test_an_extra_that_is_no_json_is_left_out_and_counted(self, log, pipe, losses, value):
        said = Record(AuditEvent.DAEMON_START, Reason.STARTED, "it", extra={"odd": value})
        (record,) = written(self.line(log, pipe, said))
        assert tuple(record) == FIELDS[:16]
        assert losses.counted == {"unrenderable": 1}

    @pytest.mark.parametrize(
        ("at", "text"),
        [
            (0, "1970-01-01T00:00:00.000000Z"),
            (999, "1970-01-01T00:00:00.000000Z"),
            (1_999_999_999, "1970-01-01T00:00:01.999999Z"),
            (951_782_400_000_001_000, "2000-02-29T00:00:00.000001Z"),
        ],
    )
    def test_a_timestamp_is_cut_to_microseconds(self, at, text):
        assert audit.timestamp(at) == text


class TestSubmission:
    def test_seq_rises_from_one(self, log, pipe):
        assert [log.submit(STARTED) for _ in range(3)] == [1, 2, 3]
        log.drain()
        assert [r["seq"] for r in written(pipe[0]())] == [1, 2, 3]

    def test_seq_rises_strictly_whoever_submits(self, losses):
        null = os.open(os.devnull, os.O_WRONLY)
        log = AuditLog(null, ring_size=4000, lost=losses)
        threads = [
            threading.Thread(target=lambda: [log.submit(STARTED) for _ in range(300)]) for _ in range(4)
        ]
        log.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.close(timeout_s=30)
        os.close(null)
        records = log.query(limit=1000)["records"] + log.query(since=1000, limit=1000)["records"]
        assert [r["seq"] for r in records] == list(range(1, 1201))

    def test_records_of_the_last_moment_are_written(self, log, pipe):
        log.close()
        log.submit(STARTED)  # between the thread's last look at the queue and its end
        log._run()
        assert [r["seq"] for r in written(pipe[0]())] == [1]

    def test_a_full_queue_drops_the_oldest_and_says_how_many(self, log, pipe, losses):
        for _ in range(7):
            log.submit(STARTED)
        log.drain()
        records = written(pipe[0]())
        assert [(r["seq"], r.get("dropped")) for r in records] == [(4, 3), (5, None), (6, None), (7, None)]
        assert losses.counted == {"overflow": 3}

    def test_the_thread_writes_without_being_asked(self, pipe, losses, monkeypatch):
        reached = threading.Event()
        log = AuditLog(pipe[1], ring_size=10, lost=losses)
        monkeypatch.setattr(log._lines, "write", lambda line: reached.set())
        log.start()
        log.submit(STARTED)
        assert reached.wait(30)
        assert log.close(timeout_s=30)

    def test_many_waiting_records_make_long_bursts(self, losses, monkeypatch):
        null = os.open(os.devnull, os.O_WRONLY)
        log = AuditLog(null, ring_size=10, lost=losses)
        left: list[int] = []
        monkeypatch.setattr("time.sleep", lambda _: left.append(len(log._queue)))
        for _ in range(4 * audit.HASTE):
            log.submit(STARTED)
        log.drain()
        os.close(null)
        between = [before - after for before, after in itertools.pairwise(left)]
        assert between[0] == audit.BURST + 3
        assert between[-1] == audit.BURST

    def test_the_thread_sleeps_only_after_a_pause_without_records(self, log):
        log.submit(STARTED)
        assert log._wake.is_set()
        log.drain()
        assert log._wake.is_set()
        log.drain()
        assert not log._wake.is_set()


class TestClose:
    def test_closing_writes_what_waits(self, pipe, losses):
        log = AuditLog(pipe[1], ring_size=10, lost=losses)
        log.start()
        for _ in range(5):
            log.submit(STARTED)
        assert log.close(timeout_s=30)
        assert len(written(pipe[0]())) == 5

    def test_closing_what_was_never_started_admits_what_is_left(self, log):
        assert log.close()
        log.submit(STARTED)
        assert not log.close()

    def test_closing_is_bounded_when_the_writer_hangs(self, pipe, losses, monkeypatch):
        hangs, go_on = threading.Event(), threading.Event()
        log = AuditLog(pipe[1], ring_size=10, lost=losses)

        def hang(line: bytes) -> bool:
            hangs.set()
            return go_on.wait(60)

        monkeypatch.setattr(log._lines, "write", hang)
        log.start()
        log.submit(STARTED)
        assert hangs.wait(30)
        assert not log.close(timeout_s=0.01)
        go_on.set()
        log._thread.join(30)


def test_the_ring_keeps_what_stdout_refused(losses):
    full = os.open("/dev/full", os.O_WRONLY)
    log = AuditLog(full, ring_size=10, lost=losses, clock=lambda: AT)
    log.submit(STARTED)
    log.drain()
    os.close(full)
    assert losses.counted == {"no_space": 1}
    assert [r["event"] for r in log.query()["records"]] == ["daemon.start"]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (AuditEvent.RECLAIM_SUPPRESS, Reason.HEADROOM),
        (AuditEvent.RECLAIM_GROW, Reason.TIER_LOAD),
        (AuditEvent.RECLAIM_MEMORY, Reason.MEMBERS_ASKED),
        (AuditEvent.POOL_RESIZE, Reason.TIER_LOAD),
        (AuditEvent.UPDATE, Reason.REBALANCED),
        (AuditEvent.UPDATE, Reason.QUOTA_BURST),
    ],
)
def test_a_busy_node_keeps_its_admissions(losses, event, reason):
    nowhere = os.open(os.devnull, os.O_WRONLY)
    log = AuditLog(nowhere, ring_size=8, lost=losses, clock=lambda: AT)
    log.submit(record_of(ADMITTED, NODE, "29", 71))
    for _ in range(100):
        log.submit(Record(event, reason, "load moved it"))
    log.drain()
    os.close(nowhere)
    assert log.query(pod="shop/web")["records"][0]["event"] == "container.admit"
    assert log.query()["lost_before"] == {"lending": 94, "placement": 0}
