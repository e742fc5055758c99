"""placing/ownership.py: a pod's new CPU request gives its containers another class, or takes it away.

"8cpu": cores 0-1, 2-3, 4-5, 6-7.
"""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from nri_coloc.core.decisions import Outcome
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Finding, FindingKind, QoSClass, Wish
from nri_coloc.placing import admission, lifecycle, waiting
from tests.unit.placing.kit import DEDICATED, KEY, RECLAIMED, SHARED, Node, asking, first, said

LOAN = Knobs(shares=2048, quota=200_000, period=100_000, memory_limit=1 << 30)
LENT = replace(RECLAIMED, knobs=RECLAIMED.knobs.overlaid(LOAN), annotated=LOAN)
LESS = Knobs(shares=2, quota=10_000, memory_limit=32 << 20)
"""The granted part of `LOAN` while the node has little to lend."""

DENIED = replace(
    SHARED, findings=(Finding(FindingKind.DENIED, KEY, "dedicated", "a pod that requests 1 CPU", "shared"),)
)
"""The wish of a container that asks for class dedicated in a pod that requests too little CPU."""


def node_with(milli: int, wish: Wish, tuning: Tuning | None = None) -> Node:
    """Return a node with one pod besides an online one."""
    node = Node(tuning=tuning)
    node.requests["web"] = milli
    node.run("online", 500, SHARED, on="shop")
    node.run("web", milli, wish)
    return node


def granted(node: Node, milli: int = 2000) -> Outcome:
    """Resize the pod and its container as the kubelet does upwards."""
    node.requests["web"] = milli
    return node.update("web", asking(milli), DEDICATED, judged={"web": DEDICATED})


class TestGranted:
    def test_it_owns_cpus_that_others_leave_first(self):
        node = node_with(500, DENIED)
        outcome = granted(node)
        assert (node["web"].qos, node.cpus("web"), node.cpus("online")) == (QoSClass.DEDICATED, "0-1", "2-7")
        assert outcome.waits_for.containers == ("online",)
        assert outcome.orders_for("web").cpus == "0-1"

    def test_the_record_names_reason_and_former_class(self):
        outcome = granted(node_with(500, DENIED))
        assert said(outcome) == [("container.update", "whole_core"), ("pool.resize", "cpus_taken")]
        assert "class was shared" in first(outcome).because

    def test_without_enough_cpus_it_waits_in_share(self):
        node = node_with(500, DENIED)
        outcome = granted(node, 8000)
        assert (node.cpus("web"), first(outcome).reason.value) == ("0-7", "resize_unmet")
        assert waiting.missing(node.state, node["web"]) == 8

    def test_strict_refuses_a_request_without_cpus(self):
        node = node_with(500, SHARED, Tuning(strict=True))
        outcome = granted(node, 8000)
        assert "nri-coloc refuses shop/web/web" in outcome.refusal
        assert node["web"].qos is QoSClass.SHARED

    def test_its_sidecar_follows_it(self):
        node = node_with(500, DENIED)
        node.run("side", 100, DENIED)
        node.requests["web"] = 2100
        judged = {"web": DEDICATED, "side": DEDICATED}
        node.update("web", asking(2000), DEDICATED, judged=judged)
        assert (node.cpus("web"), node.cpus("side"), node["side"].follows) == ("0-1", "0-1", "web")

    def test_the_kubelets_shares_return(self):
        node = node_with(500, RECLAIMED)
        granted(node)
        orders = admission.orders(node.state, node["web"])
        assert (orders.cpus, orders.shares) == ("0-1", 2048)

    @pytest.mark.parametrize("wish", [DEDICATED, SHARED], ids=lambda wish: wish.qos.value)
    def test_nothing_of_a_loan_is_kept(self, wish: Wish):
        node = node_with(500, LENT)
        node.grant({"web": LESS})
        node.resize_pod("web", 2000, web=wish)
        orders = admission.orders(node.state, node["web"])
        assert node["web"].granted == NO_KNOBS
        assert (orders.quota, orders.memory_limit) == (-1, -1)

    def test_a_reclaimed_container_keeps_its_part(self):
        node = node_with(500, LENT)
        node.grant({"web": LESS})
        node.resize_pod("web", 2000, web=LENT)
        assert node["web"].granted == LESS


class TestDenied:
    def test_it_returns_its_cpus(self):
        node = node_with(2000, DEDICATED)
        outcome = node.resize_pod("web", 500, web=DENIED)
        assert (node["web"].qos, node.cpus("web"), node.owners()) == (QoSClass.SHARED, "0-7", {})
        assert said(outcome) == [
            ("container.update", "pool_member"),
            ("annotation.denied", "not_allowed"),
            ("pool.resize", "cpus_returned"),
        ]

    def test_its_sidecar_does_not_inherit(self):
        node = node_with(2000, DEDICATED)
        node.run("side", 100)
        node.resize_pod("web", 500, web=DENIED, side=DENIED)
        assert (node.cpus("web"), node.cpus("side"), node.owners()) == ("0-7", "0-7", {})

    def test_each_denial_is_recorded(self):
        node = node_with(500, DENIED)
        granted(node)
        outcome = node.resize_pod("web", 500, web=DENIED)
        assert ("annotation.denied", "not_allowed") in said(outcome)

    def test_many_containers_are_looked_through_once(self, monkeypatch: pytest.MonkeyPatch):
        node = node_with(2000, DEDICATED)
        for number in range(9):
            node.run(f"side{number}", 100)
        lapsed = Mock(wraps=lifecycle.without_lapsed_findings_of)
        monkeypatch.setattr(lifecycle, "without_lapsed_findings_of", lapsed)
        outcome = node.resize_pod("web", 500, web=DENIED, **{f"side{number}": DENIED for number in range(9)})
        assert said(outcome).count(("annotation.denied", "not_allowed")) == 1
        assert lapsed.call_count == 1

    def test_its_own_values_are_restored(self):
        urgent = replace(DEDICATED, knobs=Knobs(io_weight=500))
        node = node_with(2000, urgent)
        node.resize_pod("web", 500, web=DENIED)
        assert admission.orders(node.state, node["web"]).io_weight == 100

    def test_a_restart_finds_the_same(self):
        node = node_with(2000, DEDICATED)
        node.resize_pod("web", 500, web=DENIED)
        node.push()
        again = node.anew()
        assert (again.cpus("web"), again.owners()) == ("0-7", {})
