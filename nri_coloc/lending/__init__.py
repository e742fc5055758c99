"""CPU that is lent to reclaimed pods and taken back.

`loop` is the fast loop: a sample, a decision (`fast_loop`, pure), and cgroups moved at once (`relocation`). With
`reclaim.sharing: partition` it sizes all pools. `relocation` also finds other writers of the reclaim cgroups.
"""
