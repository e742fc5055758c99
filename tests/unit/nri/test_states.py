"""nri/session.py: a session takes each input only in the states of the table; any other input breaks the protocol."""

import pytest

from nri_coloc.nri.session import TRANSITIONS, Input, State

LIVE = [state for state in State if state is not State.CLOSED]


def test_every_state_has_its_row():
    assert TRANSITIONS.keys() == set(State)


def test_nothing_leaves_the_last_state():
    assert TRANSITIONS[State.CLOSED] == {}


@pytest.mark.parametrize("state", LIVE)
def test_every_state_is_reached_from_the_first(state):
    reached = {State.CONNECTED}
    for _ in State:
        reached |= {to for at in reached for to in TRANSITIONS[at].values()}
    assert state in reached


@pytest.mark.parametrize("given", Input)
def test_every_input_is_taken_somewhere(given):
    assert any(given in row for row in TRANSITIONS.values())


@pytest.mark.parametrize("state", [State.CONFIGURED, State.SYNCHRONIZING, State.SERVING])
def test_a_hook_changes_no_state(state):
    assert TRANSITIONS[state][Input.HOOK] is state


@pytest.mark.parametrize("state", [State.CONNECTED, State.REGISTERING])
def test_no_hook_comes_before_we_are_configured(state):
    assert Input.HOOK not in TRANSITIONS[state]


def test_we_push_only_while_we_serve():
    assert [state for state in State if Input.PUSH in TRANSITIONS[state]] == [State.SERVING]


@pytest.mark.parametrize("state", [s for s in LIVE if s is not State.CONNECTED])
def test_a_late_refusal_ends_every_session(state):
    assert TRANSITIONS[state][Input.REFUSED] is State.CLOSED
