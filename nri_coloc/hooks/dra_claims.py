"""Judge the CPUs that the DRA CPU driver gave a container, when its wish is read.

A claim counts if it is accepted at the container's creation (`placing.driver`), and as long as the container's request
covers it: an in-place resize to a smaller request ends it for good. A claim that does not count is a finding.
"""

from collections.abc import Iterable

from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import Assignment, NodeState
from nri_coloc.core.value import replace
from nri_coloc.core.workload import KEPT_BY_DRA, Container, Finding, FindingKind, QoSClass, Wish
from nri_coloc.nri import codec
from nri_coloc.placing import driver
from nri_coloc.placing.driver import Created
from nri_coloc.pods import keys


def judged(
    wish: Wish,
    container: Container,
    state: NodeState,
    tuning: Tuning,
    owners: Iterable[Created],
    *,
    is_created: bool,
) -> Wish:
    """Return the wish of a container that stays on the driver's CPUs, or with the reason why its claims do not count.

    owners: the listed containers that owned CPUs at their creation.
    is_created: the container is being created, so that the state knows none of its id.
    """
    known = None if is_created else state.containers.get(container.id)
    if known is not None:
        return _of_known(wish, container, known, state, tuning)
    if not (container.claimed and driver.claimed(container)):
        return wish
    allowed, is_short = driver.refusal(state, container, wish, tuning, owners, is_created=is_created)
    return (
        _denied(wish, container, allowed, is_short=is_short) if allowed else _driven(wish, container.claimed)
    )


def _of_known(wish: Wish, container: Container, known: Assignment, state: NodeState, tuning: Tuning) -> Wish:
    """Judge the claims of a known container by its present request; claims that were denied stay denied."""
    if not (KEPT_BY_DRA in known.wish.preserve and tuning.dra_driver):
        told = tuple(each for each in known.wish.findings if each.key.startswith(codec.CLAIM_PREFIX))
        return replace(wish, findings=wish.findings + told) if told else wish
    allowed = driver.beyond_request(state, container, wish, tuning)
    return _denied(wish, container, allowed, is_short=True) if allowed else _driven(wish, known.exclusive)


def _denied(wish: Wish, container: Container, allowed: str, *, is_short: bool) -> Wish:
    name, _, value = container.claims.partition("=")
    finding = Finding(FindingKind.DENIED, keys.shown(name), keys.shown(value), allowed, f"class {wish.qos}")
    return replace(wish, findings=(*wish.findings, finding), short=wish.short or is_short, plain=False)


def _driven(wish: Wish, cpus: CPUMask) -> Wish:
    """Return the wish of a container with CPUs of the driver.

    It owns them, even if its pod's class orders otherwise.
    """
    because = f"the DRA CPU driver has pinned it to CPUs {cpuset.render(cpus)}"
    keep = wish.preserve | {"cpu", KEPT_BY_DRA}
    return replace(wish, qos=QoSClass.DEDICATED, because=because, preserve=keep, knobs=wish.annotated)
