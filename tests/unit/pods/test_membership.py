"""pods/gate.py: a pod may be in one of the operator's pools."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.settings import Tuning
from nri_coloc.core.workload import Container, Pod, Wish
from nri_coloc.pods import annotations
from nri_coloc.service.configuration import loading

KEY = "coloc.nri.io/cpu-pool"
FILE = """
pools:
  gold: {members: [{label: tier=gold}], minCPUs: 2}
  etl: {members: [{namespace: etl-*}, {annotation: job=etl}], groupBy: namespace}
  late: {members: [{namespace: etl-*}]}
  team: {groupBy: "label:team"}
  owner: {groupBy: "annotation:owner"}
  each: {groupBy: pod}
  mon: {members: [{namespace: kube-system}], kind: system}
  share: {minCPUs: 2}
"""


def tuning() -> Tuning:
    return loading.load(FILE, "c.yaml").tuning


def wish(namespace: str = "shop", on: Tuning | None = None, **facts: Any) -> Wish:
    """Return the wish of a pod's only container, which must be its pod's own too."""
    pod = Pod(
        "p",
        name=facts.pop("name", "web"),
        namespace=namespace,
        cgroup_parent="/kubepods/burstable/podp",
        **facts,
    )
    found = annotations.resolve(pod, Container("c", "p", "app"), on or tuning(), 1 << 30)
    assert annotations.resolve_pod(pod, on or tuning()).pool == found.pool
    return found


def asking(pool: str, **facts: Any) -> Wish:
    return wish(annotations={KEY: pool} | facts.pop("annotations", {}), **facts)


class TestSelectors:
    @pytest.mark.parametrize(
        ("facts", "pool", "why"),
        [
            ({}, "", ""),
            ({"labels": {"tier": "gold"}}, "gold", "member rule 1"),
            ({"namespace": "etl-a"}, "etl/etl-a", "member rule 1"),
            ({"annotations": {"job": "etl"}}, "etl/shop", "member rule 2"),
            ({"namespace": "kube-system"}, "mon", "member rule 1"),
        ],
        ids=["none fits", "label", "namespace, of two the first", "annotation", "system"],
    )
    def test_the_first_pool_that_fits_holds(self, facts, pool, why):
        found = wish(**facts)
        assert (found.pool, found.pool_because) == (pool, why)

    def test_a_pool_of_another_kind_does_not_fit(self):
        assert wish(namespace="kube-system", labels={"tier": "gold"}).pool == "mon"

    def test_offline_and_dedicated_pods_are_in_none(self):
        for qos in ("reclaimed", "dedicated"):
            found = wish(
                labels={"tier": "gold"}, annotations={"coloc.nri.io/qos-class": qos}, cpu_request=1000
            )
            assert (found.qos.value, found.pool) == (qos, "")

    def test_without_pools_a_wish_stays_what_it_is(self):
        assert wish(on=Tuning(), labels={"tier": "gold"}).pool == ""


class TestAnnotation:
    def test_it_goes_before_the_selectors(self):
        found = asking("late", labels={"tier": "gold"})
        assert (found.pool, found.pool_because) == ("late", f"annotation {KEY}")

    def test_the_classs_own_pool_can_always_be_requested(self):
        assert asking("share", labels={"tier": "gold"}).pool == "share"

    @pytest.mark.parametrize("pool", ["nosuch", "mon", "reclaim", "etl/x"])
    def test_another_name_is_invalid_and_the_selectors_hold(self, pool):
        found = asking(pool, labels={"tier": "gold"})
        (finding,) = found.findings
        assert (found.pool, finding.kind.value, finding.used) == ("gold", "annotation.invalid", "gold")
        if "/" not in pool:
            assert finding.allowed == "for class shared: share, gold, etl, late, team, owner, each"

    def test_one_container_may_be_in_another_pool(self):
        pod = Pod("p", namespace="shop", annotations={f"{KEY}.side": "gold"})
        pools = [
            annotations.resolve(pod, Container(n, "p", n), tuning(), 1 << 30).pool for n in ("side", "app")
        ]
        assert pools == ["gold", ""]


class TestGroups:
    @pytest.mark.parametrize(
        ("pool", "facts", "instance"),
        [
            ("etl", {}, "etl/shop"),
            ("team", {"labels": {"team": "a"}}, "team/a"),
            ("owner", {"annotations": {"owner": "me"}}, "owner/me"),
            ("each", {}, "each/shop/web"),
            ("each", {"namespace": "", "name": ""}, "each"),
            ("team", {}, "team"),
            ("owner", {"annotations": {"owner": "x" * 64}}, "owner"),
            ("owner", {"annotations": {"owner": "a/b"}}, "owner"),
        ],
        ids=[
            "namespace",
            "label",
            "annotation",
            "pod",
            "a pod without a name",
            "without",
            "too long",
            "no name",
        ],
    )
    def test_a_group_is_part_of_the_name(self, pool, facts, instance):
        assert asking(pool, **facts).pool == instance


def test_settings_carry_what_the_file_says():
    text = "pools: {gold: {kind: system, minCPUs: 1, maxCPUs: 2, groupBy: pod, priority: 3, band: [30, 50]}}"
    (gold,) = loading.load(text, "c.yaml").tuning.pools
    assert (gold.name, gold.qos.value, gold.minimum, gold.maximum) == ("gold", "system", 1, 2)
    assert (gold.group_by, gold.priority, gold.band) == ("pod", 3, (0.3, 0.5))
    assert replace(gold, minimum=0, maximum=0, group_by="").sized is False
