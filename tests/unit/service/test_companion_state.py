"""The lending state and the age of the offer, as the companion gets them."""

import time
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from nri_coloc.core.lending import Binding
from nri_coloc.core.settings import ReclaimTuning
from nri_coloc.forecast.capacity import Ahead
from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import NODE_STATES
from nri_coloc.kubernetes.reporting import Lending
from nri_coloc.pressure.eviction import Pace
from nri_coloc.schedule.lending import State
from nri_coloc.service.companion_state import ClusterSide
from nri_coloc.service.new_pods import NewPods


def state(
    *,
    observe: bool = False,
    reclaim: ReclaimTuning | None = None,
    reason: str = "",
    cools_s: float = 0.0,
    shortage: str = "",
    **clock: Any,
):
    """Return the state of a node with a schedule's view of lending, and an offer for a reason."""
    tuning = SimpleNamespace(observe=observe, reclaim=reclaim or ReclaimTuning())
    topology = SimpleNamespace(online=0xFF)
    node: Any = SimpleNamespace(
        tuning=tuning, state=SimpleNamespace(topology=topology, pods={}), memory_bytes=1 << 34
    )
    figures = dict.fromkeys(
        ("cpu_milli", "memory_bytes", "headroom_cpu_milli", "headroom_memory_bytes"), 1000
    )
    offer: Any = SimpleNamespace(body=lambda: {**figures, "reason": reason or "forecast", "because": ""})
    lending = SimpleNamespace(
        **({"is_open": True, "drains": False, "factor": 1.0, "state": State.OFFLINE, "because": ""} | clock)
    )
    expected = [Ahead(1000 * hour, 1 << 30) for hour in range(24)]
    survey: Any = SimpleNamespace(
        picture=SimpleNamespace(at=time.monotonic() - 5), offer=SimpleNamespace(ahead=lambda _: expected)
    )
    from_s = time.time() + 12.5 * 3600
    shown: Any = SimpleNamespace(lending=lending, offer_at=lambda at_s: 0.5 if at_s > from_s else 1.0)
    evictor: Any = SimpleNamespace(pace=Pace(cools_until_s=time.monotonic() + cools_s))
    disks: Any = SimpleNamespace(shortage=shortage)
    new_pods = NewPods(evictor, disks)
    return ClusterSide(node, offer, clock=shown, survey=survey, new_pods=new_pods, after=()).state()


@pytest.mark.parametrize(
    ("given", "lending"),
    [
        ({}, Lending.ON),
        ({"observe": True}, Lending.OFF),
        ({"reclaim": ReclaimTuning(enabled=False)}, Lending.OFF),
        ({"reclaim": ReclaimTuning(paused="an operator paused it")}, Lending.OFF),
        ({"is_open": False}, Lending.COOLING),
        ({"cools_s": 60.0}, Lending.COOLING),
        ({"shortage": "a disk is full"}, Lending.COOLING),
        ({"is_open": False, "factor": 0.0, "drains": True}, Lending.DRAINING),
        ({"is_open": False, "factor": 0.0}, Lending.OFF),
    ],
    ids=[
        "open",
        "observed",
        "disabled",
        "paused",
        "within the grace",
        "after an eviction",
        "a full disk",
        "drained",
        "closed",
    ],
)
def test_the_lending_state_follows_settings_and_schedule(given, lending):
    assert state(**given).lending is lending


def test_the_age_is_that_of_the_readings():
    assert 5 <= state().age_s < 60


def test_an_unknown_offer_has_no_age():
    assert state(reason=Binding.NOT_MEASURED.value).age_s == inf


def test_the_states_of_nodes_are_those_of_the_clock():
    assert set(NODE_STATES) == set(State)


def test_the_outlook_follows_the_schedule():
    outlook = state().summary.outlook
    assert (outlook[12], outlook[13]) == (Amounts(12_000, 1 << 30), Amounts(6_500, 1 << 29))
