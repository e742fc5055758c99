"""The relay's manners: newest value, one at a time, recognised, and patient."""

from collections.abc import Callable

import pytest

from nri_coloc.daemon.pusher import Pusher
from nri_coloc.errors import RuntimeRefused
from nri_coloc.model.events import ContainerGone
from nri_coloc.model.tuning import Tuning
from tests.rig.waiting import wait_until
from tests.unit.daemon.kit import a_node, a_report, create
from tests.unit.policy import kit


class Relay:
    """Notes every push; `during` is called in the middle of each."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str]] = []
        self.during: Callable[[], object] = lambda: None
        self.refuses = False

    def push(self, container_id: str, cpus: str) -> None:
        self.pushed.append((container_id, cpus))
        self.during()
        if self.refuses:
            raise RuntimeRefused("not now")


class Rig:
    def __init__(self, tuning: Tuning | None = None) -> None:
        self.node = a_node(tuning)
        self.relay = Relay()
        self.report, self.heard = a_report(self.node)
        self.connected = True
        self.pusher = Pusher(self.node, self.relay, self.report, lambda: self.connected)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    create(rig.node, "app")
    return rig


def test_a_spec_that_differs_is_pushed_and_then_known(rig):
    rig.pusher.learned("app", "0-3")
    assert rig.pusher._push("app")
    assert rig.pusher._push("app")
    assert rig.relay.pushed == [("app", "0-7")]


def test_the_newest_value_is_pushed_whatever_was_ordered(rig):
    rig.pusher.learned("app", "0-7")
    rig.pusher.submit(["app"])
    create(rig.node, "owner", kit.DEDICATED, 2000, on="db")
    rig.pusher._push("app")
    assert rig.relay.pushed == [("app", "2-7")]


def test_a_spec_that_agrees_is_left_alone(rig):
    rig.pusher.learned("app", "0-7")
    assert rig.pusher._push("app")
    assert rig.relay.pushed == []


def test_our_own_push_is_recognised_while_it_is_under_way_and_only_then(rig):
    seen = []
    rig.relay.during = lambda: seen.append(
        (
            rig.pusher.recognises("app", "0-7"),
            rig.pusher.recognises("app", "0-3"),
            rig.pusher.recognises("other", "0-7"),
        )
    )
    rig.pusher._push("app")
    assert seen == [(True, False, False)]
    assert not rig.pusher.recognises("app", "0-7")
    assert not rig.pusher.recognises("", "")


def test_a_refusal_is_said_and_tried_again_later(rig):
    rig.relay.refuses = True
    assert not rig.pusher._push("app")
    assert rig.heard.said() == [("push.failed", "runtime_refused")]
    assert list(rig.pusher._waiting) == ["app"]
    assert not rig.pusher.recognises("app", "0-7")


def test_a_refusal_for_a_container_that_ended_meanwhile_is_nothing(rig):
    rig.relay.refuses = True
    rig.relay.during = lambda: rig.node.decide(ContainerGone("app"))
    assert rig.pusher._push("app")
    assert (rig.heard.records, rig.pusher._waiting) == ([], {})


def test_without_a_runtime_it_is_put_off_and_not_called(rig):
    rig.connected = False
    assert not rig.pusher._push("app")
    assert (rig.relay.pushed, list(rig.pusher._waiting)) == ([], ["app"])


def test_an_observer_pushes_nothing():
    rig = Rig(Tuning(observe=True))
    create(rig.node, "app")
    assert rig.pusher._push("app")
    assert rig.relay.pushed == []


def test_a_member_of_the_box_has_no_set_to_push(rig):
    create(rig.node, "job", kit.RECLAIMED, 0, on="batch")
    assert rig.pusher._push("job")
    assert rig.relay.pushed == []


def test_the_whole_list_replaces_what_was_known_and_ends_are_forgotten(rig):
    rig.pusher.learned("gone", "0-3")
    rig.pusher.learned_all({"app": "0-3", "old": "1"})
    rig.pusher.forget("old")
    assert rig.pusher._specs == {"app": "0-3"}
    rig.pusher.learned("ended", "1")
    assert rig.pusher._push("ended")
    assert "ended" not in rig.pusher._specs


def test_the_thread_pushes_one_after_the_other_and_ends_at_once_when_told_to(rig):
    create(rig.node, "second")
    rig.pusher.start()
    rig.pusher.submit(["app", "second", "app"])
    wait_until(lambda: len(rig.relay.pushed) == 2, 5, "both pushes")
    rig.pusher.stop()
    rig.pusher._thread.join(5)
    assert not rig.pusher._thread.is_alive()
    assert rig.relay.pushed == [("app", "0-7"), ("second", "0-7")]


def test_after_a_refusal_it_waits_but_not_longer_than_until_it_is_told_to_end(rig):
    rig.relay.refuses = True
    rig.pusher.start()
    rig.pusher.submit(["app"])
    wait_until(lambda: rig.relay.pushed, 5, "the push")
    rig.pusher.stop()
    rig.pusher._thread.join(1)
    assert not rig.pusher._thread.is_alive()
    assert len(rig.relay.pushed) == 1
