"""A StartContainer hook takes few small writes, even if annotations order all that they can."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.host import files
from tests.unit.hooks.starting import Start

MOST_WRITES = 8
MOST_OPENED = 24
"""Times that a file is opened: for each write to read the original value, to write, and to read back."""


class Counted:
    """A start with the paths of its writes, and of all files that it opens."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.written: list[str] = []
        self.opened: list[str] = []

    def noting(self, paths: list[str], call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call`, which also notes the path that it gets."""

        def noted(path: str, *more: Any, **named: Any) -> Any:
            paths.append(path)
            return call(path, *more, **named)

        return noted

    def place(self, *, answered: bool) -> None:
        """Admit and start the container as the hook does; only files of the start itself are noted."""
        self.start.admit(answered=answered)
        self.written.clear()
        self.opened.clear()
        self.start.write()


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def counted(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted(Start(tmp_path, request.param))
    monkeypatch.setattr(files, "write", made.noting(made.written, files.write))
    monkeypatch.setattr(os, "open", made.noting(made.opened, os.open))
    return made


@pytest.mark.parametrize("answered", [True, False], ids=["placed at creation", "placed by file"])
def test_a_start_takes_few_small_writes(counted, answered):
    counted.place(answered=answered)
    assert 2 < len(counted.written) <= MOST_WRITES, counted.written
    assert len(counted.opened) <= MOST_OPENED, counted.opened
    assert counted.start.heard.said() == []


def test_a_container_that_is_placed_by_file_bursts_once_it_runs(counted):
    counted.place(answered=False)
    assert not [path for path in counted.written if "burst" in path]
    counted.start.actuator.bandwidths.place("app")
    assert len([path for path in counted.written if "burst" in path]) == 2
