"""Each hook of the runtime, from its bytes to its answer, and the writes and records after it.

`trunk` reads the connection and serves hooks, `translation` makes events of messages, and `common_steps` has the steps
of all hooks and the watchdog that answers overdue ones. CreateContainer is answered before its cgroups are written;
StartContainer waits for them.
"""
