"""Compute the effective requests of pods, and the floor below which a node's report must not fall.

The formula is Kubernetes' (staging/src/k8s.io/component-helpers/resource/helpers.go, PodRequests, of 1.34 and 1.35),
for each resource by itself:

    running = Σ containers + Σ sidecars
    starting = max over init containers i that end: request(i) + Σ sidecars before i
    effective = max(running, starting) + overhead

A pod-level request of CPU or memory replaces the maximum. During an in-place resize a container or sidecar counts with
the largest of the requests in spec, in `allocatedResources` and in `resources` of its status; without the spec if the
resize is infeasible. Each request is rounded up to a whole unit, so the result is never below Kubernetes' own. (Its
main branch takes the largest of three sums: at most this sum of the largest.) Not read: an in-place resize of pod-level
resources (alpha in 1.35), and requests that come from resource claims.

A pod counts from its binding until its phase is Succeeded or Failed; the scheduler's selector is the same
(pkg/scheduler/scheduler.go, NewInformerFactory). So a terminating pod counts.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from nri_coloc.kubernetes import objects
from nri_coloc.kubernetes.presets import OPEN, Amounts, Preset
from nri_coloc.pods import quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"

_OF_PODS: Final = frozenset({CPU, MEMORY})
"""Resources that pod-level requests replace; huge pages too, but they are not read here."""

_PHASES_ENDED: Final = ("Succeeded", "Failed")
_LONGEST_PHASE: Final = 63
_LONGEST_TIME: Final = 64

_Names = Mapping[str, Any]
_Of = Callable[[_Names], int]


class Demand(NamedTuple):
    """The demand of one pod on the lent amounts.

    amounts: effective requests.
    gate: effective request of the gate resource.
    is_admitted: the kubelet has accepted the pod.
    is_readable: False if the requests could not be read; the amounts are then 0.
    """

    amounts: Amounts = Amounts()
    gate: int = 0
    is_admitted: bool = False
    is_readable: bool = True


class Floor(NamedTuple):
    """The sums of effective requests of a node's pods that have not ended.

    admitted: of the pods that the kubelet has accepted. A report below it would have them rejected at a restart of the
        kubelet.
    bound: of all pods, ≥ `admitted`.
    gate: of the gate resource, of all pods.
    unreadable: number of pods that are missing in the sums.
    demands: of each pod.
    most: the largest request of each resource. If it fits, no pod has to be looked at.
    """

    admitted: Amounts = Amounts()
    bound: Amounts = Amounts()
    gate: int = 0
    unreadable: int = 0
    demands: tuple[Demand, ...] = ()
    most: Demand = Demand()


class Size(NamedTuple):
    """The most that a node can report.

    amounts: CPUs and memory of the whole node.
    max_pods: number of pods that it may have.
    """

    amounts: Amounts
    max_pods: int


# --- pods -----------------------------------------------------------------------------------------------


def selector(node: str) -> str:
    """Return the field selector of the pods of a node that have not ended."""
    return ",".join((f"spec.nodeName={node}", *(f"status.phase!={each}" for each in _PHASES_ENDED)))


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has ended: all its containers have, and it never runs again."""
    return objects.text(objects.child(pod, "status"), "phase", _LONGEST_PHASE) in _PHASES_ENDED


def is_bound(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has a node."""
    return bool(objects.text(objects.child(pod, "spec"), "nodeName", 253))


def _is_admitted(pod: Mapping[str, Any]) -> bool:
    """Return whether the kubelet has accepted a pod that has not ended.

    The kubelet writes `startTime` with its first status (pkg/kubelet/status/status_manager.go, updateStatusInternal).
    A rejected pod has it too, and has ended: its phase is Failed. The API server drops a status that a pod is created
    with.
    """
    return bool(objects.text(objects.child(pod, "status"), "startTime", _LONGEST_TIME))


def demand(pod: Mapping[str, Any], preset: Preset) -> Demand | None:
    """Return the demand of a pod; None if it does not count on any node."""
    try:
        if has_ended(pod) or not is_bound(pod):
            return None
        amounts = Amounts(effective(pod, preset.cpu), effective(pod, preset.memory))
        return Demand(amounts, effective(pod, OPEN), _is_admitted(pod))
    except ValueError:
        return Demand(is_readable=False)


def floor(demands: Iterable[Demand]) -> Floor:
    """Return the floor of a node from the demands of its pods."""
    known = list(demands)
    return Floor(
        admitted=_total(each.amounts for each in known if each.is_admitted),
        bound=_total(each.amounts for each in known),
        gate=min(quantity.LARGEST, sum(each.gate for each in known)),
        unreadable=sum(not each.is_readable for each in known),
        demands=tuple(known),
        most=_most(known),
    )


def _most(demands: list[Demand]) -> Demand:
    cpu = max((each.amounts.cpu_milli for each in demands), default=0)
    memory = max((each.amounts.memory_bytes for each in demands), default=0)
    return Demand(Amounts(cpu, memory), max((each.gate for each in demands), default=0))


def carried(of_node: Floor, size: Size, reported: Amounts | None) -> Floor:
    """Return the floor of the pods whose requests a report can carry.

    One pod must not decide the report of its node. A pod that requests more than the whole node is left out: no report
    can cover it. So is a pod that the kubelet has not accepted and that requests more than is
    reported. An unreadable pod counts as 0.

    reported: amounts of the last report, None for none.
    """
    within = size.amounts if reported is None else Amounts(*map(min, size.amounts, reported))
    if _fits(of_node.most, Size(within, size.max_pods)):
        return of_node
    kept = [
        each
        for each in of_node.demands
        if _fits(each, size if each.is_admitted else Size(within, size.max_pods))
    ]
    return of_node if len(kept) == len(of_node.demands) else floor(kept)


def left_out(of_node: Floor, size: Size) -> int:
    """Return the number of pods that are left out of every report: unreadable, or larger than the node."""
    if _fits(of_node.most, size):
        return of_node.unreadable
    return sum(not (each.is_readable and _fits(each, size)) for each in of_node.demands)


def _fits(demand: Demand, size: Size) -> bool:
    amounts = zip(demand.amounts, size.amounts, strict=True)
    return demand.gate <= size.max_pods and all(one <= most for one, most in amounts)


def _total(amounts: Iterable[Amounts]) -> Amounts:
    known = list(amounts)
    cpu, memory = sum(each.cpu_milli for each in known), sum(each.memory_bytes for each in known)
    return Amounts(min(quantity.LARGEST, cpu), min(quantity.LARGEST, memory))


# --- effective requests ---------------------------------------------------------------------------------


def effective(pod: Mapping[str, Any], name: str) -> int:
    """Return the effective request of a resource: milli-CPU for `cpu`, else whole units.

    Raise ValueError if the pod or a quantity cannot be read.
    """
    spec = objects.child(pod, "spec")
    of_pod = objects.child(spec, "resources", "requests")
    if name in _OF_PODS and name in of_pod:
        total = _amount(of_pod, name)
    else:
        total = _of_containers(spec, _reader(pod, name), name)
    return min(quantity.LARGEST, total + _amount(objects.child(spec, "overhead"), name))


def of_container(container: Mapping[str, Any], name: str) -> int:
    """Return the request of a container's spec, in the units of `effective`."""
    return _amount(objects.child(container, "resources", "requests"), name)


def is_sidecar(init_container: Mapping[str, Any]) -> bool:
    """Return whether an init container keeps running beside the containers of its pod."""
    return objects.text(init_container, "restartPolicy", _LONGEST_PHASE) == "Always"


def _of_containers(spec: Mapping[str, Any], request_of: _Of, name: str) -> int:
    running = sum(request_of(each) for each in objects.children(spec, "containers"))
    starting = sidecars = 0
    for each in objects.children(spec, "initContainers"):
        if is_sidecar(each):
            sidecars += request_of(each)
        else:
            starting = max(starting, sidecars + of_container(each, name))
    return max(running + sidecars, starting)


def _reader(pod: Mapping[str, Any], name: str) -> _Of:
    """Return a function that returns the request of a container or sidecar, from its spec and its status."""
    status = objects.child(pod, "status")
    states = {
        objects.text(each, "name", 63): each
        for key in ("containerStatuses", "initContainerStatuses")
        for each in objects.children(status, key)
    }
    infeasible = _is_infeasible(status)

    def request(container: Mapping[str, Any]) -> int:
        state = states.get(objects.text(container, "name", 63))
        own = of_container(container, name)
        if state is None:
            return own
        known = (of_container(state, name), _amount(objects.child(state, "allocatedResources"), name))
        return max(known) if infeasible else max(own, *known)

    return request


def _is_infeasible(status: Mapping[str, Any]) -> bool:
    """Return whether the node can never carry out the pod's in-place resize."""
    return any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in objects.children(status, "conditions")
    )


def _amount(quantities: Mapping[str, Any], name: str) -> int:
    if quantities.get(name) is None:
        return 0
    try:
        return objects.amount(quantities[name], quantity.thousandths if name == CPU else quantity.whole_bytes)
    except quantity.TooLargeError:
        return quantity.LARGEST  # the API server accepts 12E; no node has that much
