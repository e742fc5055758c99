"""A quota that the daemon gives to an online container, as the quota burst or degrading decides it.

The owner of all quotas writes it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nri_coloc.core.decisions import Inputs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.report import sentence

_ENDS: Final[Mapping[AuditEvent, tuple[AuditEvent, Reason]]] = {
    AuditEvent.UPDATE: (AuditEvent.UPDATE, Reason.QUOTA_BURST),
    AuditEvent.PRESSURE_DEGRADE: (AuditEvent.PRESSURE_RECOVER, Reason.RECONFIGURED),
}


class ChangedQuota(NamedTuple):
    """The quota of a container, with the record of its write.

    quota: µs; None to restore the original value.
    own: the container's own quota that this was computed from, µs; 0 for none.
    event: UPDATE of the quota burst, PRESSURE_DEGRADE or PRESSURE_RECOVER of degrading.
    reason, because, inputs: the rest of the record.
    """

    quota: int | None
    own: int
    event: AuditEvent
    reason: Reason
    because: str
    inputs: Inputs

    @property
    def is_raise(self) -> bool:
        """Whether the quota burst decided it, and not degrading."""
        return self.event is AuditEvent.UPDATE

    def ended(self, why: str) -> "ChangedQuota":
        """Return the entry that restores the original value, with its record; `self` if this restores it already."""
        if self.quota is None:
            return self
        event, reason = _ENDS[self.event]
        inputs = {**self.inputs, "own_quota": self.own}
        because = sentence(f"quota restored: {why}", inputs, ("own_quota",))
        return self._replace(quota=None, event=event, reason=reason, because=because, inputs=inputs)


def left_behind(own: int, present: int) -> ChangedQuota:
    """Return the entry that restores the quota which the previous process gave to a container.

    A quota below the own one was lowered, and so was one of a container without an own quota.

    present: µs, −1 for none.
    """
    is_lowered = 0 <= present < (own or float("inf"))
    reason = Reason.UNWATCHED if is_lowered else Reason.QUOTA_BURST
    event = AuditEvent.PRESSURE_RECOVER if is_lowered else AuditEvent.UPDATE
    inputs = {"own_quota": own}
    because = sentence("quota restored: the previous process had changed it", inputs, inputs)
    return ChangedQuota(quota=None, own=own, event=event, reason=reason, because=because, inputs=inputs)
