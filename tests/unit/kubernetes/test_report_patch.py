"""The patch of a report: equal amounts, the gate, the time, and labels."""

import pytest

from nri_coloc.kubernetes import reporting
from nri_coloc.kubernetes.presets import LENDING, OPEN, REPORTED_AT, Amounts
from nri_coloc.kubernetes.reporting import Lending, Report
from tests.unit.kubernetes.kit import BATCH_CPU, GIB, KOORDINATOR

REPORT = Report(Amounts(7500, GIB), 110, Lending.ON)


def test_capacity_and_allocatable_are_equal():
    status = reporting.patch(REPORT, KOORDINATOR, "now")["status"]
    assert status["capacity"] == status["allocatable"]
    assert status["capacity"][BATCH_CPU] == "7500"


def test_a_closed_nodes_patch_removes_the_gate():
    status = reporting.patch(REPORT._replace(gate=None), KOORDINATOR, "now")["status"]
    assert (status["capacity"][OPEN], status["allocatable"][OPEN]) == (None, None)


def test_a_patch_has_the_time_of_its_report():
    metadata = reporting.patch(REPORT, KOORDINATOR, "2026-11-26T10:00:00Z")["metadata"]
    assert metadata["annotations"] == {REPORTED_AT: "2026-11-26T10:00:00Z"}


def test_a_patch_without_the_daemon_has_no_time():
    assert (
        "annotations" not in reporting.patch(REPORT._replace(is_fresh=False), KOORDINATOR, "now")["metadata"]
    )


@pytest.mark.parametrize(
    ("lending", "label"),
    [(Lending.ON, "on"), (Lending.OFF, "off"), (Lending.DRAINING, "draining"), (Lending.COOLING, "on")],
)
def test_the_label_has_three_values(lending, label):
    labels = reporting.patch(REPORT._replace(lending=lending), KOORDINATOR, "now")["metadata"]["labels"]
    assert labels == {LENDING: label}


def test_the_state_is_a_label_of_each_patch():
    labels = reporting.patch(REPORT, KOORDINATOR, "now", "Offline")["metadata"]["labels"]
    assert labels["coloc.nri.io/state"] == "Offline"


def test_an_unknown_state_leaves_its_label():
    labels = reporting.patch(REPORT, KOORDINATOR, "now")["metadata"]["labels"]
    assert "coloc.nri.io/state" not in labels
