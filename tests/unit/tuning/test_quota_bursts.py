"""Quotas of throttled online containers rise while the node is idle and fall when it is not, by file."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.events import ContainerGone, Reconfigured
from nri_coloc.core.lending import Binding, Headroom
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import Wish
from nri_coloc.errors import KernelInterfaceError
from tests.unit.placing import kit
from tests.unit.tuning.quota_bed import APP, BUSY, ON, QUOTA, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_who_cannot_be_read_any_more_goes_back_first_and_is_not_forgotten(rig):
    rig.raised()
    rig.files.gone = True
    rig.pass_by()
    assert rig.last_written() == [QUOTA]
    assert rig.bandwidths.raised == {}


def test_a_refused_return_is_tried_again_at_the_end(rig):
    rig.raised()
    rig.files.refuses_quotas, rig.files.failures = True, (BUSY,)
    rig.files.gone = True
    rig.pass_by()
    rig.files.refuses_quotas, rig.files.failures = False, ()
    rig.bursts.end()
    assert rig.files.quotas["kubepods/podweb/app"] == QUOTA


def test_a_throttled_container_goes_up_while_the_node_is_idle(rig):
    assert rig.raised() == 120_000
    assert rig.files.applied[-1].extra == 20_000


IN_GOLD = replace(kit.SHARED, pool="gold")


def in_pool(pool: PoolTuning) -> Rig:
    """Return a rig whose container is in a pool of unknown load; `share` is idle."""
    return Rig(replace(ON, pools=(pool,)), IN_GOLD)


def test_in_a_pool_with_cpus_of_its_own_nobody_is_raised_because_share_is_idle():
    rig = in_pool(PoolTuning("gold", minimum=2, maximum=2))
    for _ in range(3):
        rig.pass_by()
    assert rig.bandwidths.raised == {}
    assert rig.files.applied == []


def test_in_a_pool_that_is_but_a_name_over_share_containers_are_raised():
    assert in_pool(PoolTuning("gold")).raised() == 120_000


def test_who_was_raised_in_share_and_comes_to_a_pool_of_its_own_goes_back(rig):
    rig.raised()
    with_gold = replace(ON, pools=(PoolTuning("gold", minimum=2),))
    event = Reconfigured(rig.node.state.topology, {"app": IN_GOLD}, {"web": IN_GOLD})
    rig.node.retune(event, with_gold)
    rig.pass_by()
    assert rig.bandwidths.raised == {}
    assert rig.last_written() == [QUOTA]


def test_what_an_operator_lets_the_box_have_is_no_bound_for_online_containers(rig):
    rig.headroom = Headroom(0, 0, 1000, Binding.ONLINE_USE, 4000)
    assert rig.raised() == 120_000


def test_on_a_busy_node_it_goes_back_and_its_own_quota_is_written(rig):
    rig.raised()
    rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 100)
    for _ in range(5):
        rig.pass_by()
    assert rig.bandwidths.raised == {}
    shares = [share for pod in rig.files.applied for share in pod.containers.values()]
    assert [share.quota for share in shares][-1] in (QUOTA, None)
    assert QUOTA in [share.quota for share in shares]


def test_a_raise_that_the_kernel_does_not_take_back_is_not_forgotten(rig):
    rig.raised()
    rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE)
    rig.files.failures = (KernelInterfaceError("/cpu.cfs_quota_us", "write", "Invalid argument"),)
    for _ in range(5):
        rig.pass_by()
    assert rig.bandwidths.raised["app"].quota == QUOTA
    rig.files.failures = ()
    rig.bandwidths.drifts.forgive()
    rig.pass_by()
    assert rig.last_written() == [QUOTA]
    assert rig.bandwidths.raised == {}


@pytest.mark.parametrize("tuning", [ON, Tuning()], ids=["on", "off"])
def test_previously_raised_quotas_are_restored(tuning):
    rig = Rig(tuning)
    rig.files.left = {APP, "kubepods/podweb"}
    rig.pass_by(held=0.0)
    assert [pod.containers[APP].quota for pod in rig.files.applied] == [QUOTA]
    rig.pass_by(held=0.0)
    assert rig.bandwidths.raised == {}


@pytest.mark.parametrize("wish", [kit.DEDICATED, kit.SYSTEM])
def test_what_a_former_life_raised_goes_back_also_in_a_class_that_is_never_raised(wish):
    rig = Rig(wish=wish)
    rig.files.left = {APP, "kubepods/podweb"}
    rig.pass_by()
    assert rig.last_written() == [QUOTA]
    rig.pass_by()
    assert rig.bandwidths.raised == {}


def test_nobody_is_taken_over_before_the_runtime_has_told_everything():
    rig = Rig(Tuning())
    rig.node.told = False
    rig.files.left = {APP}
    rig.pass_by()
    assert (rig.bandwidths.raised, rig.files.applied) == ({}, [])


def test_a_burst_that_only_a_former_life_wanted_is_given_back():
    rig = Rig(Tuning(), wish=bursting(None))
    rig.files.left = {"kubepods/podweb"}
    rig.pass_by()
    rig.bandwidths.sweep()
    assert last_burst(rig) is None
    rig.bandwidths.sweep()
    assert len(rig.files.applied) == 1


def test_at_the_end_what_was_raised_is_the_kubelets_own_again(rig):
    rig.raised()
    rig.bursts.end()
    assert rig.files.applied[-1].containers[APP].quota == QUOTA
    assert rig.files.applied[-1].extra == 0


def test_who_was_raised_goes_back_as_soon_as_it_is_only_observed(rig):
    rig.raised()
    rig.node.tuning = replace(ON, observe=True)
    rig.bursts.look(rig.now + 0.1)
    assert rig.files.quotas == {"": QUOTA, APP: QUOTA}
    assert rig.bandwidths.raised == {}
    written = len(rig.files.applied)
    rig.pass_by()
    rig.bursts.end()
    assert len(rig.files.applied) == written


def test_an_observer_tries_a_refused_return_again(rig):
    rig.raised()
    rig.node.tuning = Tuning(observe=True)
    rig.files.refuses_quotas, rig.files.failures = True, (BUSY,)
    rig.bursts.look(rig.now + 0.1)
    assert rig.bandwidths.raised["app"].quota == QUOTA
    rig.files.refuses_quotas, rig.files.failures = False, ()
    rig.bursts.end()
    assert (rig.files.quotas[APP], rig.bandwidths.raised) == (QUOTA, {})


def test_an_observer_gives_back_what_a_former_life_raised_and_orders_no_burst_beside():
    rig = Rig(Tuning(observe=True), wish=bursting(50))
    rig.files.left, rig.files.quotas = {APP, "kubepods/podweb"}, {APP: 200_000}
    rig.pass_by()
    rig.pass_by()
    (written,) = rig.files.applied
    assert (rig.files.quotas[APP], rig.bandwidths.raised) == (QUOTA, {})
    assert (written.containers[APP].quota, written.containers[APP].burst) == (QUOTA, None)


def test_at_the_end_nothing_is_written_where_nobody_was_raised(rig):
    rig.bursts.end()
    assert rig.files.applied == []


def bursting(percent: int | None) -> Wish:
    return replace(kit.SHARED, cpu_burst_percent=percent)


def reconfigured(rig: Rig, wish: Wish) -> None:
    """Change the settings so that the container gets another wish."""
    rig.node.decide(Reconfigured(rig.node.state.topology, {"app": wish}, {}))
    rig.bandwidths.follow("app")


def last_burst(rig: Rig) -> int | None:
    return rig.files.applied[-1].containers["kubepods/podweb/app"].burst


def test_a_burst_follows_new_settings_and_its_end():
    rig = Rig(wish=bursting(None))
    for percent, burst in ((50, 50_000), (20, 20_000), (None, None)):
        reconfigured(rig, bursting(percent))
        assert last_burst(rig) == burst
    assert len(rig.files.applied) == 3


def test_a_move_that_changes_no_bandwidth_writes_none():
    rig = Rig(wish=bursting(None))
    rig.bandwidths.follow("app")
    assert rig.files.applied == []
    reconfigured(rig, bursting(50))
    rig.bandwidths.follow("app")
    rig.bandwidths.follow("gone")
    assert len(rig.files.applied) == 1


def test_a_pod_of_which_nobody_wants_anything_any_more_is_not_looked_at_again():
    rig = Rig(wish=bursting(50))
    rig.bandwidths.sweep()
    reconfigured(rig, bursting(None))
    rig.bandwidths.sweep()
    looked = len(rig.files.applied)
    rig.bandwidths.sweep()
    assert len(rig.files.applied) == looked


@pytest.mark.parametrize("binding", [Binding.STALE, Binding.NOT_MEASURED])
def test_without_readings_nobody_goes_up(rig, binding):
    rig.headroom = Headroom(4000, 0, 0, binding, 4000)
    rig.pass_by()
    rig.pass_by()
    assert rig.bandwidths.raised == {}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rig: setattr(rig.files, "gone", True),
        lambda rig: setattr(rig.files, "key", 2),
        lambda rig: setattr(rig.files, "held", -100),
        lambda rig: rig.node.decide(ContainerGone("app")),
    ],
    ids=["gone", "made anew", "a counter that went back", "ended"],
)
def test_who_is_not_known_is_not_raised(rig, spoil):
    rig.pass_by()
    spoil(rig)
    rig.pass_by()
    assert rig.bandwidths.raised == {}


@pytest.mark.parametrize(
    "wish",
    [kit.RECLAIMED, kit.DEDICATED, kit.SYSTEM, replace(kit.SHARED, preserve=frozenset({"cpu"}))],
    ids=["reclaimed", "dedicated", "system", "preserved"],
)
def test_only_online_containers_of_a_pool_burst(wish):
    rig = Rig(wish=wish)
    rig.pass_by()
    rig.pass_by()
    assert rig.bandwidths.raised == {}


@pytest.mark.parametrize("tuning", [Tuning(), replace(ON, observe=True)], ids=["off", "observing"])
def test_it_does_nothing_unless_it_is_on(tuning):
    rig = Rig(tuning)
    rig.pass_by()
    rig.pass_by()
    assert rig.files.applied == []


def test_switched_off_what_was_raised_goes_back_at_once(rig):
    rig.raised()
    rig.node.tuning = Tuning()
    rig.bursts.look(rig.now + 0.1)
    assert rig.bandwidths.raised == {}
    assert [s.quota for s in rig.files.applied[-1].containers.values()] == [QUOTA]


def test_it_is_not_reckoned_oftener_than_it_is_worth(rig):
    rig.pass_by()
    seen = len(rig.files.applied)
    rig.bursts.look(rig.now + 0.1)
    assert len(rig.files.applied) == seen


class TestAnObserver:
    @pytest.fixture
    def rig(self) -> Rig:
        return Rig(replace(ON, observe=True))

    def told(self, rig: Rig) -> list[tuple[Any, Any]]:
        assert set(rig.heard.said()) == {("container.update", "quota_burst")}
        return [(one.before, one.after) for one in rig.heard.records]

    def test_tells_what_would_be_written(self, rig):
        for _ in range(3):
            rig.pass_by()
        assert self.told(rig) == [
            ({"quota": QUOTA}, {"quota": 120_000}),
            ({"quota": 120_000}, {"quota": 144_000}),
        ]
        inputs = rig.heard.records[0].extra["inputs"]
        assert (inputs["node"], inputs["online_milli"], inputs["cpus_milli"]) == ("idle", 1000, 8000)
        assert (rig.files.applied, rig.bandwidths.raised) == ([], {})

    def test_tells_it_once_and_the_return_too(self, rig):
        rig.pass_by()
        rig.pass_by()
        rig.pass_by(held=0.0)
        rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 8000)
        rig.pass_by(held=0.0)
        assert self.told(rig)[1:] == [({"quota": 120_000}, {"quota": QUOTA})]

    def test_tells_the_return_when_it_is_switched_off(self, rig):
        rig.pass_by()
        rig.pass_by()
        rig.node.tuning = Tuning(observe=True)
        rig.pass_by()
        rig.pass_by()
        assert self.told(rig)[1:] == [({"quota": 120_000}, {"quota": QUOTA})]
