"""placing/update.py: after a kubelet's update some values are the kubelet's, and some ours."""

from dataclasses import replace

import pytest

from nri_coloc.core.decisions import ContainerUpdating
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.workload import KEPT_BY_KUBELET, Container, Finding, FindingKind, Resources, Wish
from nri_coloc.placing import update
from tests.unit.placing.kit import RECLAIMED, SHARED, Node, figures, first, pod, said

LIMITED = replace(SHARED, knobs=Knobs(memory_limit=512), annotated=Knobs(memory_limit=512))
KUBELETS = Resources(shares=1024, memory_limit=1024)


def running(wish: Wish = SHARED, resources: Resources = KUBELETS) -> Node:
    node = Node()
    node.create("app", wish=wish, resources=resources)
    return node


class TestCertainLimits:
    def test_an_update_with_a_limit_makes_it_known(self):
        inferred = Container("app", "web", resources=KUBELETS, certain_limit=0)
        told = update.as_asked(inferred, Resources(memory_limit=4096))
        assert (told.resources.memory_limit, told.certain_limit) == (4096, None)
        assert told.lowest_limit == 1

    def test_an_update_of_cpu_alone_does_not(self):
        inferred = Container("app", "web", resources=KUBELETS, certain_limit=512)
        told = update.as_asked(inferred, Resources(shares=2048))
        assert (told.certain_limit, told.lowest_limit) == (512, 512)


class TestWhoseValueHolds:
    def test_what_is_not_ours_is_the_kubelets(self):
        node = running()
        outcome = node.update("app", Resources(shares=2048, quota=100))
        assert said(outcome) == [("container.update", "nothing_ours")]
        assert first(outcome).orders == NO_KNOBS
        assert {"asked.shares": 2048, "asked.quota": 100}.items() <= figures(outcome).items()

    def test_cpus_and_mems_are_ours(self):
        node = running()
        outcome = node.update("app", Resources(cpus="0-3"))
        assert said(outcome) == [("container.update", "kubelet_update")]
        assert first(outcome).orders == Knobs(cpus="0-7")
        assert figures(outcome)["asked.cpus"] == "0-3"

    def test_the_newest_cpus_are_laid_over_an_old_spec(self):
        node = running()
        node.create("main", 2000, on="other")
        assert first(node.update("app", Resources(shares=2048))).orders == Knobs(cpus="2-7")

    def test_what_an_annotation_ordered_is_ours(self):
        node = running(LIMITED)
        outcome = node.update("app", Resources(memory_limit=2048))
        assert first(outcome).orders == Knobs(memory_limit=512)

    def test_what_only_the_class_ordered_is_the_kubelets(self):
        node = running(replace(RECLAIMED, preserve=frozenset({KEPT_BY_KUBELET})))
        outcome = node.update("app", Resources(shares=2048))
        assert "shares" not in first(outcome).orders.named()

    def test_an_update_of_nothing_is_answered_with_nothing(self):
        outcome = running().update("app", Resources())
        assert first(outcome).orders == NO_KNOBS
        assert not [name for name in figures(outcome) if name.startswith("asked.")]

    def test_a_preserved_cpuset_is_the_kubelets(self):
        node = running(replace(SHARED, preserve=frozenset({"cpu"})))
        assert first(node.update("app", Resources(cpus="0-3"))).orders == NO_KNOBS

    def test_preserved_memory_is_the_kubelets_also_against_its_own_annotation(self):
        node = running(replace(LIMITED, preserve=frozenset({"memory"})))
        assert first(node.update("app", Resources(memory_limit=2048))).orders == NO_KNOBS

    def test_an_ignored_handlers_container_is_the_kubelets(self):
        node = running(replace(LIMITED, handler="ignore"))
        asked = Resources(cpus="0", memory_limit=2048)
        assert first(node.update("app", asked)).orders == NO_KNOBS

    def test_a_member_of_the_box_keeps_a_spec_without_cpus(self):
        node = running(RECLAIMED)
        for within_pod in (False, True):
            outcome = node.update("app", Resources(shares=2), within_pod=within_pod)
            assert first(outcome).orders == NO_KNOBS

    @pytest.mark.parametrize(
        ("within_pod", "laid_over"), [(True, Knobs(cpus="2-7")), (False, NO_KNOBS)], ids=["v1", "v2"]
    )
    def test_cpus_that_a_request_names_for_it_must_fit(self, within_pod, laid_over):
        node = running(RECLAIMED)
        node.create("main", 2000, on="other")
        outcome = node.update("app", Resources(cpus="0-7"), within_pod=within_pod)
        assert first(outcome).orders == laid_over

    @pytest.mark.parametrize(
        ("within_pod", "laid_over"), [(True, Knobs(cpus="2-7")), (False, NO_KNOBS)], ids=["v1", "v2"]
    )
    def test_a_reclaimed_containers_old_cpus_must_fit(self, within_pod, laid_over):
        node = running()
        node.reconfigure(wishes={"app": RECLAIMED}, pod_wishes={"web": RECLAIMED})
        node.create("main", 2000, on="other")
        assert node.listed["app"].resources.cpus == "0-7"
        outcome = node.update("app", Resources(shares=2048), RECLAIMED, within_pod=within_pod)
        assert first(outcome).orders == laid_over


class TestAudit:
    def test_before_and_after_hold_what_changes(self):
        decision = first(running(LIMITED).update("app", Resources(shares=2048, memory_limit=4096)))
        assert (decision.before, decision.after) == (Knobs(shares=1024), Knobs(shares=2048))

    def test_our_value_in_place_of_the_asked_one_is_shown(self):
        node = running()
        node.create("main", 2000, on="other")
        decision = first(node.update("app", Resources(cpus="0-3")))
        assert (decision.before, decision.after) == (Knobs(cpus="0-7"), Knobs(cpus="2-7"))


def with_figures(
    memory_limit: int | None = None,
    memory_high: int | None = None,
    memory_low: int | None = None,
    memory_min: int | None = None,
) -> Wish:
    """Return the same wish with other figures from the kubelet."""
    figures = Knobs(
        memory_limit=memory_limit, memory_high=memory_high, memory_low=memory_low, memory_min=memory_min
    )
    return replace(SHARED, knobs=figures, annotated=figures)


class TestFigures:
    """Parts of a limit and protections follow the kubelet's new values."""

    def test_the_brake_follows_the_limit_in_the_answer(self):
        node = running(with_figures(memory_high=800))
        outcome = node.update("app", Resources(memory_limit=2048), with_figures(memory_high=1600))
        assert first(outcome).orders == Knobs(memory_high=1600)
        assert node["app"].knobs.memory_high == 1600
        assert not outcome.moves
        assert node.synchronize().decisions == ()

    def test_a_limit_of_ours_follows_the_kubelets(self):
        node = running(LIMITED)
        outcome = node.update("app", Resources(memory_limit=4096), with_figures(memory_limit=2048))
        assert first(outcome).orders == Knobs(memory_limit=2048)
        assert (node["app"].knobs.memory_limit, node["app"].original.memory_limit) == (2048, 4096)

    def test_a_protection_is_raised_along_the_path(self):
        node = running(with_figures(memory_low=500, memory_min=100))
        outcome = node.update(
            "app", Resources(memory_limit=2048), with_figures(memory_low=900, memory_min=100)
        )
        assert said(outcome) == [("pod.limit", "protected"), ("container.update", "kubelet_update")]
        assert outcome.orders_for("app") == Knobs(memory_low=900)
        assert (outcome.moves.pods, outcome.moves.containers) == (("web",), ())

    def test_figures_that_follow_say_what_they_were(self):
        node = running(with_figures(memory_high=800, memory_min=100))
        outcome = node.update(
            "app", Resources(memory_limit=2048), with_figures(memory_high=1600, memory_low=50, memory_min=200)
        )
        update, limit = outcome.decisions[-1], outcome.decisions[0]
        assert update.before == Knobs(memory_limit=1024, memory_high=800, memory_low=0, memory_min=100)
        assert update.after == Knobs(memory_limit=2048, memory_high=1600, memory_low=50, memory_min=200)
        assert (limit.before, limit.after) == (
            Knobs(memory_low=0, memory_min=100),
            Knobs(memory_low=50, memory_min=200),
        )

    def test_a_protection_that_may_not_be_had_any_more_ends(self):
        denied = Finding(FindingKind.DENIED, "coloc.nri.io/memory-low", "500", "at most 300", "none")
        node = running(with_figures(memory_low=500, memory_min=200))
        outcome = node.update("app", Resources(memory_limit=300), replace(SHARED, findings=(denied,)))
        assert outcome.orders_for("app") == Knobs(memory_low=0, memory_min=0)
        assert [event for event, _ in said(outcome)] == ["annotation.denied", "pod.limit", "container.update"]
        assert node["app"].knobs.memory_low is None

    def test_another_wish_than_that_of_its_creation_is_not_taken_over(self):
        node = running(with_figures(memory_high=800))
        other = replace(with_figures(memory_high=1600), because="another rule")
        assert first(node.update("app", Resources(memory_limit=2048), other)).orders == NO_KNOBS
        assert node["app"].wish.knobs.memory_high == 800

    def test_who_lives_by_files_gets_them_written(self):
        node = Node()
        node.start("app", wish=with_figures(memory_high=800), resources=KUBELETS)
        outcome = node.update("app", Resources(memory_limit=2048), with_figures(memory_high=1600))
        assert outcome.moves.containers == ("app",)

    def test_files_make_up_for_a_late_answer(self):
        node = running(with_figures(memory_high=800))
        asked = Resources(memory_limit=2048)
        event = ContainerUpdating(
            pod(), node.listed["app"], with_figures(memory_high=1600), asked, answered=False
        )
        outcome = node.happen(event)
        assert outcome.moves.containers == ("app",)
        assert node["app"].by_file
        again = node.happen(replace(event, requested=Resources(shares=2048)))
        assert again.moves.containers == ("app",)


class TestMemory:
    """The kubelet's own figures are kept apart from ours: otherwise half of a limit would be halved again."""

    def test_the_kubelets_new_values_are_remembered_as_its_own(self):
        node = running(LIMITED)
        node.update("app", Resources(shares=2048, memory_limit=4096))
        assert node["app"].container.resources == replace(KUBELETS, shares=2048, memory_limit=4096)
        assert node["app"].original == Knobs(memory_limit=4096)

    def test_our_values_in_the_spec_are_not_taken_for_the_kubelets(self):
        node = running(LIMITED)
        node.update("app", Resources(shares=2048))
        assert node["app"].container.resources == replace(KUBELETS, shares=2048)

    def test_an_update_of_an_unknown_container_places_it_first(self):
        node = Node()
        outcome = node.update("app", Resources(shares=2048), SHARED)
        assert said(outcome) == [
            ("container.admit", "placed_at_start"),
            ("container.update", "kubelet_update"),
        ]
        assert node["app"].by_file
        assert outcome.decisions[1].orders == Knobs(cpus="0-7")

    def test_an_unknown_dedicated_container_takes_its_cpus(self):
        node = running()
        outcome = node.update("main", Resources(shares=2048), on="other")
        assert outcome.moves.containers == ("app", "main")
        assert (node.cpus("main"), node.cpus("app")) == ("0-1", "2-7")


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (Resources(), KUBELETS),
        (Resources(shares=0, quota=0, memory_limit=0), KUBELETS),
        (Resources(period=5, mems="0"), replace(KUBELETS, period=5, mems="0")),
        (
            Resources(shares=9, quota=9, period=9, cpus="9", mems="9", memory_limit=9),
            Resources(shares=9, quota=9, period=9, cpus="9", mems="9", memory_limit=9),
        ),
    ],
    ids=["nothing", "zeros", "some", "all"],
)
def test_zero_and_empty_mean_keep(requested, expected):
    assert update.merge(KUBELETS, requested) == expected
