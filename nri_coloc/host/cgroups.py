"""The only writer of cgroup files and of /proc: applies targets, reads them back, journals original values.

A target is a pod's or a container's cgroup with the values that it should have now. Several threads call the writer
(docs/architecture.md, "Threads"); one lock keeps their writes apart. The caller computes values right before the call,
from the newest state, so the last write is the newest.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Lock
from typing import Final, Protocol

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import CONTROLLERS, NO_KNOBS, Controller, Knobs
from nri_coloc.core.scheduler_hints import Hint
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import (
    cpusets,
    files,
    io_limits,
    memory_files,
    oom_scores,
    scheduler,
    write_back,
)
from nri_coloc.host.bandwidth_files import NAMES, Bandwidths, PodBandwidth, Written
from nri_coloc.host.cpusets import Found
from nri_coloc.host.expected_pushes import ExpectedPushes
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import (
    CPUS,
    MEMORY_BOUNDS,
    MEMS,
    Applied,
    Correction,
    FileValue,
    Later,
    Target,
    Writes,
    holds,
    in_spec,
    is_image,
    numbers,
)
from nri_coloc.host.memory_files import MemoryFiles
from nri_coloc.host.originals import CPUSETS
from nri_coloc.host.write_back import Apart, Overwritten, PuttingBack


class Layout(Protocol):
    """The folders of the hierarchies, as `cgroup_layout.detect` finds them."""

    @property
    def version(self) -> int: ...

    def folder(self, controller: Controller, path: str) -> str | None: ...


_OF_ONE_WRITER: Final = NAMES | MEMORY_BOUNDS | io_limits.ALL_NAMES


class CgroupWriter:
    """Applies targets; never raises if the kernel refuses a write, and never writes a file that is gone.

    wrote: called with the path of each cgroup after a write to its files.

    Size: every write to a cgroup file goes through one lock and one journal.
    """

    def __init__(
        self, layout: Layout, journal: Journal, host_root: str, wrote: Callable[[str], None]
    ) -> None:
        self._layout = layout
        self._journal = journal
        self._proc = f"{host_root.rstrip('/')}/proc"
        self._lock = Lock()
        self._wrote = wrote
        self._followed: dict[str, CPUMask] = {}
        self._images: set[str] = set()
        self._bandwidths = Bandwidths(lambda path: layout.folder("cpu", path), layout.version, journal)
        self._pushes = ExpectedPushes(layout, journal, self._bandwidths)
        self._overwritten = Overwritten(journal)
        self._putting_back = PuttingBack(journal, self._overwritten, layout.version, self._proc)
        self._memory = MemoryFiles(journal, self._overwritten, self._lock)

    def know_earlier(self) -> None:
        """Note that an earlier process wrote on this node: if its journal was lost, found values are no originals."""
        with self._lock:
            if self._journal.may_lack:
                self._journal.distrust()

    def bandwidth(self, pod: PodBandwidth, now: float) -> Written:
        """Write the quotas and bursts of a pod and its containers, in the kernel's order. `now`: seconds, monotonic."""
        with self._lock:
            return self._bandwidths.apply(pod, now)

    def held_back(self) -> dict[str, int]:
        """Return the present quotas of the cgroups whose quota or burst the journal holds, by path, µs; -1 for none."""
        paths = self._journalled("cpu", NAMES)
        with self._lock:
            return {path: self._bandwidths.quota(path) for path in paths}

    def hint(self, path: str, hint: Hint) -> KernelInterfaceError | None:
        """Give the tasks of a cgroup a scheduling hint; the first refusal is returned."""
        folder = self._layout.folder("cpu", path)
        if folder is None:
            return None
        told = f"{folder}/{scheduler.NAME}"
        former = self._journal.original(told)
        if former not in (None, hint.policy.value):
            # by the settings of the previous process: tasks with our batch or idle policy would be left alone
            failure = scheduler.reset_all(folder, self._layout.version, str(former))
            if failure is not None:
                return failure
        with self._lock:
            self._journal.renew(told, hint.policy.value)
            self._journal.expect(told, hint.policy.value)
        try:
            return scheduler.tell_all(folder, self._layout.version, hint)
        finally:
            with self._lock:
                self._journal.arrived(told, None)

    def unhint(self, path: str) -> KernelInterfaceError | None:
        """Give the tasks of a cgroup the kernel's defaults again."""
        folder = self._layout.folder("cpu", path)
        if folder is None:
            return None
        told = self._journal.original(f"{folder}/{scheduler.NAME}") or ""
        failure = scheduler.reset_all(folder, self._layout.version, told)
        if failure is None:
            with self._lock:
                self._journal.forget(f"{folder}/{scheduler.NAME}")
        return failure

    def hinted(self) -> set[str]:
        """Return the cgroups whose tasks were given hints, by this process or the previous one."""
        return self._journalled("cpu", frozenset({scheduler.NAME}))

    def apply(self, target: Target) -> Applied:
        """Bring one cgroup to its values; what already holds is not written again.

        A bound of memory below what the cgroup holds is left to the caller, to be written where neither hooks nor cuts
        wait while the kernel reclaims.
        """
        with self._lock:
            writes = Writes()
            before, cpus = self._move(target, writes)
            for value in target.values:
                self._write(target, value, writes)
            if writes.corrected or writes.failures or before != cpus:
                self._wrote(target.path)
        return writes.applied(cpus, before)

    def files_of(self, target: Target) -> tuple[str, ...]:
        """Return the files that hold a target's values."""
        named: list[tuple[Controller, str]] = [(value.controller, value.name) for value in target.values]
        if target.cpus:
            named.append(("cpuset", CPUS))
        folders = ((self._layout.folder(controller, target.path), name) for controller, name in named)
        return tuple(f"{folder}/{name}" for folder, name in folders if folder is not None)

    def resized(self, path: str, told: Knobs = NO_KNOBS) -> None:
        """Note that the kubelet is resizing the pod of this cgroup: its values are the original ones from then on.

        told: its new shares and memory limit, as far as they are known.
        """
        now, values = time.monotonic(), in_spec(told, self._layout.version)
        with self._lock:
            for folder in {self._layout.folder(each, path) for each in write_back.KUBELETS_CONTROLLERS} - {
                None
            }:
                there = [each for each in values if self._layout.folder(each.controller, path) == folder]
                self._overwritten.resized(str(folder), now, there)

    def look_again(self) -> None:
        """Journal the values of the kubelet's latest resizes, before the files are looked at for the last time."""
        with self._lock:
            self._overwritten.look_again(time.monotonic())

    def put_back(
        self, path: str, keep: frozenset[str], apart: Iterable[Apart] | None = None
    ) -> tuple[KernelInterfaceError, ...]:
        """Restore a cgroup's journalled files, except the names in `keep`; return the refusals.

        Files with one writer of their own are left to it: bandwidths, memory bounds (`unbound`), I/O limits
        (`unlimit_io`). `apart`: of a pod, the cgroups below it that keep CPUs of their own, read only if the pod's CPUs
        are restored. All other cgroups below it follow.
        """
        with self._lock:
            self._followed.pop(str(self._layout.folder("cpuset", path)), None)
            below = None if apart is None else self._folders_of(apart)
            return self._put_back(path, lambda name: name not in keep | _OF_ONE_WRITER, below)

    def bound(self, path: str, values: tuple[FileValue, ...]) -> Applied:
        """Bound a cgroup's memory, journalled, and never above the original value.

        To be called by one thread. It reclaims in the write for as long as that takes, so hooks' writes do not wait for
        it: the lock is held for the journal only.
        """
        folder = self._layout.folder("memory", path)
        writes = Writes()
        for value in values:
            try:
                file = f"{folder}/{value.name}"
                if folder is None or not self._memory.bound(file, int(value.text), writes.corrected):
                    writes.absent.append(value.name)
            except KernelInterfaceError as error:
                writes.failures.append(error.as_value())
        return writes.applied()

    def unbound(self, path: str) -> tuple[KernelInterfaceError, ...]:
        """Put a cgroup's memory bounds back."""
        with self._lock:
            return self._put_back(path, MEMORY_BOUNDS.__contains__)

    def bounded(self) -> set[str]:
        """Return the cgroups whose memory bounds the journal holds, from this process or the previous one."""
        return self._journalled("memory", MEMORY_BOUNDS)

    def limit_io(self, path: str, devices: Iterable[str], limit: int) -> Applied:
        """Limit a cgroup's reads and writes of devices, bytes a second each; journalled and read back."""
        writes, devices = Writes(), tuple(devices)
        folder = self._layout.folder("blkio", path)
        with self._lock:
            for name in io_limits.NAMES[self._layout.version]:
                try:
                    self._limit_io(f"{folder}/{name}", devices, limit, writes)
                except KernelInterfaceError as error:
                    writes.failures.append(error.as_value())
            self._wrote(path)
        return writes.applied()

    def unlimit_io(self, path: str) -> tuple[KernelInterfaceError, ...]:
        """Restore a cgroup's I/O limits; return the refusals, which stay in the journal."""
        with self._lock:
            return self._put_back(path, io_limits.ALL_NAMES.__contains__)

    def io_limited(self) -> set[str]:
        """Return the cgroups whose I/O limits the journal holds, from this process or the previous one."""
        return self._journalled("blkio", io_limits.ALL_NAMES)

    def placed(self) -> set[str]:
        """Return the cgroups whose CPUs the journal holds, from this process or the previous one."""
        return self._journalled("cpuset", frozenset({"cpuset.cpus"}))

    def protect(self, path: str, name: str, amount: int) -> Applied:
        """Raise a protection to at least `amount` bytes; 0 restores the original value.

        Never lowers another writer's protection: a kubelet with MemoryQoS writes the same files.
        """
        folder = self._layout.folder("memory", path)
        if folder is None:
            return Applied(absent=(name,))
        corrected: list[Correction] = []
        with self._lock:
            try:
                if not self._memory.protect(f"{folder}/{name}", amount, corrected):
                    return Applied(absent=(name,))
            except KernelInterfaceError as error:
                return Applied(failures=(error.as_value(),))
        return Applied(corrected=tuple(corrected))

    def originals(self, path: str) -> dict[str, str]:
        """Return what the journal says that a container's files had before us, by their names."""
        folders = filter(None, (self._layout.folder(controller, path) for controller in CONTROLLERS))
        found = (self._journal.below(folder) for folder in dict.fromkeys(folders))
        return {file.rpartition("/")[2]: was for each in found for file, was in each.items()}

    def protected(self) -> set[str]:
        """Return the cgroups whose protections the journal holds, from this process or the previous one."""
        return self._journalled("memory", frozenset({"memory.low", "memory.min"}))

    def text(self, path: str, controller: Controller, name: str) -> str | None:
        """Read one file of a cgroup; None if it is gone or cannot be read."""
        folder = self._layout.folder(controller, path)
        try:
            return None if folder is None else files.read(f"{folder}/{name}")
        except KernelInterfaceError:
            return None

    def members(self, path: str) -> tuple[int, ...]:
        """Return the processes of a cgroup itself."""
        folder = self._layout.folder("cpuset", path) or self._layout.folder("memory", path)
        text = files.read(f"{folder}/cgroup.procs") if folder is not None else None
        return tuple(numbers(text or ""))

    def look(self, path: str) -> Found | None:
        """Read a cgroup's CPUs; None if it is gone or has no cpuset."""
        folder = self._layout.folder("cpuset", path)
        return None if folder is None else cpusets.look(folder, self._layout.version)

    def is_there(self, path: str) -> bool:
        """Return whether a cgroup is in any of the hierarchies; on v1 it may be in one and not in another."""
        folders = {self._layout.folder(controller, path) for controller in CONTROLLERS}
        return any(folder is not None and files.is_folder(folder) for folder in folders)

    @property
    def is_cluttered(self) -> bool:
        """Whether the journal may hold so many ended cgroups that `tidy` is due."""
        return self._journal.is_cluttered

    def tidy(self) -> None:
        """Let the journal forget cgroups that are gone; see again, next time, whether pods' members follow them."""
        with self._lock:
            self._followed.clear()
            self._journal.forget_gone()
            self._bandwidths.tidy()
            self._overwritten.tidy(time.monotonic())

    def score(
        self, path: str, pids: Iterable[int], value: int, kubelets: int | None = None
    ) -> KernelInterfaceError | None:
        """Set the oom_score_adj of a container's processes, its first one first.

        The journal gets the kubelet's score; if it is unknown, the score that a process shows. The first refusal is
        returned, not raised, and ends it.
        """
        return oom_scores.give(
            self._proc, pids, str(value), lambda shown: self._note_score(path, shown, kubelets)
        )

    def remember(self, path: str, changes: Knobs) -> None:
        """Journal the values of a container's files before the runtime changes them; `arrived` follows its answer."""
        with self._lock:
            self._pushes.begin(path, changes)

    def arrived(self) -> None:
        """Note that the runtime has written the remembered files, or will not write them."""
        with self._lock:
            self._pushes.end()

    @property
    def version(self) -> int:
        """Of the cgroups: 1 or 2."""
        return self._layout.version

    def _limit_io(self, file: str, devices: tuple[str, ...], limit: int, writes: Writes) -> None:
        """Limit devices in one file, unless it shows the limit; without the file its name is noted as absent."""
        name, current = file.rpartition("/")[2], files.read(file)
        if current is None:
            writes.absent.append(name)
            return
        was = self._journal.original(file)
        former = io_limits.shown(current if was is None else was)
        if not all(
            io_limits.holds(name, current, device, limit, former.get(device, "")) for device in devices
        ):
            self._journal.note(file, current)
            try:
                if not io_limits.write(file, devices, limit, former):
                    writes.absent.append(name)
            finally:
                # a device may be limited before the next one is refused
                now = files.read(file)
                if now is not None and now != current:
                    writes.corrected.append(Correction(name, current, now))

    def _note_score(self, path: str, shown: str, kubelets: int | None) -> None:
        folder = (
            (self._layout.folder("cpuset", path) or self._layout.folder("memory", path)) if path else None
        )
        if folder is None:
            return
        file = f"{folder}/{oom_scores.NAMES[self._layout.version - 1]}"
        with self._lock:
            if kubelets is None:
                self._journal.note(file, shown)
            else:
                self._journal.note_known(file, str(kubelets))

    def _put_back(
        self, path: str, means: Callable[[str], bool], apart: Iterable[Apart] | None = None
    ) -> tuple[KernelInterfaceError, ...]:
        folders = (self._layout.folder(controller, path) for controller in CONTROLLERS)
        return self._putting_back.run(dict.fromkeys(filter(None, folders)), means, apart)

    def _folders_of(self, apart: Iterable[Apart]) -> Iterator[Apart]:
        folders = ((self._layout.folder("cpuset", each.path), each) for each in apart)
        return (each._replace(path=folder) for folder, each in folders if folder is not None)

    def _journalled(self, controller: Controller, names: frozenset[str]) -> set[str]:
        """Return the cgroups of which the journal holds a file of these names."""
        root = f"{self._layout.folder(controller, '')}/"
        with self._lock:
            parts = [
                file.removeprefix(root).rpartition("/")
                for file in self._journal.files()
                if file.startswith(root)
            ]
        return {path for path, _, name in parts if name in names}

    def _move(self, target: Target, writes: Writes) -> tuple[CPUMask | None, CPUMask | None]:
        folder = self._layout.folder("cpuset", target.path)
        if not target.cpus or folder is None:
            return None, None
        version, before = self._layout.version, None
        try:
            found = cpusets.look(folder, version)
            if found is None:
                return None, None
            beyond = cpusets.granted(folder, target.beyond) if version == 1 else 0
            before = found.cpus & ~beyond or found.cpus
            if target.journalled:
                # also where nothing is to be written: the next to write may be the runtime, by an answer of ours
                self._note(f"{folder}/{CPUS}", found.own)
            if found.holds(target.cpus | beyond, version) and (
                not target.inherited or self._is_followed(folder, target.cpus)
            ):
                writes.shown += found.shown
                return before, before
            writes.moves = True
            self._followed.pop(folder, None)
            return before, cpusets.move(
                folder, version, target.cpus, found, inherited=target.inherited, beyond=beyond
            )
        except KernelInterfaceError as error:
            writes.failures.append(error.as_value())
            return before, before

    def _note(self, file: str, found: str, *ours: str) -> None:
        """Journal the value that a file shows before we write it; `ours` as for `Journal.note`, no CPUs and nodes."""
        self._journal.note(file, write_back.own(file, found, self._layout.version), *ours)

    def _is_followed(self, folder: str, cpus: CPUMask) -> bool:
        """Return whether all children of a cgroup have these CPUs.

        The children are read once for each set of CPUs, because reading them all costs as much as the rest of a look.
        A refusal or the previous process may have left children behind.
        """
        if self._followed.get(folder) == cpus:
            return True
        is_followed = cpusets.is_followed(folder, self._layout.version, cpus)
        if is_followed:
            self._followed[folder] = cpus
        return is_followed

    def _write(self, target: Target, value: FileValue, writes: Writes) -> None:
        """Write one file unless it shows its value."""
        folder = self._layout.folder(value.controller, target.path)
        path = f"{folder}/{value.name}"
        try:
            current = files.read(path) if folder is not None else None
            if current is None:
                writes.absent.append(value.name)
                return
            if is_image(current, value):
                self._images.add(value.name)
            if value.name == MEMS and not holds(current, value):
                text = cpusets.bearable(str(folder), self._layout.version, value.text)
                if text != value.text:
                    writes.partly.append(value.name)
                value = FileValue(value.controller, value.name, text)
            if not holds(current, value):
                text = value.image if value.image and value.name in self._images else value.text
                self._change(target, value, Correction(path, current, text), writes)
                return
            writes.shown.append((path, current))
            if target.journalled:
                self._journal.suspect(path, current)
                if self._journal.original(path) is not None:
                    self._overwritten.wrote(path, current)
        except KernelInterfaceError as error:
            writes.failures.append(error.as_value())

    def _change(self, target: Target, value: FileValue, change: Correction, writes: Writes) -> None:
        path, current, text = change
        files.checked(path, current)
        if target.journalled:
            self._overwritten.found(path, current, time.monotonic())
            self._note(path, current, *(() if value.name in CPUSETS else value.texts))
        if memory_files.reclaims(path, text):
            lower = self._memory.lower_journalled if target.journalled else self._memory.lower
            writes.later.append(Later(path, partial(lower, change)))
        elif not cpusets.write(path, text, self._layout.version, inherited=target.inherited):
            writes.absent.append(value.name)
            return
        elif target.journalled:
            self._overwritten.wrote(path, text)
        writes.corrected.append(Correction(value.name, current, text))
