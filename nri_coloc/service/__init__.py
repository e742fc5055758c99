"""The daemon as an operator sees it: wiring, settings, readiness, HTTP, admin socket, metrics, audit, log.

`wiring` makes every object, and `runner` starts and stops them. Modules below these two know the state, not how it is
decided.
"""
