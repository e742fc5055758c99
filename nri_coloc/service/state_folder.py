"""Keep the state folder: create it again if it was deleted, test it by real writes, and report its problems.

Its loss affects `restore` and the histories of use, never placement. So nothing here affects readiness.
"""

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.host.journal import Journal
from nri_coloc.service.instance_lock import InstanceLock
from nri_coloc.service.report import Report

TRIED_EVERY_S: Final = 10.0
"""Seconds between two real writes, and between two tries after a failure. Each check finds a folder that is gone."""

LABEL: Final = "state"
"""The folder's name among the files of `nri_coloc_write_failures_total`."""

_TRIAL: Final = b"\0" * 4096
"""A page: fewer bytes may fit where a journal does not."""


class Part(Protocol):
    """A file of the folder.

    problem: why it cannot be written, "" while it can.
    """

    @property
    def problem(self) -> str: ...


class StateFolder:
    """The state folder. One thread calls `begin`, and `look` once a second.

    others: files that are only reported on.
    observes: returns whether the daemon only observes, so that it keeps no journal.
    """

    def __init__(
        self,
        *,
        folder: str,
        lock: InstanceLock,
        journal: Journal,
        others: tuple[Part, ...],
        report: Report,
        observes: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._parts: tuple[Part, ...] = (lock, journal, *others)
        self._lock = lock
        self._journal = journal
        self._report = report
        self._observes = observes
        self._keeps_journal = False
        self._refused = ""
        self._said: tuple[str, ...] = ()
        self._tried_at = float("-inf")

    @property
    def problem(self) -> str:
        """Why the folder, or a file in it, cannot be written; "" if all can."""
        return "; ".join(self._problems())

    def begin(self) -> None:
        """Load the journal after this process got the lock, unless the daemon only observes."""
        if not self._observes():
            self._take_over()
        self._say()

    def _take_over(self) -> None:
        for because, inputs in self._journal.begin():
            self._record(Reason.TAKEN_OVER, because, inputs)
        self._keeps_journal = True

    def look(self, now: float) -> None:
        """Create the folder again if it is gone; at times test a write in it, and report changes."""
        if not self._lock.is_in_place():
            self._lock.renew()
        is_due = now - self._tried_at >= TRIED_EVERY_S
        if is_due:
            self._tried_at = now
            error = tried(self._folder)
            self._refused = "" if error is None else f"cannot write in {self._folder}: {error.strerror}"
        if not self._observes():
            self._look_at_journal(is_due=is_due)
        self._say()

    def _look_at_journal(self, *, is_due: bool) -> None:
        if not self._keeps_journal:
            self._take_over()
        before = self._journal.problem
        if (is_due or not before) and self._journal.look():
            self._say_written(before)

    def _say_written(self, before: str) -> None:
        values = len(self._journal.files())
        cause = "it could not be written before" if before else "it was missing"
        because = f"restore journal written again: {cause} (values={values})"
        inputs: dict[str, str | int] = {"file": self._journal.path, "values": values, "before": before}
        self._record(Reason.REWRITTEN, because, inputs)

    def _record(self, reason: Reason, because: str, inputs: Mapping[str, str | int]) -> None:
        self._report.log.warning(because, **inputs)
        self._report.said(AuditEvent.STATE_FOLDER, reason, because, extra={"inputs": dict(inputs)})

    def _problems(self) -> tuple[str, ...]:
        found = tuple(filter(None, (part.problem for part in self._parts)))
        return found or tuple(filter(None, (self._refused,)))

    def _say(self) -> None:
        """Report each problem once while it lasts."""
        problems = self._problems()
        for problem in problems:
            if problem not in self._said:
                self._report.log.error(problem)
                self._report.metrics.write_failed(LABEL)
                because = f"state not written: {problem}; placement continues"
                inputs = {"file": LABEL, "error": problem}
                self._report.said(AuditEvent.WRITE_FAILED, Reason.REFUSED, because, extra={"inputs": inputs})
        self._said = problems
        self._report.metrics.state_writable(now=not problems)


def tried(folder: str, *, durably: bool = False) -> OSError | None:
    """Create, write, rename and remove a file in a folder; return the error, None if there was none.

    durably: wait for the disk too. That can take seconds, so no thread may do it that another thread waits for.
    """
    trial, renamed = (Path(folder, f".trial-{os.getpid()}{end}") for end in ("", ".renamed"))
    try:
        fd = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.write(fd, _TRIAL) < len(_TRIAL):
                return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durably:
                os.fsync(fd)
        finally:
            os.close(fd)
        trial.rename(renamed)
        renamed.unlink()
    except OSError as error:
        return error
    finally:
        for left in (trial, renamed):
            with suppress(OSError):
                left.unlink()
    return None
