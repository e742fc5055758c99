"""core/reasons.py: reasons are closed lists of plain codes."""

import re

import pytest

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.workload import FindingKind


@pytest.mark.parametrize("event", AuditEvent)
def test_an_event_is_a_subject_and_what_happened_to_it(event):
    assert re.fullmatch(r"[a-z]+\.[a-z]+", event)


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_its_name_in_small_letters(reason):
    assert reason.value == reason.name.lower()


def test_findings_about_annotations_are_events_of_the_audit():
    assert {kind.value for kind in FindingKind} <= {event.value for event in AuditEvent}
