"""Where each container runs: `step(state, event, tuning)` decides it from values alone. Pure."""
