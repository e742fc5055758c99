"""Read amounts that were lent to a reclaimed container, from the extended resources that schedulers count.

Kubernetes has no fractions of an extended resource, so CPUs are lent in whole thousandths and memory in bytes. `200m`
or `8` for CPUs, or `512` for memory, is therefore a mistake. Such amounts are refused with a hint, because with them a
container could never start. Amounts count for reclaimed containers only. If the kubelet set a value, it stays.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import LEAST_MEMORY, MAX_SHARES, MIN_SHARES
from nri_coloc.core.workload import FindingKind, QoSClass
from nri_coloc.pods import gate, keys, quantity
from nri_coloc.pods.vocabularies.claims import LENT_QUOTA, LENT_SHARES, Claims, Meaning


class Lender(NamedTuple):
    """Names of a lender's extended resources in a pod's spec."""

    cpu: str
    memory: str


BATCH: Final = Lender("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
"""Koordinator's and Volcano's."""

RECLAIMED: Final = Lender(
    "resource.katalyst.kubewharf.io/reclaimed_millicpu", "resource.katalyst.kubewharf.io/reclaimed_memory"
)
"""Katalyst's."""

_MOST_MILLI: Final = (cpuset.MAX_CPU_ID + 1) * 1000
_LEAST_QUOTA_MILLI: Final = 10
"""The kernel's smallest quota is 1 ms (min_cfs_quota_period), a hundredth of our period of 100 ms."""

_MOST_SHARES: Final = 1024
"""Shares of one CPU: an unconfirmed amount may limit a container, but gives no more weight."""


def take(
    claims: Claims, name: str, requests: Mapping[str, Any], limits: Mapping[str, Any], lender: Lender
) -> None:
    """Add the claims of a lender's resources in `requests` and `limits`; `name` is their annotation.

    If a request is missing, the limit is used, as for every extended resource of Kubernetes.
    """
    cpu, memory = lender
    limit = f"{name}[limits][{cpu}]"
    good = cpu in limits and claims.take(_QUOTA, limit, limits[cpu])
    if cpu in requests:
        claims.take(_SHARES, f"{name}[requests][{cpu}]", requests[cpu])
    elif good:
        claims.take(_SHARES, limit, limits[cpu])
    if memory in limits:
        claims.take(_MEMORY, f"{name}[limits][{memory}]", limits[memory])


# --- values ---------------------------------------------------------------------------------------------


def _milli(text: str) -> int:
    """Return thousandths of a CPU. "200m" would be 0.2 thousandths, which no author means."""
    if text.endswith(("m", "u", "n")) or "." in text:
        raise _misread_milli(text.rstrip("mun") if text.endswith("m") else "")
    milli = quantity.whole_bytes(text)
    if milli > _MOST_MILLI:
        raise ValueError(f"more than {_MOST_MILLI}")
    return milli


def _shares(text: str) -> int | None:
    milli = _milli(text)
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES) if milli else None


def _quota(text: str) -> int | None:
    milli = _milli(text)
    if 0 < milli < _LEAST_QUOTA_MILLI:
        raise _misread_milli(str(milli * 1000))
    return milli * 100 or None


def _misread_milli(meant: str) -> gate.UnfitError:
    hint = f": did you mean {meant}?" if meant.isdigit() and meant.isascii() else ""
    allowed = f"a whole number of millicores such as 2000 (2 CPUs), without m, a limit from 10 on{hint}"
    return gate.UnfitError(FindingKind.INVALID, allowed)


def _bytes(text: str) -> quantity.Amount | None:
    """Return bytes. "512m" is half a byte and "512" half a kilobyte; authors of both mean mebibytes."""
    found = quantity.whole_bytes(text)
    if found >= LEAST_MEMORY or not found:
        return quantity.Amount(bytes=found) if found else None
    number = text.rstrip("mun")
    hint = f": did you mean {number}Mi?" if number.isdigit() and number.isascii() else ""
    allowed = f"an amount of bytes such as 512Mi, from {LEAST_MEMORY >> 20}Mi on; m means thousandths{hint}"
    raise gate.UnfitError(FindingKind.INVALID, allowed)


# --- rights -----------------------------------------------------------------------------------------------


def _if_lent_shares(value: int, subject: gate.Subject) -> int | None:
    own = subject.resources.shares or 0
    return min(value, _MOST_SHARES) if subject.qos is QoSClass.RECLAIMED and own <= MIN_SHARES else None


def _if_lent_quota(value: int, subject: gate.Subject) -> int | None:
    """Return the quota for a reclaimed container without one. A pod's own quota limits it (v1 refuses a larger one)."""
    of_pod = subject.pod.resources.quota if subject.pod.resources is not None else None
    limited = any((quota or 0) > 0 for quota in (subject.resources.quota, of_pod))
    return value if subject.qos is QoSClass.RECLAIMED and not limited else None


def _if_lent_memory(value: quantity.Amount, subject: gate.Subject) -> Any:
    if subject.qos is not QoSClass.RECLAIMED or subject.limit:
        return None
    return keys.judge("memory-limit", value, subject)


_CORES: Final = "a whole number of millicores such as 2000 (2 CPUs)"
_SHARES: Final = Meaning(LENT_SHARES, _shares, _CORES, _if_lent_shares, numbers=True)
_QUOTA: Final = Meaning(LENT_QUOTA, _quota, _CORES, _if_lent_quota, numbers=True)
_MEMORY: Final = Meaning("memory-limit", _bytes, quantity.QUANTITY_ALLOWED, _if_lent_memory, numbers=True)
