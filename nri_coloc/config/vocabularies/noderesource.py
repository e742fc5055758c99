"""nri-plugins' `noderesource.dev/resources`: the pod's own requests and limits, put beside it by a webhook.

The runtime is told no request, only what the kubelet makes of it, so this is the true figure where shares cannot
say it: beyond 256 CPUs, and for very small ones. It is an annotation all the same, which anybody may write: more than
the kubelet's values say is denied. And nobody writes it again after an in-place resize: less than the shares
say is what the container asked for once. Extended resources, of which the kubelet makes nothing at all, are in it
too: so a plugin gets to know what was lent by a scheduler that leaves no annotation of its own (Katalyst's,
Volcano's).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from nri_coloc.config import quantity
from nri_coloc.config.gate import Subject, UnfitError
from nri_coloc.config.vocabularies import lent
from nri_coloc.config.vocabularies.claims import CPU_REQUEST, INIT, Claims, Handling, Meaning, child
from nri_coloc.model.knobs import MAX_SHARES, MIN_SHARES
from nri_coloc.model.workload import FindingKind, Resources

_RESOURCES: Final = "noderesource.dev/resources"
_EXAMPLE: Final = '{"containers": {"<container>": {"requests": {"cpu": "1500m"}}}}'

ANNOTATIONS: Final = (_RESOURCES,)
LABELS: Final = ()

KEYS: Final[Mapping[str, Handling]] = MappingProxyType(
    {
        f"{_RESOURCES}[containers][requests][cpu]": Handling.HONOURED,
        f"{_RESOURCES}[initContainers][requests][cpu]": Handling.HONOURED,
        f"{_RESOURCES}[initContainers]": Handling.HONOURED,
        f"{_RESOURCES}[containers][requests][memory]": Handling.IGNORED,
        f"{_RESOURCES}[containers][limits][cpu, memory]": Handling.IGNORED,
        f"{_RESOURCES}[containers][requests][{lent.BATCH.cpu}]": Handling.HONOURED,
        f"{_RESOURCES}[containers][limits][{lent.BATCH.cpu}]": Handling.HONOURED,
        f"{_RESOURCES}[containers][limits][{lent.BATCH.memory}]": Handling.HONOURED,
        f"{_RESOURCES}[containers][requests][{lent.RECLAIMED.cpu}]": Handling.HONOURED,
        f"{_RESOURCES}[containers][limits][{lent.RECLAIMED.cpu}]": Handling.HONOURED,
        f"{_RESOURCES}[containers][limits][{lent.RECLAIMED.memory}]": Handling.HONOURED,
    }
)

_SHARES_PER_CPU: Final = 1024
_HIDDEN_MILLI: Final = 2
"""Thousandths of a CPU that a container may have asked for and still have the least shares."""

_DEFAULT_PERIOD_US: Final = 100_000


def read(annotations: Mapping[str, str], _labels: Mapping[str, str], container: str, claims: Claims) -> None:
    """Make a claim of what the annotation says about one container."""
    text = annotations.get(_RESOURCES)
    if text is None:
        return
    found = claims.json_of(_RESOURCES, text, _EXAMPLE)
    try:
        where, own = _own(found, container)
        requests, limits = child(own, "requests"), child(own, "limits")
        is_init = container in child(found, "initContainers") and container not in child(found, "containers")
    except ValueError:
        claims.refuse(_RESOURCES, text, _EXAMPLE)
        return
    if is_init:
        claims.take(_INIT, f"{_RESOURCES}[initContainers][{container}]", "")
    name = f"{_RESOURCES}[{where}][{container}]"
    if "cpu" in requests:
        claims.take(_CPU, f"{name}[requests][cpu]", requests["cpu"])
    for lender in (lent.RECLAIMED, lent.BATCH):
        lent.take(claims, name, requests, limits, lender)


def _own(found: Mapping[str, Any], container: str) -> tuple[str, dict[str, Any]]:
    for where in ("containers", "initContainers"):
        own = child(child(found, where), container)
        if own:
            return where, own
    return "", {}


def _within_own(milli: int, subject: Subject) -> int | None:
    """Return what is told where the kubelet's shares cannot say it; elsewhere those are newer, after a resize."""
    most = _told_by_kubelet(subject.resources)
    if milli > most:
        raise UnfitError(
            FindingKind.DENIED,
            f"at most the container's own CPU request, which by the kubelet's values is {most}m",
        )
    said_by_shares = MIN_SHARES < (subject.resources.shares or 0) < MAX_SHARES
    return None if said_by_shares and milli < most else milli


def _told_by_kubelet(resources: Resources) -> int:
    """Return the request in thousandths of a CPU; rounded up, since the kubelet rounds shares down."""
    shares, quota = resources.shares or 0, resources.quota or 0
    period = resources.period or _DEFAULT_PERIOD_US
    limit = -(-quota * 1000 // period) if quota > 0 else 0
    if shares >= MAX_SHARES and limit:
        return limit
    if shares > MIN_SHARES:
        return -(-min(shares, MAX_SHARES) * 1000 // _SHARES_PER_CPU)
    return limit or _HIDDEN_MILLI


def _milli(text: str) -> int | None:
    return quantity.thousandths(text) or None


_CPU: Final = Meaning(CPU_REQUEST, _milli, "an amount of CPUs such as 1500m or 2", _within_own, numbers=True)

_INIT: Final = Meaning(
    INIT, lambda _text: True, "the name of an init container", lambda value, _subject: value
)
"""Whoever says it of a container that is none only gives up CPUs of its own."""
