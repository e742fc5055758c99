"""The CPU request of a container, from the shares that the kubelet wrote.

NRI carries no requests. A quota never stands for one: a tenant sets a limit without any cost.
"""

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
