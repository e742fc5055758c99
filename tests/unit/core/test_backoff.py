"""Retries wait longer each time, up to a limit, with jitter."""

from nri_coloc.core.backoff import Backoff


def test_retries_back_off_with_jitter():
    backoff = Backoff(lambda: 0.0, 1, 3)
    assert [backoff.failed() for _ in range(4)] == [0.5, 1, 1.5, 1.5]


def test_the_servers_wish_outlasts_a_retry():
    assert Backoff(lambda: 0.0, 1, 3).failed(at_least_s=20) == 20


def test_the_servers_wish_has_jitter():
    assert Backoff(lambda: 0.5, 1, 3).failed(at_least_s=20) == 30


def test_a_server_cannot_ask_for_an_hour():
    assert Backoff(lambda: 1.0, 1, 3).failed(at_least_s=3600) == 180


def test_a_success_ends_the_backoff():
    backoff = Backoff(lambda: 1.0, 1, 30)
    backoff.failed()
    backoff.succeeded()
    assert backoff.failed() == 1
