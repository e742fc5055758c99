"""The daemon as an operator sees it: wiring, settings, readiness, HTTP, admin socket, metrics, audit, log.

`wiring` makes every object, with one module of `parts` for each step, and `runner` starts and stops them. Modules below
these know the state, not how it is decided.
"""
