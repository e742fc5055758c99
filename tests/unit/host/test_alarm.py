"""Any thread may end a sleep early."""

import time
from threading import Thread

from nri_coloc.host.alarm import Alarm


def test_a_sleep_that_nobody_ends_takes_its_time():
    began = time.monotonic()
    assert not Alarm().sleep(0.02)
    assert time.monotonic() - began >= 0.02


def test_a_ring_ends_the_sleep_at_hand():
    alarm = Alarm()
    sleeper = Thread(target=alarm.sleep, args=(60,), daemon=True)
    sleeper.start()
    alarm.ring()
    sleeper.join(30)
    assert not sleeper.is_alive()


def test_rings_before_a_sleep_end_that_one_only():
    alarm = Alarm()
    alarm.ring()
    alarm.ring()
    assert [alarm.sleep(60), alarm.sleep(0)] == [True, False]


def test_a_sleep_into_the_past_is_none():
    assert not Alarm().sleep(-1)
