"""Decide where each container runs: `step(state, event, tuning)`, from values alone. Pure."""
