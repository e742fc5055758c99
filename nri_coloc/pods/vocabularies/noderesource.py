"""nri-plugins' `noderesource.dev/resources`: the pod's own requests and limits, copied by a webhook.

The annotation is unprivileged input: its CPU request can only lower the request that follows from the kubelet's
shares. It is the only source of the names of init containers. It also has extended resources, which the kubelet does
not apply. So the plugin learns amounts that a scheduler lent without an annotation (Katalyst's, Volcano's).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from nri_coloc.core.knobs import MAX_SHARES
from nri_coloc.core.workload import FindingKind
from nri_coloc.pods import quantity
from nri_coloc.pods.gate import Subject, UnfitError
from nri_coloc.pods.vocabularies import lent
from nri_coloc.pods.vocabularies.claims import CPU_REQUEST, INIT, Claims, Handling, Meaning, child

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

_HIDDEN_MILLI: Final = 2
"""Thousandths of a CPU: up to this request the kubelet writes the same shares as for no request."""


def read(annotations: Mapping[str, str], _labels: Mapping[str, str], container: str, claims: Claims) -> None:
    """Add the claims of the annotation about one container."""
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
    """Return a CPU request below the kubelet's, None if it is equal; raise UnfitError if it is higher.

    The kubelet's request is read from its CPU shares. Shares do not show requests of 1 and 2 thousandths and requests
    above 256 CPUs: there an annotation with a higher request has no effect.
    """
    own = subject.resources.cpu_request
    is_hidden = (subject.resources.shares or 0) >= MAX_SHARES or milli <= _HIDDEN_MILLI
    if milli > own and not is_hidden:
        allowed = f"at most the container's own CPU request, which by the kubelet's shares is {own}m"
        raise UnfitError(FindingKind.DENIED, allowed)
    return milli if milli < own else None


def _milli(text: str) -> int | None:
    return quantity.thousandths(text) or None


_CPU: Final = Meaning(CPU_REQUEST, _milli, "an amount of CPUs such as 1500m or 2", _within_own, numbers=True)

_INIT: Final = Meaning(
    INIT, lambda _text: True, "the name of an init container", lambda value, _subject: value
)
"""No check is needed: an author who lists an ordinary container here only gives up that container's owned CPUs."""
