"""The quota of a degraded container, as `pressure` decides it and the owner of all quotas writes it."""

from typing import NamedTuple

from nri_coloc.core.decisions import Inputs
from nri_coloc.core.reasons import AuditEvent, Reason


class LoweredQuota(NamedTuple):
    """The quota that a container is lowered to.

    quota: µs; None to restore the original value.
    own: the container's own quota that this was computed from, µs; 0 for none.
    event, reason, because, inputs: the record of the write.
    """

    quota: int | None
    own: int
    event: AuditEvent
    reason: Reason
    because: str
    inputs: Inputs
