"""Estimate a pod's use from the history of its workload: one function for each estimator, chosen by name.

An estimator gets the evidence about one pod and one resource. It returns an amount in that resource's unit (milli-CPU
or bytes), or None if its kind of evidence is missing; the caller then uses `cold`. To add an estimator, write the
function and name it in the table. `forecast.expectations.estimator` selects it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from nri_coloc.forecast import histogram, hours
from nri_coloc.forecast.histogram import Histogram, Scale
from nri_coloc.forecast.hours import Hours


class Evidence(NamedTuple):
    """All knowledge about one pod's use of one resource.

    uses, hours: the history of its workload.
    scale: buckets of `uses`.
    part: the percentile to return, 0 to 1.
    margin: the part of a measured peak that is added to it.
    now_s: seconds since 1970.
    request: the pod's request, 0 for unknown.
    latest: the last measurement of this pod, None before the first.
    """

    uses: Histogram
    scale: Scale
    hours: Hours
    part: float
    margin: float
    now_s: float
    request: int = 0
    latest: int | None = None


Estimator = Callable[[Evidence], int | None]


def percentile(evidence: Evidence) -> int | None:
    """Return the percentile of the fading histogram and a margin (Koordinator: p95 of CPU, p98 of memory, and 10 %)."""
    return _with_margin(histogram.percentile(evidence.uses, evidence.scale, evidence.part), evidence)


def peak(evidence: Evidence) -> int | None:
    """Return the highest use that has not faded away, and a margin."""
    return _with_margin(histogram.percentile(evidence.uses, evidence.scale, 1.0), evidence)


def request(evidence: Evidence) -> int | None:
    """Return the pod's request, and never less than its use (Koordinator's policy maxUsageRequest)."""
    return max(evidence.request, peak(evidence) or 0) if evidence.request else None


def yesterday(evidence: Evidence) -> int | None:
    """Return the peak of the same hour yesterday, and a margin: for the time when readings fail."""
    return _with_margin(hours.yesterday(evidence.hours, evidence.now_s), evidence)


def cold(evidence: Evidence) -> int:
    """Return the request or the highest use of the workload so far, whichever is more; never None."""
    return max(evidence.request, peak(evidence) or 0, evidence.latest or 0)


ESTIMATORS: Final[Mapping[str, Estimator]] = MappingProxyType(
    {each.__name__: each for each in (percentile, peak, request, yesterday, cold)}
)


def _with_margin(amount: int | None, evidence: Evidence) -> int | None:
    return None if amount is None else round(amount * (1.0 + evidence.margin))
