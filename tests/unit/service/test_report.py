"""One report goes to the audit, the metrics and the log."""

from dataclasses import replace

from nri_coloc._pb import told_pb2
from nri_coloc.core.decisions import Decision
from nri_coloc.core.knobs import Capability, Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import Drift
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.events import Call, Hook
from tests.unit.parts import a_node, a_report, create
from tests.unit.placing import kit


def test_the_decisions_of_one_event_share_an_id_and_are_counted():
    node = a_node()
    report, heard = a_report(node)
    before = node.state
    create(node, "app")
    outcome = create(node, "owner", kit.DEDICATED, 2000, on="db")
    report.decided(outcome.decisions, outcome.state, before, 42)
    report.said(AuditEvent.CONFIG_RELOAD, Reason.VALID, "configuration read: it changed")
    ids = [record.decision_id for record in heard.records]
    assert len(set(ids[:-1])) == 1
    assert ids[-1] not in ids[:-1]
    assert heard.records[0].latency_us == 42
    text = report.metrics.render().decode()
    assert 'nri_coloc_decisions_total{event="container.admit",reason="whole_core"} 1.0' in text
    assert 'nri_coloc_decisions_total{event="config.reload",reason="valid"} 1.0' in text


def test_what_a_decision_used_goes_out_by_name_beside_its_sentence():
    node = a_node()
    report, heard = a_report(node)
    decision = Decision(
        AuditEvent.RECLAIM_GROW, Reason.HEADROOM, "pool grown: it fits", inputs={"online_milli": 1200}
    )
    report.decided((decision,), node.state, node.state)
    assert heard.records[0].extra == {"inputs": {"online_milli": 1200}}


def test_figures_of_a_place_get_names_in_the_record():
    node = a_node()
    report, heard = a_report(node)
    before = node.state
    outcome = create(node, "app")
    assert outcome.decisions[0].inputs is None
    report.decided(outcome.decisions, outcome.state, before)
    inputs = heard.records[0].extra["inputs"]
    assert (inputs["request_milli"], inputs["pool_cpus"]) == (1000, "0-7")


def test_what_this_machine_does_not_take_is_said_and_not_claimed():
    node = a_node()
    report, heard = a_report(node)
    node.learn(Capability(1, frozenset({"cpu.shares", "io.weight"}), seen_below=frozenset({"kubepods"})))
    before = node.state
    wish = replace(kit.SHARED, knobs=Knobs(memory_high=4096, io_weight=300, rdt_class="gold"))
    report.decided(create(node, "app", wish).decisions, node.state, before)
    admitted, failed, of_the_pod = heard.records
    assert (admitted.after, of_the_pod.after) == ({"cpus": "0-7", "io.weight": 300}, {"io.weight": 300})
    assert (failed.event, failed.reason, failed.after) == ("write.failed", "no_file", {})
    assert (failed.decision_id, failed.container) == (admitted.decision_id, "app")
    assert failed.extra == {"inputs": {"memory.high": 4096, "rdt_class": "gold"}}
    assert 'values_without_file_total{knob="rdt_class"} 1.0' in report.metrics.render().decode()
    assert "memory.high (1 time), rdt_class (1 time)" in report.unwritten.words(0.0)


def test_what_this_machine_does_not_take_was_not_there_before_either():
    node = a_node()
    report, heard = a_report(node)
    node.learn(Capability(1, frozenset({"cpu.shares", "io.weight"}), seen_below=frozenset({"kubepods"})))
    said = Decision(AuditEvent.POD_LIMIT, Reason.PROTECTED, "protected: it asked", pod_id="web")
    said = said._replace(before=Knobs(memory_min=0, shares=2), after=Knobs(memory_min=4096, shares=4))
    report.decided((said,), node.state, node.state)
    assert (heard.records[0].before, heard.records[0].after) == ({"shares": 2}, {"shares": 4})


def test_a_repair_says_what_was_found_and_for_whom():
    node = a_node()
    report, heard = a_report(node)
    create(node, "app")
    drift = Drift(Knobs(cpus="0-3"), Knobs(cpus="0-7"), "repaired: found")
    report.drifted(node.state.containers["app"], node.state, drift)
    report.drifted("web", node.state, drift)
    container, pod = heard.records
    assert (container.container, container.pod, container.namespace) == ("app", "web", "shop")
    assert (container.before, container.after) == ({"cpus": "0-3"}, {"cpus": "0-7"})
    assert (pod.container, pod.pod) == ("", "web")


def test_an_unknown_subject_of_a_hook_is_named():
    report, heard = a_report(a_node())
    pod = told_pb2.PodSandbox(namespace="shop", name="web", uid="0f6d")
    what = (AuditEvent.HOOK_FAILED, Reason.INTERNAL_ERROR, "answered: it failed")
    call = Call(1, "any", 0)
    report.about_hook(Hook(call, HookKind.RUN_POD_SANDBOX, pod, None, None), what)
    container = told_pb2.Container(name="app", id="9c1b")
    report.about_hook(Hook(call, HookKind.CREATE_CONTAINER, pod, container, None), what)
    named = [(r.namespace, r.pod, r.pod_uid, r.container, r.container_id) for r in heard.records]
    assert named == [("shop", "web", "0f6d", "", ""), ("shop", "web", "0f6d", "app", "9c1b")]


def refusal(path: str = "/x/cpuset.cpus", reason: str = "Permission denied") -> KernelInterfaceError:
    return KernelInterfaceError(path, "write '0' to", reason)


def test_the_same_refusal_is_said_once_and_counted_each_time():
    node = a_node()
    report, heard = a_report(node)
    create(node, "app")
    for _ in range(5):
        report.refused_by_kernel(refusal(), node.state.containers["app"], node.state)
    assert heard.said() == [("write.failed", "refused")]
    assert (heard.records[0].pod, heard.records[0].container) == ("web", "app")
    assert 'nri_coloc_write_failures_total{file="cpuset.cpus"} 5.0' in report.metrics.render().decode()


def test_another_reason_or_another_file_is_said():
    node = a_node()
    report, heard = a_report(node)
    report.refused_by_kernel(refusal(), "", node.state)
    report.refused_by_kernel(refusal(reason="Device or resource busy"), "", node.state)
    report.refused_by_kernel(refusal("/y/cpuset.cpus"), "", node.state)
    assert len(heard.records) == 3
