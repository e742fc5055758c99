"""Where each container runs: `step(state, event, tuning)` decides it from values alone.

`node` holds the state: one mutex, one writer, and readers without a lock. All other modules are pure, and rooms above
ask them for facts about a state, such as which CPUs may be lent.
"""
