"""The parts of the daemon, in the order in which `wiring` makes them. Each class is complete when it is constructed."""
