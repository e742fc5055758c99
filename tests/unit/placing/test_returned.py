"""placing/resynchronisation.py: a live container gets original values back for values that are no longer ours."""

from dataclasses import replace

import pytest

from nri_coloc.core.cpuset import of
from nri_coloc.core.decisions import Synchronized
from nri_coloc.core.knobs import NO_KNOBS, Knobs, Original
from nri_coloc.core.settings import Tuning
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Finding, FindingKind, Numa, Resources, Wish
from nri_coloc.placing import admission, record
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, Node, asking, mask, moved, pod

OURS = Knobs(memory_high=1 << 28, memory_low=1 << 27, memory_min=1 << 26, oom_score_adj=300, io_weight=400)
TUNED = replace(SHARED, knobs=OURS)


def rewished(*wishes: Wish, node: Node | None = None) -> Node:
    """Return a node whose container got the first wish at creation, and the others by reloads."""
    node = node or Node()
    node.create("app", wish=wishes[0], oom_score_adj=950)
    for wish in wishes[1:]:
        node.reconfigure(wishes={"app": wish})
    return node


def ordered(node: Node) -> Knobs:
    return admission.orders(node.state, node["app"])._replace(cpus=None)


def test_it_gets_the_kernels_values_and_the_kubelets_score():
    node = rewished(TUNED, SHARED)
    memory = sum(each.memory_bytes for each in node.state.topology.nodes)
    assert ordered(node) == Knobs(
        memory_high=memory, memory_low=0, memory_min=0, oom_score_adj=950, io_weight=100
    )
    assert node["app"].by_file


def test_a_machine_whose_memory_nobody_knows_brakes_nobody():
    unknown = Topology.build([CPU(number, 0, 0) for number in range(2)])
    node = Node()
    node.create("app", wish=TUNED)
    node.reconfigure(wishes={"app": SHARED}, topology=unknown)
    assert node.state.topology.online == of([0, 1])
    assert (ordered(node).memory_high or 0) >= 1 << 60


def test_what_was_never_ours_is_left_alone():
    node = rewished(replace(SHARED, knobs=Knobs(io_weight=400)), SHARED)
    assert ordered(node) == Knobs(io_weight=100)
    assert rewished(SHARED, replace(SHARED, because="another rule"))["app"].returned == NO_KNOBS


def test_what_another_class_orders_is_not_given_back():
    node = rewished(TUNED, replace(RECLAIMED, knobs=Knobs(oom_score_adj=1000, io_weight=10)))
    assert (ordered(node).oom_score_adj, ordered(node).io_weight, ordered(node).memory_low) == (1000, 10, 0)


@pytest.mark.parametrize("between", [TUNED, replace(SHARED, because="another rule")], ids=["ours", "nobodys"])
def test_it_stays_given_back_through_further_reloads(between):
    node = rewished(TUNED, SHARED, between, replace(SHARED, because="the last rule"))
    assert (ordered(node).oom_score_adj, ordered(node).io_weight) == (950, 100)


@pytest.mark.parametrize(("kubelets", "given"), [(2, 2), (None, 1024)], ids=["the kubelet's", "the kernel's"])
def test_it_gets_the_shares_of_before_us(kubelets, given):
    node = Node()
    ours = replace(SHARED, knobs=Knobs(shares=4096))
    node.create("app", wish=ours, resources=Resources(shares=kubelets))
    outcome = node.reconfigure(wishes={"app": SHARED})
    assert ordered(node) == Knobs(shares=given)
    assert (outcome.decisions[0].before.shares, outcome.decisions[0].after.shares) == (4096, given)
    node.reconfigure(wishes={"app": replace(SHARED, because="another rule")})
    assert ordered(node) == Knobs(shares=given)


LENT = replace(
    RECLAIMED, knobs=Knobs(shares=512, quota=50_000, period=100_000, memory_limit=1 << 26, oom_score_adj=1000)
)


@pytest.mark.parametrize(
    ("kubelets", "given"),
    [
        (Resources(shares=2), Knobs(shares=2, quota=-1, period=100_000, memory_limit=-1)),
        (
            Resources(shares=2, quota=-1, period=50_000, memory_limit=1 << 27),
            Knobs(shares=2, quota=-1, period=50_000, memory_limit=1 << 27),
        ),
    ],
    ids=["nothing", "the kubelet's"],
)
def test_a_container_without_a_loan_has_its_original_quota_and_limit(kubelets, given):
    node = Node()
    node.create("app", wish=LENT, resources=kubelets)
    outcome = node.reconfigure(wishes={"app": SHARED})
    assert ordered(node)._replace(oom_score_adj=None) == given
    said = outcome.decisions[0]
    assert (said.before.quota, said.before.memory_limit) == (50_000, 1 << 26)
    assert (said.after.quota, said.after.memory_limit) == (given.quota, given.memory_limit)
    node.reconfigure(wishes={"app": replace(SHARED, because="another rule")})
    assert ordered(node)._replace(oom_score_adj=None) == given


def test_who_is_lent_something_again_has_it():
    node = rewished(LENT, SHARED, LENT)
    assert ordered(node) == LENT.knobs
    assert node["app"].returned == NO_KNOBS


def test_our_value_in_a_spec_is_not_the_kubelets():
    node = Node()
    node.create("app", wish=LENT, resources=Resources(shares=2, quota=-1, period=100_000))
    node.reconfigure(wishes={"app": SHARED})
    node.synchronize()
    assert (node["app"].container.resources.quota, ordered(node).quota) == (-1, -1)


def test_what_the_kubelet_tells_afterwards_is_its_own_again():
    node = rewished(replace(SHARED, knobs=Knobs(shares=4096, oom_score_adj=300)), SHARED)
    node.update("app", Resources(quota=50_000, period=100_000))
    assert ordered(node) == Knobs(shares=2, oom_score_adj=950)
    node.update("app", Resources(shares=512))
    assert ordered(node) == Knobs(oom_score_adj=950)


@pytest.mark.parametrize(
    "wish",
    [
        replace(SHARED, handler="pod"),
        replace(SHARED, handler="ignore"),
    ],
    ids=["pod", "ignored"],
)  # fmt: skip - one wish a line says less
def test_who_is_not_ours_to_write_gets_nothing(wish):
    assert rewished(TUNED, wish)["app"].returned == NO_KNOBS


def test_it_is_said_and_only_its_cgroups_are_written():
    node = rewished(TUNED)
    node.create("other", wish=SHARED, on="other")
    outcome = node.reconfigure(wishes={"app": SHARED})
    assert moved(outcome) == ({"web"}, {"app"}), "its pod weighed as much as it did"
    (said,) = [each for each in outcome.decisions if each.subject and each.subject.id == "app"]
    assert said.subject is node["app"]
    assert (said.before.io_weight, said.after.io_weight) == (400, 100)
    assert (said.before.oom_score_adj, said.after.oom_score_adj) == (300, 950)


def test_what_does_not_count_is_said_beside_it():
    bad = replace(SHARED, findings=(Finding(FindingKind.INVALID, "numa", "x", "one of none", "none"),))
    outcome = rewished(TUNED).reconfigure(wishes={"app": bad})
    said = [each.event.value for each in outcome.decisions if not each.pod_id]
    assert said == ["container.update", "annotation.invalid"]


def test_synchronising_with_it_changes_nothing():
    node = rewished(TUNED, SHARED)
    node.synchronize()
    before = node.state
    assert node.synchronize().state is before


LENT = replace(
    RECLAIMED,
    knobs=Knobs(shares=512, quota=50_000, period=100_000, memory_limit=1 << 26),
    annotated=Knobs(shares=512, quota=50_000, period=100_000, memory_limit=1 << 26),
)
RESIZED = Resources(shares=1024, quota=200_000, period=100_000, memory_limit=1 << 28)


def given_back_and_resized() -> Node:
    """Return a node whose container lost its loan with its class, and then got other figures from the kubelet."""
    node = rewished(LENT, SHARED)
    node.update("app", RESIZED, SHARED)
    return node


def test_a_later_value_of_the_kubelet_replaces_all_of_ours():
    app = given_back_and_resized()["app"]
    figures = Knobs(shares=0, quota=0, period=0, memory_limit=0)
    assert app.knobs.where_set(figures) == app.returned.where_set(figures) == NO_KNOBS
    assert app.container.resources == RESIZED


def test_a_daemon_that_comes_later_leaves_the_kubelets_figures_alone():
    node = given_back_and_resized()
    record_of_its_first_life = record.write(rewished(LENT)["app"])
    listed = replace(node["app"].container, record=record_of_its_first_life, resources=RESIZED)
    again = Node()
    again.happen(Synchronized(((pod(), SHARED),), ((listed, SHARED),)))
    figures = Knobs(shares=0, quota=0, period=0, memory_limit=0)
    assert (ordered(again).where_set(figures), again["app"].container.resources) == (NO_KNOBS, RESIZED)


def test_a_later_daemon_restores_a_loan_that_the_spec_still_shows():
    listed = replace(
        rewished(LENT)["app"].container,
        record=record.write(rewished(LENT)["app"]),
        resources=Resources(shares=256, quota=25_000, period=100_000, memory_limit=1 << 25),
    )
    again = Node()
    again.happen(Synchronized(((pod(), SHARED),), ((listed, SHARED),)))
    assert (ordered(again).quota, ordered(again).memory_limit) == (-1, -1)


def test_a_later_daemon_restores_its_journals_values():
    loan = Original(frozenset({"shares", "quota", "period", "memory_limit"}), Knobs(shares=2))
    listed = replace(rewished(SHARED)["app"].container, resources=Resources(shares=2), journalled=loan)
    again = Node()
    again.happen(Synchronized(((pod(), SHARED),), ((listed, SHARED),)))
    assert ordered(again).where_set(LENT.knobs) == Knobs(shares=2, quota=-1, period=100_000, memory_limit=-1)
    assert again["app"].container.journalled is None
    assert again["app"].by_file


def test_memory_nodes_go_back_with_the_cpus():
    node = Node()
    node.create("app", 2000, replace(DEDICATED, numa=Numa.SINGLE))
    assert node["app"].knobs.mems == "0"
    node.reconfigure(Tuning(reserved=mask("0-6")))
    assert (node["app"].exclusive, ordered(node).mems) == (0, "0-1")


def test_memory_nodes_go_back_to_what_the_kubelet_gave():
    node = Node()
    wish = replace(DEDICATED, numa=Numa.SINGLE, numa_ids=0b10)
    node.create("app", wish=wish, resources=asking(2000, mems="0"))
    node.reconfigure(Tuning(reserved=mask("0-6")))
    assert ordered(node).mems == "0"
