"""How the program is told to end."""

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from nri_coloc.daemon.ending import SIGNALS, Ending


@pytest.fixture
def ending() -> Iterator[Ending]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    subject = Ending()
    subject.take_signals()
    yield subject
    while signal.sigtimedwait(SIGNALS, 0) is not None:
        pass  # or the test run itself would end with what a test left pending
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_wait_that_nobody_ends_takes_its_time(ending):
    began = time.monotonic()
    assert not ending.wait(0.02)
    assert time.monotonic() - began >= 0.02


@pytest.mark.parametrize("number", sorted(SIGNALS))
def test_a_signal_from_before_a_wait_ends_it(ending, number):
    signal.pthread_kill(threading.get_ident(), number)
    assert ending.wait(60)


def test_the_end_that_was_asked_for_ends_every_wait(ending):
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    assert [ending.wait(60), ending.wait(60), ending.asked] == [True, True, True]


def test_a_thread_ends_the_wait_of_the_main_one(ending):
    asking = threading.Timer(0.01, ending.ask)
    asking.start()
    assert ending.wait(60)
    asking.join()


def test_a_thread_that_asks_outside_a_wait_ends_the_next_one(ending):
    asking = threading.Thread(target=ending.ask)
    asking.start()
    asking.join()
    assert ending.wait(60)


def test_a_wait_into_the_past_is_none(ending):
    assert not ending.wait(-1)


def test_signals_of_any_moment_end_the_wait_that_follows(ending):
    main = threading.get_ident()
    for step in range(500):
        fresh, delay_s = Ending(), step % 50 * 2e-6
        kill = threading.Timer(delay_s, signal.pthread_kill, (main, signal.SIGTERM))
        kill.start()
        assert fresh.wait(60)
        kill.join()
