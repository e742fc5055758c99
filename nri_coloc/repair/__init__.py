"""Wanted against actual: every cgroup gets the values of the newest state, and drift is repaired.

`targets` computes the values of a cgroup, `actuator` writes them right after each decision and sweeps in between,
`drift` limits repairs and retries. A container's start waits until its CPUs are free, as read back (`read_back`).
"""
