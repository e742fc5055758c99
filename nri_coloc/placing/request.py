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
    source: the figure from which it was read.
    is_lowered: an annotation made it less than the kubelet's.
    """

    milli: int
    source: str
    is_lowered: bool = False

    @property
    def whole(self) -> int:
        """CPUs to own: the request rounded up; 0 below one CPU."""
        return -(-self.milli // 1000) if self.milli >= 1000 else 0

    @property
    def words(self) -> str:
        """The request and its rounding, for the audit."""
        if not self.milli:
            return f"asked for no amount of CPU ({self.source})"
        asked = f"asked {self.milli / 1000:g} CPUs"
        return (
            asked
            if self.milli == self.whole * 1000 or not self.whole
            else f"{asked}, rounded up to {self.whole}"
        )


def of(resources: Resources) -> Request:
    """Return the request that the shares express."""
    milli = resources.cpu_request
    return Request(milli, f"cpu shares {resources.shares}" if milli else "no cpu shares")


def of_container(container: Container, wish: Wish = DEFAULT_WISH) -> Request:
    """Return the request by the kubelet's shares, even if the spec holds ours; an annotation only lowers it."""
    own = of(record.before_us(container).resources)
    if 0 < wish.cpu_milli < own.milli:
        return Request(wish.cpu_milli, "lowered by an annotation", is_lowered=True)
    return own
