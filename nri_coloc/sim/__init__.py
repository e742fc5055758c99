"""A simulated node for the demo and the tests: runtime, kernel files, workloads. The daemon never imports it."""
