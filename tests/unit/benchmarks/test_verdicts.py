"""The simulated seconds of `python -m benchmarks verdicts`."""

from benchmarks.verdicts import HOGS, LEARNS_S, READS, Limited, alone, limited


def test_a_seed_has_always_the_same_seconds():
    assert list(alone(1, "disk", 5, 1)) == list(alone(1, "disk", 5, 1))
    assert list(alone(1, "disk", 5, 1)) != list(alone(2, "disk", 5, 1))


def test_a_limited_hog_reads_less():
    node, reads = Limited(), list[float]()
    for second, _ in node.turns(limited(node, "one hog", 1, reads)):
        if second > LEARNS_S + 60:
            break
    assert reads[LEARNS_S] == READS
    assert reads[-1] < READS / 4


def test_both_hogs_of_a_course_read():
    seconds = limited(Limited(), "by turns", 1, [])
    batches = [next(seconds)[1] for _ in range(LEARNS_S + 60)]
    assert all(any(one[k].read for one in batches) for k in HOGS)
