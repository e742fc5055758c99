"""Facts about pods that the node cannot know by itself: the API server has them, and the companion reports them.

The companion is not trusted. A reader may tighten a gate by a fact, and may loosen one only up to the amount that the
node itself proves (docs/security.md). Priority, owner, deletion and lent amounts order reclaimed pods among each other.
Priority also orders the online containers that are degraded.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.core.workload import Pod


class Kind(StrEnum):
    """The kind of a container."""

    MAIN = "main"
    SIDECAR = "sidecar"
    INIT = "init"


class Lent(NamedTuple):
    """Lent amounts of one container, as its spec has them. 0: none.

    cpu_milli, memory_bytes: requests.
    cpu_limit_milli, memory_limit_bytes: limits.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    cpu_limit_milli: int = 0
    memory_limit_bytes: int = 0


NO_LENT: Final = Lent()


class ContainerFacts(NamedTuple):
    """One container.

    cpu_milli, memory_bytes: its own native requests; 0 for none.
    """

    name: str
    kind: Kind
    cpu_milli: int
    memory_bytes: int
    lent: Lent


class Owner(NamedTuple):
    """The controller of a pod, such as a ReplicaSet; empty texts for none."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Facts(NamedTuple):
    """One pod of this node.

    cpu_milli, memory_bytes: effective native requests, overhead included.
    priority: the number that the API server resolved from the priority class.
    killed_at: monotonic seconds at which the kubelet kills its containers at the latest; None while nothing deletes it.
    """

    uid: str
    namespace: str
    name: str
    owner: Owner
    priority: int
    cpu_milli: int
    memory_bytes: int
    containers: tuple[ContainerFacts, ...] = ()
    killed_at: float | None = None


class PodFacts:
    """The facts of all pods that the companion has reported. Immutable."""

    __slots__ = ("_by_uid",)

    def __init__(self, by_uid: Mapping[str, Facts]) -> None:
        self._by_uid = MappingProxyType(dict(by_uid))

    def __len__(self) -> int:
        return len(self._by_uid)

    def of(self, pod: Pod) -> Facts | None:
        """Return the facts about a pod of the runtime; None without facts for its UID, namespace and name."""
        found = self._by_uid.get(pod.uid)
        if found is None or (found.namespace, found.name) != (pod.namespace, pod.name):
            return None
        return found

    def lent(self, pod: Pod, container: str) -> Lent | None:
        """Return the lent amounts in a container's spec; None without facts about its pod."""
        found = self.of(pod)
        if found is None:
            return None
        return next((each.lent for each in found.containers if each.name == container), NO_LENT)


NO_FACTS: Final = PodFacts({})
