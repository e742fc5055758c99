"""Wanted against actual: every cgroup gets the values of the newest state, and drift is repaired.

`targets` computes the values of a cgroup, `actuator` writes them right after each decision and sweeps in between,
`drift` and `refusals` limit repairs and retries. A container's start waits here until its CPUs are free (`departures`).
"""
