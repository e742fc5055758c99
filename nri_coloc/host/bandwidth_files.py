"""Quotas and bursts of one pod and its containers, written in an order that the kernel takes (`host.bandwidth`).

The files are read first: the kubelet writes pods' quotas, runc writes containers' quotas, and neither asks. A file is
in the journal exactly while it holds a value of ours. If it shows another value than our last write, another writer
changed it: its present value is the original value from then on.

The kubelet resizes a pod in three steps: it reads the pod's quota R; it writes the new quota X first if X > R; it has
runc write the containers' quotas, and before each of these writes our hook lowers all raised quotas of the pod; it
writes X last if X < R (pkg/kubelet/kuberuntime/kuberuntime_manager.go, doPodResizeAction). Three rules keep its write
from being refused or left out:

1. On cgroup v1 the kernel refuses X below a container's quota. The pod's quota is raised first, and its containers'
   quotas one second later. So a write with X > R exceeds every container's quota, also if R is up to a second old.
2. On cgroup v1 quotas are raised only where the pod's own quota is the sum of its containers'. For another pod (for
   example with pod-level resources) the kubelet may write a smaller X and no container, so that no hook comes. For the
   same reason a container without a quota of its own gets none below a pod that has one.
3. A raised pod's quota is an odd number of µs. The kubelet's are not (10 µs at least for one milli-CPU), so that X is
   never R.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from nri_coloc.core.knobs import NO_LIMIT
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.bandwidth import POD, Bandwidth, of_pod, writes
from nri_coloc.host.bandwidth import Write as Order
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import Correction, as_quota, number

QUOTAS: Final = ("cpu.cfs_quota_us", "cpu.max")
BURSTS: Final = ("cpu.cfs_burst_us", "cpu.max.burst")
"""By version of the hierarchy, 1 and 2."""

NAMES: Final = frozenset({*QUOTAS, *BURSTS})

SHOWN_S: Final = 1.0
"""Seconds between the raise of a pod's quota and that of its containers' quotas, on cgroup v1.

The kubelet takes less between its read and its write of a pod's quota: it only computes. Where it calls the runtime in
between, our hook lowers the raises.
"""

Folder = Callable[[str], str | None]
"""From a cgroup's path below the hierarchy's root to its folder in the cpu controller's."""


class Share(NamedTuple):
    """The values that a container should have, µs; None is the original value.

    own: the kubelet's quota, 0 for none.
    is_changed: whether the quota is ours, or was ours and is to be restored: a quota of None removes ours.
    """

    own: int = 0
    quota: int | None = None
    burst: int | None = None
    is_changed: bool = False

    @property
    def raised_by(self) -> int:
        """Return by how many µs the quota is above the container's own."""
        return 0 if self.quota is None or not self.own else max(0, self.quota - self.own)

    @property
    def is_lowered(self) -> bool:
        """Return whether the quota is below the own one. It is written also to a container without an own quota."""
        return self.quota is not None and (not self.own or self.quota < self.own)

    @property
    def without_raise(self) -> "Share":
        """Return the share with the own quota in place of a raised one."""
        return self._replace(quota=self.own) if self.raised_by else self


@dataclass(frozen=True, slots=True)
class PodBandwidth:
    """A pod's cgroup and the values of its containers.

    path: the pod's cgroup.
    containers: values by the path of a container's cgroup.
    quota, burst: µs, for the pod itself if a VM runs in it. The quota holds if the kubelet gives none.
    """

    path: str
    containers: Mapping[str, Share] = field(default_factory=dict)
    quota: int | None = None
    burst: int | None = None

    @property
    def extra(self) -> int:
        """Return by how many µs the containers' quotas are raised in all."""
        return sum(share.raised_by for share in self.containers.values())

    @property
    def largest(self) -> int:
        """The largest quota of a container, own or raised, µs; 0 for none.

        The pod's is never below: while a kubelet resizes a container, the runtime writes that quota before the kubelet
        writes the pod's, where the file showed one that is large enough.
        """
        return max((share.own + share.raised_by for share in self.containers.values()), default=0)


class Write(NamedTuple):
    """One file that was written, and whose: a container's by its path, or the pod's ("")."""

    target: str
    file: Correction


class Written(NamedTuple):
    """The result of one call.

    done: files that were written.
    failures: writes that the kernel refused.
    is_waiting: a container's quota rises once its pod's quota has been shown for `SHOWN_S`.
    not_lowered: containers that get no lower quota, by rule 2; their cgroups' paths.
    """

    done: tuple[Write, ...] = ()
    failures: tuple[KernelInterfaceError, ...] = ()
    is_waiting: bool = False
    not_lowered: frozenset[str] = frozenset()


class _Shown(NamedTuple):
    """A pod's quota before our last raise of it, µs, and the time of that raise."""

    before: int
    at: float


class Bandwidths:
    """One writer at a time: the caller serialises, as for the journal.

    Size: each rule compares a pod's files with the journal and with the last writes of this process.
    """

    def __init__(self, folder: Folder, version: int, journal: Journal) -> None:
        self._folder = folder
        self._version = version
        self._quota, self._burst = QUOTAS[version - 1], BURSTS[version - 1]
        self._journal = journal
        self._wrote: dict[str, str] = {}
        self._shown: dict[str, _Shown] = {}

    def pushed(self, file: str, shown: str | None) -> None:
        """Note what a file shows after a push of ours: another value than our last write is no other writer's."""
        if self._wrote.get(file) != shown:
            self._wrote.pop(file, None)

    def apply(self, pod: PodBandwidth, now: float) -> Written:
        """Write the values of a pod and its containers; a cgroup that is gone is left out. `now`: seconds."""
        found: dict[str, _Found] = {}
        failures: list[KernelInterfaceError] = []
        for name, path in ((POD, pod.path), *((path, path) for path in pod.containers)):
            try:
                here = self._read(path)
            except KernelInterfaceError as error:
                failures.append(error.as_value())
                continue
            if here is not None:
                found[name] = here
        self._renew_own(pod, found)
        highest, wanted = None, pod
        if POD in found:
            pod = self._of_one_sum(pod, found[POD])
            highest = self._highest(found[POD], now)
        near = _below(pod, highest)
        after = {
            path: self._of_container(found[path], near.containers[path]) for path in found if path != POD
        }
        if POD in found:
            after[POD] = self._of_pod(pod, found[POD], after)
        before = {name: found[name].bandwidth for name in after}
        done = [self._write(found[order.target], order, failures) for order in writes(before, after)]
        if not failures:
            self._forget_former_own(pod, found, after)
        if POD in found and highest is not None and after[POD].quota > found[POD].bandwidth.quota:
            self._shown[f"{found[POD].folder}/{self._quota}"] = _Shown(highest, now)
        return Written(tuple(filter(None, done)), tuple(failures), near != pod, _not_lowered(wanted, pod))

    def quota(self, path: str) -> int:
        """Return the present quota of a cgroup, µs; -1 for none, or if it is gone."""
        try:
            here = self._read(path)
        except KernelInterfaceError:
            return NO_LIMIT
        return NO_LIMIT if here is None else here.bandwidth.quota

    def tidy(self) -> None:
        """Forget the writes to files that the journal has forgotten."""
        self._wrote = {k: text for k, text in self._wrote.items() if self._journal.original(k) is not None}
        self._shown = {k: one for k, one in self._shown.items() if k in self._wrote}

    def _of_one_sum(self, pod: PodBandwidth, here: "_Found") -> PodBandwidth:
        """Return a pod as rule 2 allows it: on cgroup v1 without raises unless its quota is its containers' sum."""
        if self._version == 2 or self._is_sum(pod, here):
            return pod
        is_limited = self._own_quota(here) != NO_LIMIT
        shares = {
            path: share._replace(quota=None) if is_limited and not share.own else share.without_raise
            for path, share in pod.containers.items()
        }
        return replace(pod, containers=shares)

    def _is_sum(self, pod: PodBandwidth, here: "_Found") -> bool:
        owns = [share.own for share in pod.containers.values()]
        quota = self._own_quota(here)
        return all(owns) if quota == NO_LIMIT else quota == sum(owns)

    def _own_quota(self, here: "_Found") -> int:
        return as_quota(self._journal.original(f"{here.folder}/{self._quota}") or here.text)

    def _highest(self, here: "_Found", now: float) -> int | None:
        """Return the highest quota of a container by rule 1, µs; None for any."""
        if self._version == 2 or here.bandwidth.quota == NO_LIMIT:
            return None
        file, quota = f"{here.folder}/{self._quota}", here.bandwidth.quota
        shown = self._shown.get(file)
        if shown is None:
            return quota
        if self._wrote.get(file) == here.text and now - shown.at < SHOWN_S:
            return min(shown.before, quota)
        del self._shown[file]
        return quota

    def _read(self, path: str) -> "_Found | None":
        folder = self._folder(path)
        text = "" if folder is None else (files.value(f"{folder}/{self._quota}") or "").strip()
        if folder is None or not text:
            return None
        burst = files.value(f"{folder}/{self._burst}")
        self._notice(f"{folder}/{self._quota}", text)
        self._notice(f"{folder}/{self._burst}", burst)
        return _Found(folder, text, None if burst is None else number(burst))

    def _notice(self, file: str, shown: str | None) -> None:
        """Forget the journal entry of a file that another writer changed, and of a file that holds no value of ours.

        In the second case the file was journalled and never written: the previous process ended in between, or the
        cgroup was created again. Or the kubelet resized the pod while no daemon ran. The value in the file is another
        original value then, or the kubelet's next one will be.
        """
        if shown is not None:
            self._journal.suspect(file, shown)
            entry = self._journal.entry(file)
            if file not in self._wrote and entry and (entry.is_original(shown) or entry.is_anothers(shown)):
                self._journal.forget(file)
        if self._wrote.get(file, shown) != shown:
            self._journal.forget(file)
            del self._wrote[file]

    def _renew_own(self, pod: PodBandwidth, found: Mapping[str, "_Found"]) -> None:
        """Let the own quota of a container be the original one: it may have been resized while no daemon ran."""
        for path, share in pod.containers.items():
            if path not in found or not share.own:
                continue
            file = f"{found[path].folder}/{self._quota}"
            original = self._journal.original(file)
            if original is not None and as_quota(original) != share.own:
                self._journal.renew(file, self._text(found[path], share.own))

    def _forget_former_own(
        self, pod: PodBandwidth, found: Mapping[str, "_Found"], after: Mapping[str, Bandwidth]
    ) -> None:
        """Forget the quotas of containers that have their own: after a resize that is not what was there before us.

        Nor is a pod's that is below the own quota of a container.
        """
        for path, share in pod.containers.items():
            if path in found and share.own and after[path].quota == share.own:
                self._disown(found[path])
        original = self._journal.original(f"{found[POD].folder}/{self._quota}") if POD in found else None
        largest = max((share.own for share in pod.containers.values()), default=0)
        if original is not None and 0 <= as_quota(original) < largest:
            self._disown(found[POD])

    def _disown(self, here: "_Found") -> None:
        file = f"{here.folder}/{self._quota}"
        self._journal.forget(file)
        self._wrote.pop(file, None)

    def _of_container(self, here: "_Found", share: Share) -> Bandwidth:
        quota, burst = here.bandwidth
        if share.quota is not None and (share.is_lowered or quota != NO_LIMIT):
            quota = share.quota
        elif share.is_changed:
            quota = self._own_quota(here)
        if share.burst is not None:
            burst = share.burst
        elif (original := self._former_burst(here)) is not None:
            burst = original
        return _borne(here, quota, burst)

    def _of_pod(self, pod: PodBandwidth, here: "_Found", containers: Mapping[str, Bandwidth]) -> Bandwidth:
        quota = self._own_quota(here)
        if quota == NO_LIMIT:
            quota = pod.quota or NO_LIMIT
        else:
            quota = max(quota + pod.extra | 1 if pod.extra else quota, pod.largest)  # odd by rule 3
        bursting = {k: one for k, one in containers.items() if pod.containers[k].burst is not None}
        if pod.burst is not None:
            bursting[POD] = Bandwidth(quota, pod.burst)
        burst = here.burst or 0
        if bursting:
            burst = min(of_pod(quota, bursting).burst, self._highest_burst(pod, here))
        elif (original := self._former_burst(here)) is not None:
            burst = original
        return _borne(here, quota, burst)

    def _highest_burst(self, pod: PodBandwidth, here: "_Found") -> int:
        """Return the highest burst of a pod, µs, below every quota that the kubelet may write next.

        The kernel refuses a quota below its burst. Where the pod's own quota is not the sum of its containers', the
        kubelet may lower it to the largest of theirs without a hook.
        """
        own = self._own_quota(here)
        if own == NO_LIMIT or pod.burst is not None or self._is_sum(pod, here):
            return sys.maxsize
        return max((share.own for share in pod.containers.values()), default=0)

    def _former_burst(self, here: "_Found") -> int | None:
        """Return the original burst, µs; None if there is nothing to restore."""
        return number(self._journal.original(f"{here.folder}/{self._burst}") or "")

    def _write(self, here: "_Found", order: Order, failures: list[KernelInterfaceError]) -> Write | None:
        name, was, text = self._burst, str(here.burst), str(order.value)
        if order.knob == "quota":
            name, was, text = self._quota, here.text, self._text(here, order.value)
        failure = self._put(f"{here.folder}/{name}", was, text)
        if failure is None:
            return Write(order.target, Correction(name, was, text))
        failures.append(failure)
        return None

    def _text(self, here: "_Found", quota: int) -> str:
        """Return a quota in µs as its file takes it, with the period that the file shows."""
        if self._version == 1:
            return str(quota)
        return f"{'max' if quota == NO_LIMIT else quota} {here.text.partition(' ')[2]}"

    def _put(self, file: str, was: str, text: str) -> KernelInterfaceError | None:
        original = self._journal.original(file)
        if text != original:
            self._journal.note(file, was, text)
        try:
            files.write(file, text)
        except KernelInterfaceError as error:
            if original is None:
                self._journal.forget(file)  # the file may change before the next try
            return error.as_value()
        self._wrote[file] = text
        if text == original:
            self._journal.forget(file)
            del self._wrote[file]
        return None


class _Found(NamedTuple):
    """The contents of a cgroup's files; `burst` is None if the kernel has none."""

    folder: str
    text: str
    burst: int | None

    @property
    def bandwidth(self) -> Bandwidth:
        return Bandwidth(as_quota(self.text), self.burst or 0)


def _not_lowered(wanted: PodBandwidth, pod: PodBandwidth) -> frozenset[str]:
    """Return the containers whose lower quota was wanted, and is left out."""
    lowered = {k for k, one in wanted.containers.items() if one.is_lowered}
    return frozenset(k for k in lowered if pod.containers[k].quota is None)


def _below(pod: PodBandwidth, highest: int | None) -> PodBandwidth:
    """Return a pod whose raised containers have `highest` at most, and their own quota at least."""
    if highest is None:
        return pod
    shares = {
        path: share
        if share.quota is None or share.quota <= highest
        else share._replace(quota=max(share.own, min(share.quota, highest)))
        for path, share in pod.containers.items()
    }
    return replace(pod, containers=shares)


def _borne(here: _Found, quota: int, burst: int) -> Bandwidth:
    """Return a burst as far as its quota bears it; none where the kernel knows no bursts."""
    if here.burst is None:
        return Bandwidth(quota)
    return Bandwidth(quota, burst if quota == NO_LIMIT else min(burst, quota))
