"""Whole machines under software emulation: NUMA, SMT, cgroup v2, PSI, every capability, a real containerd.

One machine of a shape is booted, and all chosen scenarios of that shape run in it one after another; the
host shows one test for each. `scenarios/<shape>/test_*.py` are ordinary tests that run in the guest.
"""
