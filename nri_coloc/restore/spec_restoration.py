"""Restore the kubelet's values in the runtime's specs of containers, and in their cgroups.

The runtime reports over NRI the values of its specs, with the record that each container carries (`runtime.listing`). A
container that started while no daemon of ours ran carries no record. A reload changes values after a container's
creation. In both cases the journal's entries of the files give the original values. Values that differ are sent to the
runtime by one CRI call for each container, like the kubelet's own resize. Calls are paced as pushes are. Then the files
are compared, because an update cannot remove a value. No daemon decides meanwhile: it is gone, or has stopped to answer
and to write.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from nri_coloc.core import knobs
from nri_coloc.core.knobs import AUDIT_NAMES, CONTROLLERS, NO_KNOBS, Knobs, Original
from nri_coloc.core.texts import counted
from nri_coloc.core.workload import Container, Phase
from nri_coloc.errors import ColocError, KernelInterfaceError, TransportLost
from nri_coloc.host import cgroup_layout, files, oom_scores, originals, write_back
from nri_coloc.host.bandwidth_files import QUOTAS
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.knob_files import FileValue
from nri_coloc.placing import record
from nri_coloc.runtime.listing import Listing
from nri_coloc.runtime.pusher import PAUSE_S

_SAID: Final = dict(AUDIT_NAMES)


class Way(Protocol):
    """Writes original values into the runtime's spec; raises ColocError."""

    def put_back(self, container_id: str, changes: Knobs, unified: Mapping[str, str]) -> None: ...


@dataclass(frozen=True, slots=True)
class SpecsRestored:
    """The outcome, in words for an operator.

    done: restored values by container.
    refused: failures by container.
    failed: cgroup paths of containers that need another try.
    """

    done: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()


class _Subject(NamedTuple):
    """One listed container with our values.

    container: from the runtime's list.
    path: its cgroup.
    original: its original values.
    name: its name for a sentence.
    """

    container: Container
    path: str
    original: Original
    name: str


class SpecRestoration:
    """Restores the specs of a listing.

    entries: original values by file, as the journal held them before files were restored.
    pause: waits so many seconds between two calls.
    """

    def __init__(
        self,
        layout: CgroupLayout,
        host_root: str,
        way: Way,
        entries: Mapping[str, str],
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._layout = layout
        self._proc = f"{host_root.rstrip('/')}/proc"
        self._way = way
        self._texts = _by_folder(entries, host_root.rstrip("/"))
        self._pause = pause

    def run(self, listed: Listing, until: float = float("inf")) -> SpecsRestored:
        """Restore the listed containers and return the outcome.

        until: monotonic seconds; later containers are left for another try.
        """
        done: list[str] = []
        refused: list[str] = []
        failed: set[str] = set()
        lost = ""
        for subject in self._subjects(listed):
            if not lost and time.monotonic() >= until:
                lost = "the time was over"
            if lost:
                failed.add(subject.path)
                continue
            try:
                told = self._tell(subject)
                done += [f"{subject.name}: {told}"] if told else []
            except Exception as error:  # noqa: BLE001 - told, and the others get theirs
                failed.add(subject.path)
                refused.append(f"{subject.name}: {_worded(error)}")
                lost = "the runtime went away" if isinstance(error, TransportLost) else ""
            refused += (f"{subject.name}: {words}" for words in self._mended(subject))
        if lost:
            refused.append(f"{lost}: specs of {counted(len(failed), 'container')} not restored; run it again")
        return SpecsRestored(tuple(done), tuple(refused), frozenset(failed))

    # ---- the containers concerned ----

    def _subjects(self, listed: Listing) -> Iterator[_Subject]:
        for container in listed.containers:
            pod = listed.pods.get(container.pod_id)
            if pod is None:
                continue  # without its pod it is unknown whether a record is ours
            try:
                path = cgroup_layout.container_path(container.cgroups_path)
            except ValueError:
                continue
            original = self._original(container, path)
            if original.ours or self._journalled(path):
                yield _Subject(container, path, original, f"{pod.full_name}/{container.name}")

    def _original(self, container: Container, path: str) -> Original:
        """Return the original values of a container, from its record and from the journalled files.

        A figure that is not the recorded one of ours is of a later push of ours, which the journal shows, or of a
        resize by the kubelet.
        """
        texts, known = self._journalled(path), record.read(container.record)
        journalled = originals.of_files(texts).completed(_own_quota(texts, container))
        if known is None:
            return journalled
        ours = record.ours_in(known, container.resources)
        kept = (name for name in known.ours if name in ours or _is_pushed(name, texts))
        return Original(frozenset(kept), known.original).completed(journalled)

    def _journalled(self, path: str) -> dict[str, str]:
        """Return the journalled values of a container's files, by their names."""
        texts: dict[str, str] = {}
        for controller in CONTROLLERS:
            texts |= self._texts.get(self._layout.folder(controller, path) or "", {})
        return texts

    # ---- what is done ----

    def _tell(self, subject: _Subject) -> str:
        """Send the runtime the original values of a container's spec; return them in words."""
        container, original = subject.container, subject.original
        changes = originals.as_update(original, self._inherited(subject), container.resources.knobs())
        changes = self._overwritten(subject).overlaid(changes)
        unified = self._unified(subject)
        if changes == NO_KNOBS and not unified:
            return ""
        self._pause(PAUSE_S)
        self._way.put_back(container.id, changes, unified)
        told = {**changes.named(), **unified}
        return ", ".join(f"{name}={value}" for name, value in told.items())

    def _overwritten(self, subject: _Subject) -> Knobs:
        """Return the shares that a spec has already and that the runtime must write again.

        If a weight was first written by file after our answer to the creation, the journal holds the answer's value. So
        that value was written back. On v2 only the runtime knows which weight it makes of shares.
        """
        known = record.read(subject.container.record)
        if known is None or "shares" not in known.ours or "cpu.weight" not in self._journalled(subject.path):
            return NO_KNOBS
        said = subject.container.resources.shares
        return Knobs(shares=said) if said and said == known.original.shares else NO_KNOBS

    def _mended(self, subject: _Subject) -> list[str]:
        try:
            return [*self._mend(subject)]
        except Exception as error:  # noqa: BLE001 - told, and the others get theirs
            return [_worded(error)]

    def _mend(self, subject: _Subject) -> Iterator[str]:
        """Restore a container's files and processes; yield in words the values that cannot be restored."""
        if subject.container.phase is Phase.RUNNING:
            for value in originals.as_files(subject.original, self._inherited(subject), self._layout.version):
                failure = self._write(subject.path, value)
                if failure is not None:
                    yield str(failure)
            failure = self._reset_score(subject)
            if failure is not None:
                yield f"{failure}: it keeps its oom_score_adj until it is created again"
        for name in originals.NOT_RESTORABLE:
            if name in subject.original.ours:
                yield f"its {_SAID[name]} stays until it is created again: the runtime cannot remove it"

    def _write(self, path: str, value: FileValue) -> KernelInterfaceError | None:
        folder = self._layout.folder(value.controller, path)
        file = f"{folder}/{value.name}"
        try:
            shown = files.read(file) if folder is not None else None
            if shown is not None and not originals.holds(shown, value.text):
                write_back.restore(file, value.text, self._layout.version)
        except KernelInterfaceError as error:
            return error.as_value()
        return None

    def _reset_score(self, subject: _Subject) -> KernelInterfaceError | None:
        score = subject.original.values.oom_score_adj
        folder = self._layout.folder("cpuset", subject.path) or self._layout.folder("memory", subject.path)
        if "oom_score_adj" not in subject.original.ours or score is None or folder is None:
            return None
        return oom_scores.reset(folder, self._proc, str(score), subject.container.pid)

    def _unified(self, subject: _Subject) -> dict[str, str]:
        """Return the values that a spec has under v2's own names, if the container's files do not show them."""
        if self._layout.version == 1:
            return {}
        wanted = originals.as_files(subject.original, NO_KNOBS, 2)
        return {
            value.name: value.text
            for value in wanted
            if value.name in originals.UNIFIED
            and (shown := self._shown(subject.path, value)) is not None
            and not originals.holds(shown, value.text)
        }

    def _inherited(self, subject: _Subject) -> Knobs:
        """Return the cpuset that a container inherits if its spec names none: its pod's."""
        above = subject.path.rpartition("/")[0]
        suffix = "" if self._layout.version == 1 else ".effective"
        names = (f"cpuset.cpus{suffix}", f"cpuset.mems{suffix}")
        cpus, mems = (self._shown(above, FileValue("cpuset", name, "")) for name in names)
        return Knobs(cpus=cpus or None, mems=mems or None)

    def _shown(self, path: str, value: FileValue) -> str | None:
        folder = self._layout.folder(value.controller, path)
        try:
            return files.read(f"{folder}/{value.name}") if folder is not None else None
        except KernelInterfaceError:
            return None


def carries_records(listed: Listing) -> bool:
    """Return whether a container carries a record, which shows that a daemon of ours ran here."""
    return any(container.record for container in listed.containers)


def _is_pushed(field: str, texts: Mapping[str, str]) -> bool:
    """Return whether the journal has a container's file of a knob: it is noted before each push."""
    return not texts.keys().isdisjoint(file.name for file in knobs.files(field))


def _own_quota(texts: Mapping[str, str], container: Container) -> Original:
    """Return the quota of a container's spec as the original value, if its files had a quota before us.

    We raised or lowered that quota by file alone. So the spec has the kubelet's, also of a resize since the raise.
    """
    spec = container.resources
    if not spec.cpu_quota or texts.keys().isdisjoint(QUOTAS):
        return Original(frozenset())
    return Original(frozenset({"quota", "period"}), Knobs(quota=spec.quota, period=spec.period))


def _worded(error: Exception) -> str:
    return str(error) if isinstance(error, ColocError) else f"an error in the program: {error!r}"


def _by_folder(entries: Mapping[str, str], root: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for file, was in entries.items():
        folder, _, name = file.rpartition("/")
        found.setdefault(root + folder, {})[name] = was
    return found
