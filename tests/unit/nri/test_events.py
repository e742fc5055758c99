"""nri/events.py: the events of a session are a closed list of values."""

from typing import get_args, get_type_hints

from nri_coloc.nri import events


def test_every_event_is_in_the_union():
    defined = {v for v in vars(events).values() if getattr(v, "__module__", "") == events.__name__}
    assert set(get_args(events.Event)) == defined - {events.Call}


def test_what_waits_for_an_answer_holds_its_call():
    waiting = {event for event in get_args(events.Event) if "call" in get_type_hints(event)}
    assert waiting == {events.Configured, events.Synchronize, events.Hook}


def test_two_equal_calls_are_one():
    assert events.Call(1, "CreateContainer", 5) == events.Call(1, "CreateContainer", 5)
