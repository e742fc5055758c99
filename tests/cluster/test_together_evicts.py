"""Evictions beside the stock scheduler: short memory, a budget, the cool-down, and a window that closes.

Memory is short because the limit of kubepods is lowered, as on a node that reserves nearly all of its memory.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from nri_coloc.kubernetes.event_reasons import EventReason
from nri_coloc.kubernetes.eviction import NOTICE_S
from nri_coloc.kubernetes.presets import OPEN
from nri_coloc.pods.keys import EVICT_AT
from nri_coloc.pressure.eviction import COOL_S
from nri_coloc.service import cool_down
from tests.cluster.cluster import Cluster
from tests.cluster.colocation import Colocation, budget, lent, reclaimed
from tests.cluster.leftovers import CGROUP_ROOT
from tests.cluster.pods import container, pod
from tests.cluster.running import Pods, is_ready
from tests.rig import cgroups

ONLY_NEWEST = True
MIB: Final = 1 << 20
KUBEPODS: Final = f"{CGROUP_ROOT}/kubepods"
LEFT: Final = 170 * MIB
"""Available below the limit: less than the daemon's bound of 200 MiB, more than the kubelet's own of 100 MiB."""

HOLDS: Final = (
    "trap 'exit 0' TERM; (busybox head -c 320m /dev/zero; exec sleep 1000000) | busybox tail -c 320m & wait"
)
"""head reads on after a freeze. One large read would end early, for runc freezes a v1 container while it updates it."""

SIGTERM: Final = "Killing"
"""The kubelet's Event."""

COOLS_S: Final = 15.0
"""Seconds to which the cool-down is shortened, by the file that keeps its end over a restart."""

AHEAD_S: Final = 45.0
"""Least seconds until the window closes: the daemon reads the schedule first, and the node closes in the grace."""

ONLINE: Final = pod("online", container(requests={"cpu": "100m"}))


def hog(name: str, **annotations: str) -> dict[str, Any]:
    """Return a reclaimed pod that holds 320 MiB."""
    amounts = lent(memory=str(400 * MIB))
    app = container(requests=amounts, limits=amounts, command=("/bin/sh", "-c", HOLDS))
    found = pod(name, app, qos_class="reclaimed", annotations=annotations)
    found["metadata"]["labels"] = {"app": name}
    return found


@contextmanager
def deployed(cluster: Cluster, template: dict[str, Any]) -> Iterator[str]:
    """Let a Deployment keep one pod like this one; yield the first one's name when it runs."""
    name = template["metadata"]["name"]
    found = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {key: template[key] for key in ("metadata", "spec")},
        },
    }
    cluster.apply(found)
    try:
        cluster.becomes(
            lambda: [is_ready(each["status"]) for each in copies(cluster, name)], [True], "its pod"
        )
        yield copies(cluster, name)[0]["metadata"]["name"]
    finally:
        cluster.kubectl("delete", "deployment", name, "--cascade=foreground")


def copies(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    """Return the pods of a Deployment that are not being deleted."""
    items = cluster.get("pods")["items"]
    labelled = (each for each in items if each["metadata"].get("labels", {}).get("app") == name)
    return [each for each in labelled if "deletionTimestamp" not in each["metadata"]]


@contextmanager
def kubepods_limit() -> Iterator[Path]:
    """Yield the file of kubepods' memory limit, and restore its value after the block."""
    limit = _memory("memory.limit_in_bytes", "memory.max")
    before = limit.read_text()
    try:
        yield limit
    finally:
        limit.write_text(before)


def limit_that_leaves(left: int) -> int:
    """Return the limit of kubepods, bytes, below which so many bytes are available."""
    usage = int(_memory("memory.usage_in_bytes", "memory.current").read_text())
    lines = _memory("memory.stat", "memory.stat").read_text().splitlines()
    stat = {name.removeprefix("total_"): int(amount) for name, amount in map(str.split, lines)}
    cache = stat["inactive_file"] + stat["active_file"] // 2 + stat.get("slab_reclaimable", 0) // 2
    return usage - cache + left


def _memory(v1: str, v2: str, cgroup: str = KUBEPODS) -> Path:
    return cgroups.file(cgroup, "memory", v2 if cgroups.is_v2() else v1)


def holds(pods: Pods, name: str) -> bool:
    """Return whether a hog holds its memory: before that, its end would free too little for the shortage."""
    group = pods.pod_cgroup(name)
    return int(_memory("memory.usage_in_bytes", "memory.current", group).read_text()) >= 300 * MIB


def seconds(text: str) -> float:
    """Return a time of the API as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def evict_at_s(found: Mapping[str, Any]) -> float:
    """Return the time in a pod's notice, seconds since 1970; 0 for none."""
    text = found["metadata"]["annotations"].get(EVICT_AT)
    return seconds(text) if text else 0.0


def scheduled(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod's condition PodScheduled."""
    conditions: list[dict[str, Any]] = found["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def waits_for_an_open_node(found: Mapping[str, Any]) -> bool:
    return f"Insufficient {OPEN}" in scheduled(found).get("message", "")


def outcomes(colocation: Colocation, name: str) -> list[str]:
    """Return the reasons of a pod's records of eviction, oldest first: of the order, then of its result."""
    return [record["reason"] for record in colocation.product.audit(name, event="pod.evict")]


def test_an_evicted_pod_returns_after_the_cool_down(cluster: Cluster, colocation: Colocation, pods: Pods):
    pods.run(hog("protected"), ONLINE)
    with budget(cluster, "protected"), deployed(cluster, hog("batch", priority="100")) as evicted:
        cluster.wait(lambda: holds(pods, "protected") and holds(pods, evicted), "the memory of both hogs")
        began_s = time.time()
        colocation.configure("pressure: {evict: true, memory: {up: 1}}")
        with kubepods_limit() as limit:

            def is_ordered() -> bool:
                limit.write_text(str(limit_that_leaves(LEFT)))
                return bool(outcomes(colocation, evicted))

            cluster.wait(is_ordered, "the order for the pod that may go")
            cluster.wait(lambda: not cluster.get("pod", evicted), "the end of the evicted pod")
        refused = ["memory_short", "budget"]  # and again half a minute later, if the other pod still runs
        cluster.becomes(lambda: outcomes(colocation, "protected")[:2], refused, "the refusal of the budget")
        cluster.becomes(lambda: outcomes(colocation, evicted), ["memory_short", "accepted"], "the result")
        successor = cluster.wait(lambda: copies(cluster, "batch"), "a successor")[0]["metadata"]["name"]
        cluster.wait(lambda: waits_for_an_open_node(cluster.get("pod", successor)), "a closed node")
        opens_s = shorten_cool_down(cluster, colocation, began_s)
        cluster.wait(lambda: pods.is_running(successor), "the pod that waited for the cool-down's end")
        assert seconds(scheduled(cluster.get("pod", successor))["lastTransitionTime"]) >= int(opens_s)
        assert pods.is_running("protected")
        assert pods.is_running("online")


def shorten_cool_down(cluster: Cluster, colocation: Colocation, began_s: float) -> float:
    """Let the cool-down end in COOLS_S and restart the daemon; return the end, seconds since 1970.

    began_s: a time before the eviction. The kept end, the file's first word, is a whole cool-down after a time since
        then, by its second.
    """
    kept = cluster.folder / "at/var/lib/nri-coloc" / cool_down.NAME
    end, *clocks = kept.read_text().split()
    assert began_s - 1 <= float(end) - COOL_S <= time.time() + 1
    ends_s = time.time() + COOLS_S
    text = " ".join([f"{ends_s:.0f}", *clocks])
    kept.write_text(text)
    colocation.product.kill()
    kept.write_text(text)  # again, if the killed process wrote last
    return ends_s


def test_a_closing_window_evicts_after_a_notice(cluster: Cluster, colocation: Colocation, pods: Pods):
    pods.run(reclaimed("windowed"), ONLINE)
    closes_s = (time.time() + AHEAD_S) // 60 * 60 + 60
    opens_s = closes_s + 60
    colocation.configure(windows(closes_s, opens_s))
    cluster.wait(lambda: OPEN not in colocation.allocatable(), "a closed node")
    pods.create(reclaimed("next-window"))
    cluster.wait(lambda: waits_for_an_open_node(cluster.get("pod", "next-window")), "a closed node's refusal")
    notice_s = cluster.wait(lambda: evict_at_s(cluster.get("pod", "windowed")), "a notice")
    assert notice_s >= closes_s + NOTICE_S["schedule"] - 1
    assert closed_first(colocation)
    cluster.wait(lambda: not cluster.get("pod", "windowed"), "the end of the pod")
    assert first_s(cluster, colocation, EventReason.EVICTION_ORDERED) < notice_s
    assert first_s(cluster, colocation, SIGTERM) >= notice_s
    cluster.wait(lambda: pods.is_running("next-window"), "the pod that waited for the next window")
    assert seconds(scheduled(cluster.get("pod", "next-window"))["lastTransitionTime"]) >= opens_s
    assert pods.is_running("online")


def closed_first(colocation: Colocation) -> bool:
    """Return whether the node was closed while its pods still had all that is lent, by the daemon's own records."""
    states = [record["inputs"] for record in colocation.product.audit(event="schedule.state")]
    return (1, 0) in [(each["factor"], each["offer"]) for each in states]


def first_s(cluster: Cluster, colocation: Colocation, reason: str) -> float:
    """Wait for an Event on the pod, which may come after the pod's end; return its first time, since 1970."""
    found = cluster.wait(lambda: colocation.event("windowed", reason), f"the Event {reason}")
    return seconds(found["firstTimestamp"])


def windows(closes_s: float, opens_s: float) -> str:
    """Return a schedule with a window that closes and one that opens; the node is closed between them."""
    ends = [(closes_s - 600, closes_s), (opens_s, opens_s + 3600)]
    found = [f'{{from: "{_clock(begin_s)}", to: "{_clock(end_s)}"}}' for begin_s, end_s in ends]
    return f"schedule: {{windows: [{', '.join(found)}], outside: 0, grace: 30s}}"


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M")
