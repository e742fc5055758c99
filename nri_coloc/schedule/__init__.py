"""Lending by the clock: windows of the week, the grace before lending falls, and the operator's switch. Pure.

`lending.at(schedule, now, switch)` returns the part of the headroom that is lent, as a function of time alone.
`remarks` names windows that overlap or have no effect. `switch.switched_off` returns the switch after an operator's
order, and `draining` the pods that an order still waits for.
"""
