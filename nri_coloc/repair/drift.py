"""Drift and refusals: values that another writer changed, writes that the kernel refused, and the limits of both.

The values last applied to each cgroup are remembered. If a value is still wanted and has changed, another writer
changed it: this is drift. A newly wanted value is our own change, whichever thread writes it first. A value that was
never seen in place is no drift: its writer is unknown. One instance is used under one lock, or by one thread.

A refused write is tried again after a pause that doubles: the cause seldom ends within seconds. EINVAL, EBUSY and
EACCES come from neighbouring cgroups, and from rules that the kernel does not report. Only periodic checks pause. A new
value is written at once, and an operator's order ends all pauses.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, NamedTuple

from nri_coloc.core import cpuset, knobs
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.report import Drift
from nri_coloc.core.value import replace
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import cgroup_layout, knob_files
from nri_coloc.host.knob_files import CPUS, MEMS, Applied, Correction, FileValue, Target, holds

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""Drift of other files in that cgroup waits as long."""

KEPT_S: Final = 3600.0
"""Seconds after the end of a pause in which another try counts as repeated. No end of a cgroup is reported to all
callers: without a bound each refused one that ended would be kept for ever."""


class _Pause(NamedTuple):
    until: float
    seconds: float


class Refusals:
    """Pauses before a write that the kernel refused is tried again, by the caller's id (path, pod or container).

    The pause doubles with each refusal, and a success ends it. One instance is used under one lock, or by one thread.
    """

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def tried(self, id_: str, failures: Sequence[KernelInterfaceError]) -> None:
        """Note a try: success ends the pauses, and a failure begins a longer one."""
        if not failures:
            self._pauses.pop(id_, None)
            return
        now, known = time.monotonic(), self._pauses.get(id_)
        seconds = min(2 * known.seconds, LONGEST_PAUSE_S) if known is not None else FIRST_PAUSE_S
        self._pauses = {k: one for k, one in self._pauses.items() if now - one.until < KEPT_S}
        self._pauses[id_] = _Pause(now + seconds, seconds)

    def refused(self, id_: str) -> bool:
        """Return whether the last try was refused."""
        return id_ in self._pauses

    def pauses(self, id_: str) -> bool:
        """Return whether the next try is not due yet."""
        pause = self._pauses.get(id_)
        return pause is not None and time.monotonic() < pause.until

    def forget(self, id_: str) -> None:
        """Forget a cgroup that is gone, or that another value is wanted for."""
        self._pauses.pop(id_, None)

    def forgive(self) -> None:
        """End all pauses."""
        self._pauses.clear()

    @property
    def ids(self) -> set[str]:
        """The ids with a refused write."""
        return {*self._pauses}


REPAIRS_PER_MINUTE: Final = 6
"""Repairs of one cgroup in a minute, however often another writer changes it."""

MINUTE_S: Final = 60.0

FORMER_KEPT: Final = 4
"""Earlier targets of a cgroup that are remembered: as many as can change during one slow update of the runtime."""

RUNTIME_LATE_S: Final = 10.0
"""Seconds after a push was answered, after the kubelet's update, or after a start with the driver systemd, in which a
former value may still be written late."""

LONGEST_WRITE_S: Final = 120.0
"""Seconds that a write of the runtime may take; then the kubelet gives up its call (`runtimeRequestTimeout`)."""

_SYSTEMDS: Final = tuple(
    FileValue(file.controller, file.name, file.fresh) for file in knobs.files("io_weight")
)
"""The values that systemd writes to a scope when the runtime changes another property of it: I/O weights are no
properties of runc's scopes (`knob_files.beyond_pushes`)."""

_KUBELETS: Final = Knobs(shares=0, memory_limit=0)
"""A mask of the knobs that the kubelet writes at a resize (pkg/kubelet/kuberuntime, doPodResizeAction)."""

ANNOUNCED_WITHIN_S: Final = 5.0
"""Seconds that a kubelet may take from its write of a pod's cgroup to the call that announces the resize.

Kubernetes 1.34 and 1.35 write a pod that grows first, and call the runtime in the same turn."""


def is_kubelets(drift: Drift) -> bool:
    """Return whether a kubelet's resize writes all values found in a pod's cgroup: its shares and its memory limit."""
    return not drift.before.without(_KUBELETS).named()


class Unannounced:
    """Drifts of pods that a kubelet may still announce as its resize; for one thread at a time.

    is_resized: returns whether a resize of a pod was announced, by its id.
    """

    def __init__(self, is_resized: Callable[[str], bool]) -> None:
        self._is_resized = is_resized
        self._held: dict[str, tuple[float, Drift]] = {}

    def judge(self, pod_id: str, drift: Drift | None, now: float) -> tuple[Drift, ...]:
        """Return the drifts of a pod to report now; `drift`: found now, if any."""
        at, held = self._held.pop(pod_id, (now, None))
        if drift is None and held is None:
            return ()
        if self._is_resized(pod_id):
            return (drift,) if drift is not None and not is_kubelets(drift) else ()
        if drift is None and held is not None and now - at < ANNOUNCED_WITHIN_S:
            self._held[pod_id] = at, held
            return ()
        # a kubelet resizes a pod once: a repeated drift is reported at once
        if drift is not None and drift.times <= 1 and is_kubelets(drift):
            self._held[pod_id] = now, drift
            drift = None
        return tuple(each for each in (held, drift) if each is not None)

    def holds(self, pod_id: str) -> bool:
        """Return whether a drift of a pod waits for an announcement."""
        return pod_id in self._held

    def forget(self, pod_id: str) -> None:
        """Drop a pod that is gone."""
        self._held.pop(pod_id, None)


def worded(found: Sequence[Correction], times: int) -> Drift:
    """Return the drift of one cgroup with its reason in words; `times`: repairs of it within the minute."""
    before, after = NO_KNOBS, NO_KNOBS
    for each in found:
        # the first file of a knob counts: the other files hold the same value on other scales
        before = _knob(each.name, each.was).overlaid(before)
        after = _knob(each.name, each.now).overlaid(after)
    said = ", ".join(f"{_called(each.name)} {_said(each.was)} instead of {_said(each.now)}" for each in found)
    rests = f"; repair paused: {times} repairs in 60 s" if times == REPAIRS_PER_MINUTE else ""
    return Drift(before, after, f"repaired: {said}{rests}", times=times)


class Drifts:
    """Finds drift by id: a container's or a pod's, or the path of a cgroup.

    refusals: the kernel's refusals, by the same ids.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.refusals = Refusals()
        self._clock = clock
        self._known: dict[str, Target] = {}
        self._ordered: dict[str, Target] = {}
        self._former: dict[str, deque[Target]] = {}
        self._repairs: dict[str, list[float]] = {}
        self._written_until: dict[str, float] = {}

    def expect(self, id_: str, path: str, cpus: int) -> None:
        """Note the CPUs that the runtime was sent for a cgroup; its other values are unknown.

        With the driver systemd the CPUs of a new container are written some time after the runtime asked.
        """
        self._known[id_] = Target(path, cpus)
        if cgroup_layout.is_scope(path):
            self.pushing(id_)

    def pushing(self, id_: str) -> None:
        """Note that the runtime is about to write values of a cgroup, perhaps later than the next change of them."""
        self._written_until[id_] = self._clock() + LONGEST_WRITE_S

    def pushed(self, id_: str) -> None:
        """Note that the runtime says to have written the values of a cgroup; systemd may still be writing them."""
        if id_ in self._written_until:
            self._written_until[id_] = self._clock() + RUNTIME_LATE_S

    def judge(self, id_: str, target: Target, applied: Applied) -> Drift | None:
        """Note the values applied to a cgroup; return its drift, which counts as a repair, None if there is none."""
        known = self._known.get(id_)
        self._ordered[id_] = target
        self.refusals.tried(id_, applied.failures)
        whole = not (applied.failures or applied.absent or applied.partly or applied.later)
        whole = whole and applied.cpus == (target.cpus or None)
        self._known[id_] = target if whole else _in_place(known, target, applied)
        if whole and known is not None and known.cpus == target.cpus and _held(applied):
            return None  # as almost always; comparing targets as a whole costs more than all the rest
        if known is not None and known != target:
            self._former.setdefault(id_, deque(maxlen=FORMER_KEPT)).append(known)
        found = list(_drifted(known, target, applied)) if known is not None else []
        return self._told(id_, found) if found else None

    def let_go(self, path: str, put_back: Callable[[], Sequence[KernelInterfaceError]]) -> bool:
        """Restore a cgroup's original values and forget it; return False if that is refused, or not due yet."""
        own = Target(path)
        if self.lets_be(path, own):
            return False
        failures = put_back()
        if failures:
            self.judge(path, own, Applied(failures=tuple(failures)))
            return False
        self.forget(path)
        return True

    def _told(self, id_: str, found: Sequence[Correction]) -> Drift | None:
        """Return a drift; None if the runtime wrote late, and only values ordered before or systemd's own."""
        former, path = self._former.get(id_, ()), self._ordered[id_].path
        systemds = (Target(path, values=_SYSTEMDS),) if cgroup_layout.is_scope(path) else ()
        if self._clock() < self._written_until.get(id_, -inf):
            found = [each for each in found if not _is_a_specs(each)]
            if _all_shown(found, (*former, *systemds)):
                return None
        drift = worded(found, self.count(id_))
        if not _all_shown(found, former):
            return drift
        late = "the value was ordered before, and the runtime or systemd may have written it late"
        return drift._replace(former=True, because=f"{drift.because}; {late}")

    def count(self, id_: str) -> int:
        """Count a repair; return the number of repairs within the minute."""
        now = self._clock()
        repairs = [*self._recent(id_, now), now]
        self._repairs[id_] = repairs
        return len(repairs)

    def lets_be(self, id_: str, target: Target | None = None) -> bool:
        """Return whether a cgroup is left alone: its repairs are paused, or a refused write is not due again.

        target: the wanted values; if they were not ordered at the last try, they are always written.
        """
        if target is not None and self._ordered.get(id_) != target:
            return False
        return self.refusals.pauses(id_) or len(self._recent(id_, self._clock())) >= REPAIRS_PER_MINUTE

    def resized(self, id_: str) -> None:
        """Note a resize of a pod: the kubelet's writes are no fight, so its repairs until now count no more."""
        self._repairs.pop(id_, None)

    def forgive(self) -> None:
        """End all pauses, however often a cgroup was repaired or refused a write."""
        self._repairs.clear()
        self.refusals.forgive()

    def forget(self, id_: str) -> None:
        """Drop a cgroup that is gone or no longer managed."""
        for known in (self._known, self._ordered, self._former, self._repairs, self._written_until):
            known.pop(id_, None)
        self.refusals.forget(id_)

    @property
    def ids(self) -> set[str]:
        """Return the ids of all cgroups with known values, repairs or pushes."""
        return {*self._known, *self._repairs, *self._written_until}

    def _recent(self, id_: str, now: float) -> list[float]:
        return [at for at in self._repairs.get(id_, ()) if now - at < MINUTE_S]


def _held(applied: Applied) -> bool:
    return applied.before == applied.cpus and not applied.corrected


def _in_place(known: Target | None, target: Target, applied: Applied) -> Target:
    """Return the part of a target that the kernel took; for a cgroup that does not exist yet, the expected CPUs.

    A value whose write was put off counts as in place when a check finds it: until then it is no drift.
    """
    lacks = {*applied.absent, *applied.partly} | {later.name for later in applied.later}
    lacks |= {failure.path.rpartition("/")[2] for failure in applied.failures}
    cpus = target.cpus if applied.cpus == target.cpus else 0
    if applied.before is None and known is not None:
        cpus = known.cpus
    return replace(target, cpus=cpus, values=tuple(v for v in target.values if v.name not in lacks))


def _drifted(known: Target, target: Target, applied: Applied) -> Iterable[Correction]:
    """Yield the values that were wanted before and still are, but were found changed."""
    before = (applied.before or 0) & ~(known.beyond & ~target.cpus) or applied.before
    moved = applied.before is not None and before != applied.cpus == target.cpus
    if moved and known.cpus == target.cpus:
        yield Correction(CPUS, cpuset.render(applied.before or 0), cpuset.render(target.cpus))
    still = {*known.values} & {*target.values}
    names = {value.name for value in still}
    yield from (each for each in applied.corrected if each.name in names)


def _is_a_specs(found: Correction) -> bool:
    """Return whether the runtime may have written these memory nodes: no update takes any out of a spec."""
    if found.name != MEMS or not found.was:
        return False
    return not cpuset.parse(found.now) & ~cpuset.parse(found.was)


def _all_shown(found: Sequence[Correction], targets: Sequence[Target]) -> bool:
    """Return whether each value found is a value of one of these targets."""
    return all(any(_shows(target, each) for target in targets) for each in found)


def _shows(target: Target, found: Correction) -> bool:
    if found.name == CPUS:
        return cpuset.render(target.cpus) == found.was
    return any(value.name == found.name and holds(found.was, value) for value in target.values)


def _knob(name: str, text: str) -> Knobs:
    return Knobs(cpus=text) if name == CPUS else knob_files.shown(name, text)


def _called(name: str) -> str:
    return "CPUs" if name == CPUS else name


def _said(text: str) -> str:
    """Return the first line of a file, its default value; "nothing" for an empty one."""
    return text.split("\n", maxsplit=1)[0].removeprefix("default ") or "nothing"
