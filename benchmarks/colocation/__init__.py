"""`make bench-colocation`: whether it pays to let online and reclaimed pods share a node (root).

On a real containerd a real server (nginx of the distribution's packages, two processes that compress each response)
serves a day of requests, a day of some seconds, again and again. It runs alone, beside offline work whose cgroups are
as a plain kubelet sets them, and beside the same work with our daemon. The arrangements take turns, so that other work
on the machine meets all of them, and each gets the same arrivals.

For each arrangement the report has: request times from their arrival on (p50, p99, p99.9), CPU time of the server a
request, the part of the node's CPU time that was used, and the offline work done. `build/colocation.json` has it all,
`build/colocation.png` shows it over time.
"""
