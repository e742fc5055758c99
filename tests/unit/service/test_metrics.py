"""service/metrics.py: Prometheus gets the documented series, and strangers cannot make labels."""

import re
from pathlib import Path

import pytest

from nri_coloc.core.decisions import Decision
from nri_coloc.core.readings import SharingCost
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.state import Assignment, Crowd, NodeState, Pools
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Container, QoSClass
from nri_coloc.service.audit_rings import LOST_CAUSES
from nri_coloc.service.metrics import Metrics

DOC = Path(__file__).parents[3] / "docs" / "metrics.md"

NODE = NodeState(
    Topology.build([CPU(n) for n in range(4)]),
    Pools(dedicated=0b0011, system=0b1100, share=0b1100, reclaim=0b1000),
    containers=Crowd.of(
        (Assignment(Container("c", "p"), QoSClass.DEDICATED, "dedicated", exclusive=0b0011),)
    ),
)


def key_label(key: str) -> str:
    return "qos-class" if key == "coloc.nri.io/qos-class" else "other"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3", lambda: NODE, key_label)


def value(metrics: Metrics, series: str) -> float | None:
    """Return the scraped value of one series, None if there is none."""
    found = re.search(rf"^nri_coloc_{re.escape(series)} (\S+)$", metrics.render().decode(), re.MULTILINE)
    return float(found[1]) if found else None


def test_the_connection_is_one_or_zero(metrics):
    assert value(metrics, "connected") == 0
    metrics.connected(now=True)
    assert value(metrics, "connected") == 1
    metrics.connected(now=False)
    assert value(metrics, "connected") == 0


def test_a_hook_falls_into_its_bucket(metrics):
    metrics.hook("CreateContainer", 71e-6)
    metrics.hook("CreateContainer", 3.0)
    assert value(metrics, 'hook_seconds_bucket{hook="CreateContainer",le="5e-05"}') == 0
    assert value(metrics, 'hook_seconds_bucket{hook="CreateContainer",le="0.0001"}') == 1
    assert value(metrics, 'hook_seconds_bucket{hook="CreateContainer",le="2.0"}') == 1
    assert value(metrics, 'hook_seconds_count{hook="CreateContainer"}') == 2


def test_a_decision_is_counted_by_event_and_reason(metrics):
    for _ in range(2):
        metrics.decided(Decision(AuditEvent.ADMIT, Reason.WHOLE_CORE, ""))
    metrics.decision(AuditEvent.CONFIG_RELOAD, Reason.VALID)
    assert value(metrics, 'decisions_total{event="container.admit",reason="whole_core"}') == 2
    assert value(metrics, 'decisions_total{event="config.reload",reason="valid"}') == 1
    assert value(metrics, "unmet_requests_total") == 0


def test_a_request_that_could_not_be_met_is_counted_as_such(metrics):
    metrics.decided(Decision(AuditEvent.ADMIT, Reason.NO_FREE_CPUS, ""))
    assert value(metrics, "unmet_requests_total") == 1


@pytest.mark.parametrize(
    ("event", "name"),
    [(AuditEvent.ANNOTATION_INVALID, "invalid"), (AuditEvent.ANNOTATION_DENIED, "denied")],
)
def test_an_annotations_key_is_a_label_only_when_it_is_known(metrics, event, name):
    metrics.decided(Decision(event, Reason.BAD_VALUE, "", key="coloc.nri.io/qos-class"))
    metrics.decided(Decision(event, Reason.BAD_VALUE, "", key="coloc.nri.io/made-up"))
    assert value(metrics, f'annotation_{name}_total{{key="qos-class"}}') == 1
    assert value(metrics, f'annotation_{name}_total{{key="other"}}') == 1


def test_small_verbs_count_what_they_say(metrics):
    metrics.config_reload("invalid")
    metrics.neutral_reply("CreateContainer")
    metrics.reconnected()
    metrics.write_failed("/sys/fs/cgroup/kubepods/pod1/cpuset.cpus")
    metrics.drift_repaired()
    metrics.late_exclusivity()
    metrics.audit_lost("overflow", 3)
    assert value(metrics, 'config_reload_total{result="invalid"}') == 1
    assert value(metrics, 'neutral_replies_total{hook="CreateContainer"}') == 1
    assert value(metrics, "reconnects_total") == 1
    assert value(metrics, 'write_failures_total{file="cpuset.cpus"}') == 1
    assert value(metrics, "drift_repairs_total") == 1
    assert value(metrics, "late_exclusivity_total") == 1
    assert value(metrics, 'audit_lost_total{why="overflow"}') == 3


def test_pools_and_containers_are_read_when_scraped(metrics):
    assert value(metrics, 'pool_cpus{pool="dedicated"}') == 2
    assert value(metrics, 'pool_cpus{pool="reserved"}') == 0
    assert value(metrics, 'containers{class="dedicated"}') == 1
    assert value(metrics, 'containers{class="reclaimed"}') == 0


def test_loads_are_told_by_the_operators_name(metrics):
    metrics.loaded({"gold": 1.5, "etl/a": 0.25, "etl/b": 0.5})
    assert value(metrics, 'pool_load_cpus{pool="gold"}') == 1.5
    assert value(metrics, 'pool_load_cpus{pool="etl"}') == 0.75
    assert value(metrics, 'pool_load_cpus{pool="share"}') is None


def test_before_the_first_state_pools_are_not_mentioned():
    assert b"pool_cpus" not in Metrics("1", lambda: None, key_label).render()


def test_the_version_is_told(metrics):
    assert value(metrics, 'build_info{version="1.2.3"}') == 1


def test_the_process_is_told(metrics):
    assert (value(metrics, "process_resident_memory_bytes") or 0) > 1e6
    assert (value(metrics, "process_threads") or 0) >= 1


def test_two_daemons_in_one_process_do_not_mix(metrics):
    other = Metrics("1", lambda: None, key_label)
    other.reconnected()
    assert value(metrics, "reconnects_total") == 0


def test_no_series_tells_when_it_was_created(metrics):
    metrics.hook("CreateContainer", 0.001)
    assert b"_created" not in metrics.render()


def test_what_containers_bore_is_by_class_and_pool(metrics):
    for _ in range(2):
        metrics.containers_felt(
            "shared", "gold", SharingCost(throttled_us=1_500_000, waited_us=500_000, oom_kills=3)
        )
    whose = '{class="shared",pool="gold"}'
    assert value(metrics, f"cpu_throttled_seconds_total{whose}") == 3
    assert value(metrics, f"cpu_wait_seconds_total{whose}") == 1
    assert value(metrics, f"oom_kills_total{whose}") == 6


def test_what_pods_moved_and_bore_is_by_class(metrics):
    metrics.pods_felt(
        "reclaimed",
        SharingCost(
            throttled_us=0,
            waited_us=0,
            oom_kills=0,
            read_bytes=10,
            written_bytes=20,
            reads=30,
            writes=40,
            memory_stalled_us=5_000_000,
            io_stalled_us=6_000_000,
            high_events=7,
        ),
    )
    for direction, moved, served in (("read", 10, 30), ("write", 20, 40)):
        whose = f'{{class="reclaimed",direction="{direction}"}}'
        assert value(metrics, f"io_bytes_total{whose}") == moved
        assert value(metrics, f"io_operations_total{whose}") == served
    assert value(metrics, 'stalled_seconds_total{class="reclaimed",resource="memory"}') == 5
    assert value(metrics, 'stalled_seconds_total{class="reclaimed",resource="io"}') == 6
    assert value(metrics, 'memory_high_events_total{class="reclaimed"}') == 7


def test_who_holds_nothing_any_more_is_told_with_nothing(metrics):
    metrics.working_sets({("shared", "share"): 5})
    metrics.working_sets({("system", "system"): 7})
    assert value(metrics, 'working_set_bytes{class="shared",pool="share"}') == 0
    assert value(metrics, 'working_set_bytes{class="system",pool="system"}') == 7


def test_the_headroom_is_told_by_memory_node(metrics):
    metrics.surveyed(0.01, 7, {0: 3, 1: 4})
    assert value(metrics, "headroom_memory_bytes") == 7
    assert value(metrics, 'headroom_memory_node_bytes{node="1"}') == 4


def test_ticks_that_are_told_together_count_each(metrics):
    metrics.ticks([0.0001, 3.0], 500)
    metrics.ticks([1.0], 700)
    assert value(metrics, "tick_late_seconds_count") == 3
    assert value(metrics, "tick_late_seconds_sum") == pytest.approx(4.0001)
    assert value(metrics, "headroom_cpu_milli") == 700


class TestDoc:
    def rows(self) -> dict[str, str]:
        """Return name and the rest of each row of the table."""
        return dict(
            re.findall(r"^\| `(nri_coloc_\w+)(?:\{[\w,]+\})?` \|(.*)$", DOC.read_text(), re.MULTILINE)
        )

    def test_it_lists_exactly_what_is_served(self, metrics):
        served = re.findall(r"^# TYPE (\S+) (\S+)$", metrics.render().decode(), re.MULTILINE)
        assert self.rows().keys() == {name for name, _ in served}
        assert all(self.rows()[name].startswith(f" {kind} |") for name, kind in served)

    def test_it_explains_every_cause_of_a_loss(self):
        told = re.findall(r"`(\w+)`", self.rows()["nri_coloc_audit_lost_total"])
        assert sorted(told) == list(LOST_CAUSES)
