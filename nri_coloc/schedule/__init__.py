"""Lending by the clock: windows of the week, the grace before lending falls, and the operator's switch. Pure.

`at(schedule, now, switch)` returns the part of the headroom that is lent, as a function of time alone. `remarks` names
windows that overlap or have no effect. `switched_off` returns the switch after an operator's order.
"""

from nri_coloc.schedule.draining import running_pods, still_runs, to_evict
from nri_coloc.schedule.lending import Cause, Lending, State, at, epoch_s
from nri_coloc.schedule.remarks import remarks
from nri_coloc.schedule.switch import ON, Clocks, Switch, switched_off

__all__ = [
    "ON",
    "Cause",
    "Clocks",
    "Lending",
    "State",
    "Switch",
    "at",
    "epoch_s",
    "remarks",
    "running_pods",
    "still_runs",
    "switched_off",
    "to_evict",
]
