"""Events of the node, as the policy takes them: causes, not wire messages.

The daemon translates hooks into these and adds each container's `Wish`, so that the policy sees neither annotations nor
protobuf. Every event may name a pod or container that the state does not know: messages get lost around a registration.
The policy then takes the event's own facts.
"""

from collections.abc import Mapping
from dataclasses import field

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.decisions import Inputs
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.pod_facts import PodFacts
from nri_coloc.core.reasons import Reason
from nri_coloc.core.topology import Topology
from nri_coloc.core.value import value
from nri_coloc.core.workload import Container, Pod, Resources, Wish


@value
class PodStarted:
    """A sandbox runs; its cgroup exists and holds no container yet. `wish` is the pod's own."""

    pod: Pod
    wish: Wish


@value
class PodResized:
    """A pod's CPU request changed.

    wishes: by container id, for its containers that have another class under the new request.
    """

    pod: Pod
    wishes: Mapping[str, Wish] = field(default_factory=dict)


@value
class PodRemoved:
    """A sandbox was stopped or removed; stopping is final for all of its containers."""

    pod_id: str


@value
class ContainerCreating:
    """The runtime asks for a container's adjustment; the container does not exist yet."""

    pod: Pod
    container: Container
    wish: Wish


@value
class ContainerCreated:
    """The runtime has stored a container, which has no cgroup yet. `cpus`: the CPUs that its specification names."""

    pod_id: str
    container_id: str
    cpus: CPUMask


@value
class ContainerStarting:
    """The container's task exists and has not run an instruction: the last safe moment. `running`: it already runs."""

    pod: Pod
    container: Container
    wish: Wish
    running: bool = False


@value
class ContainerUpdating:
    """The kubelet asks for new resources; in `requested`, 0, "" and None mean "keep".

    wish: the container's wish with the new resources.
    judged: wishes by id of the pod's containers that have another class under the new requests.
    answered: False if the runtime already has an answer without our values. Then only files can carry the new values.
    within_pod: the kernel refuses CPUs for a container that its pod does not have (cgroup v1).
    """

    pod: Pod
    container: Container
    wish: Wish
    requested: Resources
    judged: Mapping[str, Wish] = field(default_factory=dict)
    answered: bool = True
    within_pod: bool = False


@value
class ContainerGone:
    """The container's process is dead, or the container was removed. `vanished`: CRI's list showed it, no hook did."""

    container_id: str
    removed: bool = False
    vanished: bool = False


@value
class Synchronized:
    """The runtime's complete list; a container or pod that is not in it is gone."""

    pods: tuple[tuple[Pod, Wish], ...]
    containers: tuple[tuple[Container, Wish], ...]


@value
class Reconfigured:
    """New tuning or a changed machine; wishes by container id and by pod id, read again under the new tuning."""

    topology: Topology
    wishes: Mapping[str, Wish]
    pod_wishes: Mapping[str, Wish]


@value
class PoolsSized:
    """The number of CPUs for each pool, from the lending loop; the policy chooses the CPUs.

    counts: by pool. A pool that is not named has no size of its own.
    because: the figures behind the counts, for the audit.
    reason: set if the counts alone do not show it. By default the policy derives it from them.
    inputs: the figures by name.
    """

    counts: Mapping[str, int]
    because: str
    reason: Reason | None = None
    inputs: Inputs | None = None


@value
class AmountsGranted:
    """Parts of loans changed: by container id, with the changed knobs set.

    because: the figures behind the amounts, for the audit.
    inputs: the figures by name.
    """

    amounts: Mapping[str, Knobs]
    because: str
    inputs: Inputs | None = None


@value
class FactsReported:
    """The companion reported facts about pods; they replace all facts before."""

    facts: PodFacts


@value
class CPUsFreed:
    """CPUs may be free: the policy places the oldest pod again that waits for CPUs and can have them now."""


Event = (
    PodStarted
    | PodResized
    | PodRemoved
    | ContainerCreating
    | ContainerCreated
    | ContainerStarting
    | ContainerUpdating
    | ContainerGone
    | Synchronized
    | Reconfigured
    | PoolsSized
    | AmountsGranted
    | FactsReported
    | CPUsFreed
)
