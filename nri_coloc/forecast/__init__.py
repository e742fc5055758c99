"""The expected use of online pods, and the capacity that is advertised from it.

`slow_loop` takes a snapshot every few seconds. Histories and their expectations are pure; `offer` makes an offer of
the rest, and `forecast_file` keeps the histories over a restart.
"""
