"""Pods of every class come and go for minutes (`make soak`: an hour): the daemon's use of resources stays flat.

Lending goes on meanwhile: an online pod bursts every ten seconds beside a reclaimed one that never pauses for long. The
record has the number of times that the reclaim pool shrank (`cuts`). On a busy machine of two CPUs the pool may stay at
its floor, so the test requires only that the loop goes on measuring.

Samples are taken from outside (`vitals`) and from /metrics; they are in build/soak.json afterwards. The first quarter
is warm-up: code is imported, buffers find their size. Each bound is a rise from the end of the warm-up to the end,
however long that is: in an hour the same rise is a slope twenty times smaller.
"""

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from itertools import count, pairwise
from pathlib import Path
from threading import Event
from typing import Any, Final

import pytest

from tests.rig import kubepods, vitals, workloads
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.waiting import poll

pytestmark = pytest.mark.containerd

RECORD: Final = Path("build/soak.json")
WORKERS: Final = 2
SAMPLES: Final = 80
WARM_UP: Final = 0.25
CUTS: Final = 'nri_coloc_decisions_total{event="reclaim.suppress",reason="headroom"}'
TICKS_A_SECOND: Final = 3.0
"""At least: two are the pace of a loop that has nobody to lend to, ten that of a box at its floor."""

_BURN: Final = "i=0; while [ $i -lt {} ]; do i=$((i+1)); done"
ONLINE: Final = ("/bin/sh", "-c", f"while :; do {_BURN.format(1_000_000)}; sleep 8; done")
OFFLINE: Final = ("/bin/sh", "-c", f"while :; do {_BURN.format(100_000)}; sleep 1; done")
TICK, HOOK = "nri_coloc_tick_late_seconds", 'nri_coloc_hook_seconds_{}{{hook="CreateContainer"}}'

BOUNDS: Final = {
    "pss_kib": 8192.0,
    "anon_kib": 8192.0,  # young objects collect for a minute before the collector frees them: a saw of 8 MiB
    "descriptors": 2.0,
    "threads": 1.0,
    "tick_late_ms": 40.0,
    "hook_ms": 10.0,
}
"""The most that each may rise. Times, and pages of files, leave room for a machine that others use as well."""

Samples = list[dict[str, float]]


@pytest.fixture(scope="module")
def samples(containerd: Containerd, daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[Samples]:
    """Return samples from a churn of the ordered length; everything must hold at the end."""
    seconds = float(request.config.getoption("--soak-seconds"))
    with containerd.cri() as cri, Inspector(cri) as inspector:
        for number in range(6):
            inspector.run(f"standing-{number}", ("shared", "reclaimed")[number % 2])
        workloads.run(cri, "bursts", "shared", command=ONLINE, shares=1024)
        workloads.run(cri, "batch", "reclaimed", command=OFFLINE, parent=kubepods.BESTEFFORT, oom=1000)
        found = _soaked(cri, daemon, seconds)
        inspector.wait_until_sound()
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(json.dumps({"samples": found, "rises": rises(found)}, indent=1) + "\n")
        yield found
        cri.remove_all()


@pytest.mark.parametrize("name", BOUNDS)
def test_it_stays_flat(samples: Samples, name: str):
    rise = rises(samples)[name]
    assert rise <= BOUNDS[name], (
        f"{name} rose by {rise:.1f}; of {[round(s[name], 1) for s in samples]}, see {RECORD}"
    )


def test_thousands_of_events_cost_no_connection_and_no_hook(samples: Samples, daemon: Daemon):
    assert samples[-1]["lives"] > len(samples) / 4, "pods really came and went"
    assert daemon.metric("nri_coloc_reconnects_total") == 0
    assert "Traceback" not in daemon.log()


def test_the_loop_that_lends_measures_all_the_while(samples: Samples):
    first, last = samples[0], samples[-1]
    assert last["ticked"] - first["ticked"] >= TICKS_A_SECOND * (last["at_s"] - first["at_s"])


def rises(samples: Samples) -> dict[str, float]:
    """Return the rise of each figure after the warm-up."""
    warm = samples[int(len(samples) * WARM_UP) :]
    times = [sample["at_s"] for sample in warm]
    return {name: vitals.growth(times, [sample[name] for sample in warm]) for name in BOUNDS}


def _soaked(cri: Cri, daemon: Daemon, seconds: float) -> Samples:
    over, lives = Event(), list[str]()
    with ThreadPoolExecutor(WORKERS) as pool:
        workers = [pool.submit(_churn, cri, worker, over, lives) for worker in range(WORKERS)]
        try:
            raw = list(_samples(daemon, seconds, workers, lives))
        finally:
            over.set()
        for worker in workers:
            worker.result()
    return [_between(former, later) for former, later in pairwise(raw)]


def _samples(daemon: Daemon, seconds: float, workers: list[Future[None]], lives: list[str]) -> Iterator[Any]:
    began = time.monotonic()
    while (at := time.monotonic() - began) < seconds:
        body = vitals.look(daemon.pid)
        yield {
            "at_s": at,
            "lives": float(len(lives)),
            "cuts": daemon.metric(CUTS),
            "ticked": daemon.metric(f"{TICK}_count"),
            **{name: float(value) for name, value in asdict(body).items()},
            "ticks": (daemon.metric(f"{TICK}_sum"), daemon.metric(f"{TICK}_count")),
            "hooks": (daemon.metric(HOOK.format("sum")), daemon.metric(HOOK.format("count"))),
        }
        # a worker that ends early has failed, and its result raises the cause
        if poll(lambda: any(worker.done() for worker in workers), seconds / SAMPLES):
            return


def _between(former: dict[str, Any], later: dict[str, Any]) -> dict[str, float]:
    """Return the values at a sample's time, and the means since the sample before it, in milliseconds."""
    plain = {name: value for name, value in later.items() if isinstance(value, float)}
    return {
        **plain,
        "tick_late_ms": _mean_ms(former["ticks"], later["ticks"]),
        "hook_ms": _mean_ms(former["hooks"], later["hooks"]),
    }


def _mean_ms(former: tuple[float, float], later: tuple[float, float]) -> float:
    return 1000 * (later[0] - former[0]) / max(1.0, later[1] - former[1])


def _churn(cri: Cri, worker: int, over: Event, lives: list[str]) -> None:
    """Run and remove pods of every class, one after the other, until `over` is set."""
    dice = random.Random(worker)
    for number in count():
        if over.is_set():
            return
        qos = dice.choice(("dedicated", "shared", "reclaimed"))
        parent = kubepods.BESTEFFORT if qos == "reclaimed" else kubepods.BURSTABLE
        guest = workloads.run(
            cri, f"guest-{worker}-{number}", qos, request=dice.choice((0.1, 1)), parent=parent
        )
        if dice.random() < 0.3:
            workloads.add(cri, guest.pod, "sidecar", request=0.1)
        if dice.random() < 0.3:
            cri.update(guest.id, shares=dice.choice((256, 512)))
        cri.remove_pod(guest.pod.id)
        kubepods.remove(guest.pod.cgroup)  # as the kubelet does; else the journal keeps its values
        lives.append(guest.id)
