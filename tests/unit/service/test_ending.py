"""A signal or a thread ends the program's waits."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nri_coloc.service.runner import SIGNALS, Ending


@contextmanager
def taking_signals() -> Iterator[Ending]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    subject = Ending()
    subject.take_signals()
    try:
        yield subject
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(subject._reader)
        os.close(subject._writer)


@pytest.fixture
def ending() -> Iterator[Ending]:
    with taking_signals() as subject:
        yield subject


def to_main(number: signal.Signals) -> None:
    found = threading.main_thread().ident
    assert found is not None
    signal.pthread_kill(found, number)


def test_a_wait_that_nobody_ends_takes_its_time(ending):
    began = time.monotonic()
    assert not ending.wait(0.02)
    assert time.monotonic() - began >= 0.02


@pytest.mark.parametrize("number", sorted(SIGNALS))
def test_a_signal_from_before_a_wait_ends_it(ending, number):
    to_main(number)
    assert ending.wait(60)


def test_the_end_that_was_asked_for_ends_every_wait(ending):
    to_main(signal.SIGTERM)
    assert [ending.wait(60), ending.wait(60), ending.asked] == [True, True, True]


def test_another_signal_is_no_end(ending):
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    to_main(signal.SIGUSR1)
    assert [ending.wait(0.001), ending.wait(0.001)] == [False, False]
    signal.signal(signal.SIGUSR1, before)


def test_a_stop_that_lasts_longer_than_the_wait_is_no_end():
    child = os.fork()
    if not child:
        _exit_by_what_a_wait_says_that_was_stopped()
    os.waitpid(child, os.WUNTRACED)
    time.sleep(0.2)
    os.kill(child, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _exit_by_what_a_wait_says_that_was_stopped() -> None:
    says = True
    try:
        subject = Ending()
        subject.take_signals()
        threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGSTOP)).start()
        says = subject.wait(0.1)
    finally:
        os._exit(int(says))


def test_a_thread_ends_the_wait_of_the_main_one(ending):
    asking = threading.Timer(0.01, ending.ask)
    asking.start()
    assert ending.wait(60)
    asking.join()


def test_threads_that_ask_again_and_again_are_not_held_up(ending):
    for _ in range(100_000):
        ending.ask()
    assert ending.wait(60)


def test_a_wait_into_the_past_is_none(ending):
    assert not ending.wait(-1)


def test_signals_of_any_moment_end_the_wait_that_follows():
    for step in range(500):
        with taking_signals() as ending:
            kill = threading.Timer(step % 50 * 2e-6, to_main, (signal.SIGTERM,))
            kill.start()
            assert ending.wait(60)
            kill.join()
