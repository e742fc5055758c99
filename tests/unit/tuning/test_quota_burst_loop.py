"""Quotas of throttled online containers rise while the node is idle and fall when it is not, by file."""

from dataclasses import replace
from typing import Any

import pytest

from nri_coloc.core.decisions import ContainerGone, Reconfigured
from nri_coloc.core.lending import Binding, Headroom
from nri_coloc.core.settings import PoolTuning, Tuning
from nri_coloc.core.workload import Wish
from nri_coloc.errors import KernelInterfaceError
from tests.unit.placing import kit
from tests.unit.tuning.quota_bed import APP, BUSY, ON, QUOTA, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_unreadable_container_is_restored_and_remembered(rig):
    rig.raised()
    rig.files.gone = True
    rig.pass_by()
    assert rig.last_written() == [QUOTA]
    assert rig.bandwidths.changed == {}


def test_refused_restoration_is_retried_at_the_end(rig):
    rig.raised()
    rig.files.refuses_quotas, rig.files.failures = True, (BUSY,)
    rig.files.gone = True
    rig.pass_by()
    rig.files.refuses_quotas, rig.files.failures = False, ()
    rig.bursts.end()
    assert rig.files.quotas["kubepods/podweb/app"] == QUOTA


def test_throttled_container_is_raised_on_an_idle_node(rig):
    assert rig.raised() == 120_000
    assert rig.files.applied[-1].extra == 20_000


IN_GOLD = replace(kit.SHARED, pool="gold")


def in_pool(pool: PoolTuning) -> Rig:
    """Return a rig whose container is in a pool of unknown load; `share` is idle."""
    return Rig(replace(ON, pools=(pool,)), IN_GOLD)


def test_idle_share_raises_no_other_pool():
    rig = in_pool(PoolTuning("gold", minimum=2, maximum=2))
    for _ in range(3):
        rig.pass_by()
    assert rig.bandwidths.changed == {}
    assert rig.files.applied == []


def test_named_pool_over_share_is_raised():
    assert in_pool(PoolTuning("gold")).raised() == 120_000


def test_move_out_of_share_ends_the_raise(rig):
    rig.raised()
    with_gold = replace(ON, pools=(PoolTuning("gold", minimum=2),))
    event = Reconfigured(rig.node.state.topology, {"app": IN_GOLD}, {"web": IN_GOLD})
    rig.node.retune(event, with_gold)
    rig.pass_by()
    assert rig.bandwidths.changed == {}
    assert rig.last_written() == [QUOTA]


def test_reclaim_limits_bound_no_online_container(rig):
    rig.headroom = Headroom(0, 0, 1000, Binding.ONLINE_USE, 4000)
    assert rig.raised() == 120_000


def test_busy_node_restores_the_own_quota(rig):
    rig.raised()
    rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE, 100)
    for _ in range(5):
        rig.pass_by()
    assert rig.bandwidths.changed == {}
    shares = [share for pod in rig.files.applied for share in pod.containers.values()]
    assert [share.quota for share in shares][-1] in (QUOTA, None)
    assert QUOTA in [share.quota for share in shares]


def test_refused_restoration_is_remembered(rig):
    rig.raised()
    rig.headroom = Headroom(100, 0, 7900, Binding.ONLINE_USE)
    rig.files.failures = (KernelInterfaceError("/cpu.cfs_quota_us", "write", "Invalid argument"),)
    for _ in range(5):
        rig.pass_by()
    assert rig.bandwidths.changed["app"].quota is None
    rig.files.failures = ()
    rig.bandwidths.drifts.forgive()
    rig.pass_by()
    assert rig.last_written() == [QUOTA]
    assert rig.bandwidths.changed == {}


@pytest.mark.parametrize("tuning", [ON, Tuning()], ids=["on", "off"])
def test_previously_raised_quotas_are_restored(tuning):
    rig = Rig(tuning)
    rig.files.left = {APP, "kubepods/podweb"}
    rig.pass_by(held=0.0)
    assert rig.files.applied[0].containers[APP].quota == QUOTA
    assert rig.bandwidths.changed == {}


@pytest.mark.parametrize("wish", [kit.DEDICATED, kit.SYSTEM])
def test_previous_raise_ends_in_every_class(wish):
    rig = Rig(wish=wish)
    rig.files.left = {APP, "kubepods/podweb"}
    rig.pass_by()
    assert rig.files.applied[0].containers[APP].quota == QUOTA
    assert rig.bandwidths.changed == {}


def test_no_takeover_before_the_runtimes_list():
    rig = Rig(Tuning())
    rig.node.told = False
    rig.files.left = {APP}
    rig.pass_by()
    assert (rig.bandwidths.changed, rig.files.applied) == ({}, [])


def test_previous_burst_is_restored():
    rig = Rig(Tuning(), wish=bursting(None))
    rig.files.left = {"kubepods/podweb"}
    rig.pass_by()
    rig.bandwidths.sweep()
    assert last_burst(rig) is None
    rig.bandwidths.sweep()
    assert len(rig.files.applied) == 1


def test_end_restores_the_kubelets_quotas(rig):
    rig.raised()
    rig.bursts.end()
    assert rig.files.applied[-1].containers[APP].quota == QUOTA
    assert rig.files.applied[-1].extra == 0


def test_mode_observe_restores_raised_quotas(rig):
    rig.raised()
    rig.node.tuning = replace(ON, observe=True)
    rig.bursts.look(rig.now + 0.1)
    assert rig.files.quotas == {"": QUOTA, APP: QUOTA}
    assert rig.bandwidths.changed == {}
    written = len(rig.files.applied)
    rig.pass_by()
    rig.bursts.end()
    assert len(rig.files.applied) == written


def test_an_observer_tries_a_refused_return_again(rig):
    rig.raised()
    rig.node.tuning = Tuning(observe=True)
    rig.files.refuses_quotas, rig.files.failures = True, (BUSY,)
    rig.bursts.look(rig.now + 0.1)
    assert rig.bandwidths.changed["app"].quota is None
    rig.files.refuses_quotas, rig.files.failures = False, ()
    rig.bursts.end()
    assert (rig.files.quotas[APP], rig.bandwidths.changed) == (QUOTA, {})


def test_observer_restores_a_previous_raise():
    rig = Rig(Tuning(observe=True), wish=bursting(50))
    rig.files.left, rig.files.quotas = {APP, "kubepods/podweb"}, {APP: 200_000}
    rig.pass_by()
    rig.pass_by()
    (written,) = rig.files.applied
    assert (rig.files.quotas[APP], rig.bandwidths.changed) == (QUOTA, {})
    assert (written.containers[APP].quota, written.containers[APP].burst) == (QUOTA, None)


def test_end_without_a_raise_writes_nothing(rig):
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


def test_pod_without_wishes_is_not_checked():
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
    assert rig.bandwidths.changed == {}


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
    assert rig.bandwidths.changed == {}


@pytest.mark.parametrize(
    "wish",
    [kit.RECLAIMED, kit.DEDICATED, kit.SYSTEM, replace(kit.SHARED, preserve=frozenset({"cpu"}))],
    ids=["reclaimed", "dedicated", "system", "preserved"],
)
def test_only_online_containers_of_a_pool_burst(wish):
    rig = Rig(wish=wish)
    rig.pass_by()
    rig.pass_by()
    assert rig.bandwidths.changed == {}


@pytest.mark.parametrize("tuning", [Tuning(), replace(ON, observe=True)], ids=["off", "observing"])
def test_it_does_nothing_unless_it_is_on(tuning):
    rig = Rig(tuning)
    rig.pass_by()
    rig.pass_by()
    assert rig.files.applied == []


def test_switching_off_restores_at_once(rig):
    rig.raised()
    rig.node.tuning = Tuning()
    rig.bursts.look(rig.now + 0.1)
    assert rig.bandwidths.changed == {}
    assert [s.quota for s in rig.files.applied[-1].containers.values()] == [QUOTA]


def test_computed_no_more_often_than_useful(rig):
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
        assert (rig.files.applied, rig.bandwidths.changed) == ([], {})

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
