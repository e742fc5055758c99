"""core/events.py: the union of events that the policy matches on is complete."""

from typing import get_args

from nri_coloc.core import events


def test_every_event_is_in_the_union():
    defined = {
        value for value in vars(events).values() if getattr(value, "__module__", "") == events.__name__
    }
    assert set(get_args(events.Event)) == defined
