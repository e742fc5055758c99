"""Files of the memory controller that other writers use too: bounds and protections.

A bound of ours is never above the original value, a protection never below it, and neither overwrites a value that
another writer set after us. The lock is held for the journal, and not while the kernel reclaims in a write.
"""

import time
from threading import Lock

from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import MEMORY_BOUNDS, MEMORY_LIMIT, MEMORY_USAGE, Correction, as_bytes, number
from nri_coloc.host.write_back import Overwritten


class MemoryFiles:
    """Writes memory bounds and protections by file; raises KernelInterfaceError if the kernel refuses."""

    def __init__(self, journal: Journal, overwritten: Overwritten, lock: Lock) -> None:
        self._journal = journal
        self._overwritten = overwritten
        self._lock = lock

    def bound(self, file: str, amount: int, corrected: list[Correction]) -> bool:
        """Write one bound unless it is there; False if the file is not."""
        with self._lock:
            current = files.value(file)
            if current is None:
                return False
            self._journal.suspect(file, current)
            self._overwritten.found(file, current, time.monotonic())
            wanted = _at_most(self._journal.original(file) or current, amount)
            if wanted == current:
                self._overwritten.wrote(file, current)
                return True
            self._journal.expect(file, current, wanted)
        is_there, shown = False, wanted
        try:
            is_there = files.write(file, wanted)
            shown = files.read(file) or wanted  # in pages of the kernel's size
        finally:
            with self._lock:
                is_kept = self._arrived(file, shown if is_there else current, wanted)
                if is_there and is_kept:
                    self._overwritten.wrote(file, shown)
        if is_there and is_kept:
            corrected.append(_corrected(file, current, wanted))
        return is_there

    def lower(self, change: Correction) -> KernelInterfaceError | None:
        """Write a bound for which the kernel takes memory back at once, unless another writer changed the file.

        change: its `name` is the file's whole path.

        No lock is held, for as long as the kernel takes; a refusal is returned.
        """
        try:
            if files.read(change.name) == change.was:
                files.write(change.name, change.now)
        except KernelInterfaceError as error:
            return error.as_value()
        return None

    def lower_journalled(self, change: Correction) -> KernelInterfaceError | None:
        """As `lower`, for a file in the journal. A file that the journal has no more was restored, and stays so."""
        file = change.name
        with self._lock:
            if self._journal.original(file) is None:
                return None
            try:
                if files.read(file) != change.was:
                    return None
            except KernelInterfaceError as error:
                return error.as_value()
            self._journal.expect(file, change.was, change.now)
        failure = self.lower(change)
        with self._lock:
            try:
                if self._arrived(file, change.now, change.now) and failure is None:
                    self._overwritten.wrote(file, change.now)
            except KernelInterfaceError as error:
                return failure or error.as_value()
        return failure

    def _arrived(self, file: str, shown: str, wanted: str) -> bool:
        """Note that a write without the lock has ended; return whether it counts.

        A file that was restored meanwhile is restored again. To be called with the lock held.
        """
        was_restored = self._journal.arrived(file, shown, wanted)
        original = self._journal.original(file)
        if original is None:
            return False
        if was_restored:
            files.write(file, original)
            self._journal.forget(file)
        return not was_restored

    def protect(self, file: str, amount: int, corrected: list[Correction]) -> bool:
        """Raise a protection to at least an amount, 0 to the original value; False if the file is missing.

        To be called with the lock held.
        """
        current = files.value(file)
        if current is None:
            return False
        self._journal.suspect(file, current)
        entry, ours = self._journal.entry(file), self._overwritten.ours(file)
        if entry is None and not amount:
            return True
        original = None if entry is None else entry.original
        if entry is not None and (entry.is_anothers(current) if ours is None else ours != current):
            # a kubelet with MemoryQoS writes here as often as pods come and go, up and down
            self._journal.renew(file, original := current)
        shown = wanted = _at_least(original if original is not None else current, amount)
        if wanted != current:
            self._journal.note(file, current, wanted)
            if not files.write(file, wanted):
                return False
            shown = files.read(file) or wanted
            corrected.append(_corrected(file, current, wanted))
        if not amount:
            self._journal.forget(file)
        elif original is not None or wanted != current:
            self._overwritten.wrote(file, shown)
        return True


def reclaims(file: str, text: str) -> bool:
    """Whether a file is a bound of memory that is about to fall below what its cgroup holds: the kernel reclaims in the
    write then (mm/memcontrol.c, memory_high_write).
    """
    folder, _, name = file.rpartition("/")
    if name not in MEMORY_BOUNDS:
        return False
    usage = MEMORY_USAGE[1 if name == MEMORY_LIMIT[1] else 2]
    held = number(files.read(f"{folder}/{usage}") or "")
    return held is not None and held > as_bytes(text)


def _corrected(file: str, was: str, now: str) -> Correction:
    return Correction(file.rpartition("/")[2], was, now)


def _at_least(original: str, amount: int) -> str:
    """Return the larger of a protection and an amount; "max" is larger than any."""
    return original if as_bytes(original) >= amount else str(amount)


def _at_most(original: str, amount: int) -> str:
    """Return the smaller of a limit and an amount; "max", and v1's text for it, is larger than any."""
    return original if as_bytes(original) < amount else str(amount)
