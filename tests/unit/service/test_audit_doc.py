"""docs/audit.md: its lists are the program's lists, no more and no less."""

import re
from pathlib import Path

from nri_coloc.core.knobs import AUDIT_NAMES
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.service.audit import FIELDS

DOC = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()


def listed(header: str) -> list[str]:
    """Return the first column of the table whose first header is this."""
    table = DOC.split(f"| {header} | ")[1].split("\n\n")[0]
    return re.findall(r"^\| `([\w.]+)` \| \S", table, re.MULTILINE)


def test_every_event_is_explained_in_order():
    assert listed("event") == [event.value for event in AuditEvent]


def test_every_reason_is_explained_in_order():
    assert listed("reason") == [reason.value for reason in Reason]


def test_every_field_is_explained_in_order():
    assert listed("field") == list(FIELDS)


def test_every_knob_is_explained_in_order():
    assert listed("knob") == [name for _, name in AUDIT_NAMES]
