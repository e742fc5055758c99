"""`make bench-colocation`: whether it pays to let online and offline pods share a node (root).

On a real containerd a real server (nginx of the distribution's packages, two processes that compress what they serve)
plays a day of requests, a day of some seconds, again and again: alone, beside offline work whose cgroups are as a plain
kubelet sets them, and beside the same work with our daemon. The arrangements take turns, so that whatever else the
machine does meets all of them, and each gets the same arrivals.

What is told of each: how long requests took from their arrival on (p50, p99, p99.9), how much CPU time one cost the
server, how much of the node's CPU time was used, how much offline work got done. `build/colocation.json` has it all,
`build/colocation.png` shows it over time.
"""
