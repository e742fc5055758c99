"""tests/rig/whole_process.py: what needs the process as it is waits for a test that has changed it."""

import resource
from threading import Thread

from tests.rig import whole_process


def limit() -> int:
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0]


def test_a_start_waits_for_a_lowered_limit():
    usual, found = limit(), []

    def start() -> None:
        with whole_process.unchanged():
            found.append(limit())

    starting = Thread(target=start)
    with whole_process.limited(resource.RLIMIT_FSIZE, 0):
        starting.start()
        starting.join(0.1)
        assert found == []
    starting.join()
    assert found == [usual]
