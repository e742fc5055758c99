"""Original values back, when the daemon is removed: kernel files by the journal, then the runtime's specs.

It runs in `nri-coloc restore` and never in the daemon.
"""
