"""Each hook of the runtime, from its bytes to its answer, and the writes and records after it.

`trunk` reads the connection, `dispatch` serves hooks, `translation` makes events of messages, and `watchdog` answers
overdue hooks. CreateContainer is answered before its cgroups are written; StartContainer waits for them.
"""
