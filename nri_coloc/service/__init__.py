"""The parts of the daemon that an operator touches: audit, logs, metrics, HTTP, admin socket, configuration."""
