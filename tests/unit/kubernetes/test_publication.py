"""The generation of the state: it changes with the state, and summaries change seldom."""

from math import inf

from nri_coloc.kubernetes.presets import Amounts
from nri_coloc.kubernetes.publication import SUMMARY_S, State, Summary, publish
from nri_coloc.kubernetes.reporting import Lending

STATE = State(inf, Lending.ON, Amounts(1, 2), Amounts(3, 4))


def test_the_first_generation_is_the_random_one():
    assert publish(None, STATE, 0, first=5).generation == 5


def test_another_age_is_no_change():
    first = publish(None, STATE, 0, first=5)
    found = publish(first, STATE._replace(age_s=1), 1, first=5)
    assert (found.generation, found.state.age_s) == (5, 1)


def test_another_offer_is_a_change():
    first = publish(None, STATE, 0, first=5)
    assert publish(first, STATE._replace(offer=Amounts(9, 9)), 1, first=5).generation == 6


def test_a_summary_holds_for_minutes():
    first = publish(None, STATE, 0, first=5)
    other = STATE._replace(summary=Summary(Amounts(7, 7)))
    assert publish(first, other, SUMMARY_S - 1, first=5).generation == 5
    found = publish(first, other, SUMMARY_S, first=5)
    assert (found.generation, found.state.summary) == (6, other.summary)


def test_no_generation_is_zero():
    first = publish(None, STATE, 0, first=2**64 - 1)
    assert publish(first, STATE._replace(offer=Amounts(9, 9)), 1, first=5).generation == 1
