"""Find online pods that reclaimed pods hurt, and throttle the reclaimed pods that cause it, with a way back.

`verdict` judges each online pod against its own baseline, `culprit` ranks reclaimed pods by evidence, `ladder` decides
which rung to take, and each file of `actions` is one action. These are pure. `loop` reads counters once a second and
has the limits written.

`starvation` judges reclaimed pods that get no CPU (`starved_pods` records them), and `eviction` chooses the pods that
`evictor` orders to leave for `shortages`. `taking_back` takes memory of reclaimed pods back before (`reclaimer`,
`reclaim_worker`), and `disk_space` closes the node while a disk is short (`disks`).
"""
