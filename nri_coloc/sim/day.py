"""Script a day on a node: the hours at which pods start and end, and the CPU that they want.

Night: batch pods. Morning: online pods, and one dedicated pod. Noon: a second dedicated pod, with a sidecar; wrong
and forbidden annotations; updates by the kubelet. Evening: the dedicated pods end. The script does not contain the
plugin's reactions.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from nri_coloc.core.workload import KubeQoS, Resources
from nri_coloc.sim.node import Node
from nri_coloc.sim.spec import ContainerRequest, PodRequest, native

HOURS: Final = 24.0
GIB: Final = 1 << 30
CLASS: Final = "coloc.nri.io/qos-class"

Curve = Callable[[float], float]
"""Return the number of CPUs wanted at an hour."""


@dataclass(frozen=True, slots=True)
class Step:
    """An action at an hour of the day."""

    hour: float
    act: Callable[["Day"], None]


class Day:
    """Runs the script on a node; `advance` sets the hour."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.hour = 0.0
        self._left = deque(SCRIPT)

    def advance(self, hour: float) -> None:
        """Run the steps that are due. An earlier hour than before changes nothing."""
        self.hour = max(self.hour, min(hour, HOURS))
        while self._left and self._left[0].hour <= self.hour:
            self._left.popleft().act(self)


@dataclass(frozen=True, slots=True)
class Member:
    """A container of a pod, and the CPU that it wants by hour."""

    request: ContainerRequest
    curve: Curve


def comes(pod: PodRequest, *members: Member) -> Callable[[Day], None]:
    """Return the action that starts a pod with its containers."""

    def act(day: Day) -> None:
        pod_id = day.node.run_pod(pod)
        for member in members:
            day.node.run_container(pod_id, member.request, _by_hour(day, member.curve))

    return act


def goes(name: str) -> Callable[[Day], None]:
    """Return the action that removes a pod."""
    return lambda day: day.node.remove_pod(day.node.pod(name))


def resized(name: str, wanted: Resources) -> Callable[[Day], None]:
    """Return the action in which the kubelet updates a container's resources."""
    return lambda day: day.node.runtime.update(day.node.container(name).id, wanted)


def _by_hour(day: Day, curve: Curve) -> Callable[[float], float]:
    return lambda _seconds: curve(day.hour)


# ---- the pods ----


def _steady(cpus: float) -> Curve:
    return lambda _hour: cpus


def _busy_by_day(cpus: float) -> Curve:
    """Return a curve with a fifth of `cpus` at four in the morning and all of it at four in the afternoon."""
    return lambda hour: cpus * (0.6 - 0.4 * math.cos((hour - 4) / HOURS * 2 * math.pi))


@dataclass(frozen=True, slots=True)
class Ask:
    """The request of a pod with one container.

    request: thousandths of a CPU.
    limit: thousandths of a CPU, None for no limit.
    memory: limit in bytes, None for no limit.
    annotations: of the pod.
    qos: the pod's QoS class.
    """

    request: int = 0
    limit: int | None = None
    memory: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    qos: KubeQoS = KubeQoS.BURSTABLE


def _one(namespace: str, name: str, container: str, ask: Ask, curve: Curve) -> Callable[[Day], None]:
    resources = native(ask.request, ask.limit, ask.memory)
    pod = PodRequest(name, namespace, ask.qos, ask.annotations, shares=resources.shares or 2)
    oom = 1000 if ask.qos is KubeQoS.BEST_EFFORT else 950
    return comes(pod, Member(ContainerRequest(container, resources, oom), curve))


def _batch(name: str) -> Callable[[Day], None]:
    return _one("batch", name, "worker", Ask(qos=KubeQoS.BEST_EFFORT), _steady(4))


def _online(name: str, request: int, annotations: Mapping[str, str] | None = None) -> Callable[[Day], None]:
    ask = Ask(request, 2 * request, GIB, annotations or {})
    return _one("shop", name, "app", ask, _busy_by_day(request / 1000))


_WEB: Final = Ask(1500, 1500, GIB, {CLASS: "dedicated"}, KubeQoS.GUARANTEED)

_LEDGER: Final = PodRequest("ledger", "pay", annotations={CLASS: "dedicated"}, shares=2252)
_LEDGER_MAIN: Final = Member(ContainerRequest("main", native(2000, 2000, 2 * GIB), 900), _busy_by_day(1.8))
_LEDGER_PROXY: Final = Member(ContainerRequest("proxy", native(200, None, GIB // 4), 980), _busy_by_day(0.2))

SCRIPT: Final = (
    # night
    Step(0.3, _one("kube-system", "node-agent", "agent", Ask(100), _steady(0.1))),
    Step(1.0, _batch("etl-1")),
    Step(2.5, _batch("etl-2")),
    # morning
    Step(6.0, _online("cart", 500)),
    Step(7.0, _online("search", 1000)),
    Step(9.0, _one("shop", "web", "app", _WEB, _busy_by_day(1.4))),
    # noon
    Step(11.0, _online("ads", 250, {CLASS: "dedicatd"})),
    Step(12.0, comes(_LEDGER, _LEDGER_MAIN, _LEDGER_PROXY)),
    Step(13.5, resized("shop/cart/app", Resources(shares=1024, quota=200_000))),
    Step(14.5, resized("shop/search/app", Resources(cpus="0"))),
    Step(15.5, _online("greedy", 250, {CLASS: "system"})),
    # evening
    Step(18.0, goes("shop/web")),
    Step(19.0, _batch("etl-3")),
    Step(20.0, goes("pay/ledger")),
    Step(21.0, goes("shop/greedy")),
    Step(22.0, goes("shop/ads")),
    Step(23.0, goes("batch/etl-1")),
)
"""In the order of the hours."""
