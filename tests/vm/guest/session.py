"""pytest's part inside the machine: the fixture `node`, and a record on the host's folder for each scenario."""

import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.rig import waiting
from tests.vm.guest.spent import Spending
from tests.vm.node import Node
from tests.vm.shapes import SHAPES

RESULTS: Final = Path("/vm/results")
POLL_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 360.0
"""For work that takes one or two here, on a host that has a third of a CPU left; no wait gives up sooner.

A wait ends as soon as it may. A scenario of one pod and one wait was seen to take 166 s on four nodes, and the start of
containerd more than 180 s.
"""

NODE: Final = pytest.StashKey[Node]()
REPORTS: Final = pytest.StashKey[list[pytest.TestReport]]()
SPENDING: Final = pytest.StashKey[Spending]()


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> Iterator[Node]:
    waiting.POLL_SECONDS, waiting.PATIENCE_SECONDS = POLL_SECONDS, PATIENCE_SECONDS
    node = Node(SHAPES[os.environ["VM_SHAPE"]])
    request.session.stash[NODE] = node
    node.start()
    yield node
    node.keep_logs(Path("/vm"))


@pytest.fixture(scope="module")
def node(machine: Node) -> Iterator[Node]:
    """Yield the machine with containerd and a synchronised plugin with the defaults; a file begins without pods.

    Pods live as long as their file: each start costs seconds here. A file that fails leaves no settings to the next.
    """
    machine.make_ready()
    yield machine
    machine.plugin.config.write("")
    machine.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    found = item.session.stash.get(NODE, None)
    if report.failed and found is not None and call.when != "teardown":
        report.sections.extend(found.last_words())
    item.stash.setdefault(REPORTS, []).append(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    done = yield
    reports = item.stash.get(REPORTS, [])
    record = {
        "scenario": item.nodeid,
        "passed": all(report.passed for report in reports),
        "seconds": round(sum(report.duration for report in reports), 1),
        "report": "\n".join(_text(report) for report in reports if not report.passed),
        "spent": _spent(item.session),
    }
    with RESULTS.open("a") as file:
        file.write(json.dumps(record) + "\n")
    return done


def _spent(session: pytest.Session) -> dict[str, float]:
    node = session.stash.get(NODE, None)
    pids = {"plugin": node.plugin.pid, "containerd": node.containerd.pid or 0} if node else {}
    return session.stash.setdefault(SPENDING, Spending()).since_last(pids)


def _text(report: pytest.TestReport) -> str:
    sections = [f"----- {title}\n{content}" for title, content in report.sections]
    return "\n".join([report.longreprtext, *sections])
