"""The CPU request of a container, from the shares that the kubelet wrote.

NRI carries no requests. A quota never stands for one: a tenant sets a limit without any cost.
"""

from nri_coloc.core.state import Asked
from nri_coloc.core.value import value
from nri_coloc.core.workload import DEFAULT_WISH, Container, Resources, Wish
from nri_coloc.placing import record


@value
class Request:
    """The CPU request of a container.

    milli: thousandths of a CPU, 0 for no request.
    is_lowered: an annotation made it less than the kubelet's.
    """

    milli: int
    is_lowered: bool = False

    @property
    def whole(self) -> int:
        """CPUs to own: the request rounded up; 0 below one CPU."""
        return -(-self.milli // 1000) if self.milli >= 1000 else 0


def of(resources: Resources) -> Request:
    """Return the request that the shares express."""
    return Request(resources.cpu_request)


def of_container(container: Container, wish: Wish = DEFAULT_WISH) -> Request:
    """Return the request by the kubelet's shares, even if the spec holds ours; an annotation only lowers it."""
    own = of(record.before_us(container).resources)
    if 0 < wish.cpu_milli < own.milli:
        return Request(wish.cpu_milli, is_lowered=True)
    return own


def part_of(pod: int | None, own: Asked, all_of_pod: Asked) -> int:
    """Return the part of a pod's request that some of its containers count for, thousandths of a CPU.

    All parts together are at most the pod's request. Containers without any request of their own share the pod's.

    pod: the pod's request, thousandths of a CPU; None if it is unknown.
    """
    if pod is None or 0 < all_of_pod.milli <= pod:
        return own.milli
    if all_of_pod.milli:
        return pod * own.milli // all_of_pod.milli
    return pod * own.members // all_of_pod.members
