"""Memory that is lent to reclaimed pods and taken back.

`headroom` decides how much the reclaim cgroups may hold, `division` divides it among them; both are pure. `bounds` runs
them for each snapshot, and `worker` writes the limits on a thread of its own, because a lower limit reclaims memory.
"""
