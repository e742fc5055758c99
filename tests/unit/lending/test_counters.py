"""How far a CPU's counter may lag."""

from nri_coloc.lending import sampler


def test_a_coarse_scheduler_tick_bounds_the_lag(monkeypatch):
    found = {sampler.MONOTONIC_COARSE: 0.01}
    monkeypatch.setattr("time.clock_getres", found.__getitem__)
    assert sampler.counters_s() == 0.01
    found[sampler.MONOTONIC_COARSE] = 0.001
    assert sampler.counters_s() == 0.004
