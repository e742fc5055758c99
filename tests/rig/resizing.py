"""An imitation of the kubelet's in-place resize of a pod's CPU limits, step by step, beside a writer of ours.

The order is that of pkg/kubelet/kuberuntime/kuberuntime_manager.go, doPodResizeAction: read the pod's quota; write a
larger one; have the runtime write the containers' quotas, each after our hook; write a smaller one. `Files` is where
quotas are: the kernel's own files or an imitation of them.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from nri_coloc.host.bandwidth_files import SHOWN_S, Bandwidths, PodBandwidth, Share
from nri_coloc.tuning.bandwidths import RESIZE_LASTS_S

MILLI: Final = 100
"""µs for one milli-CPU in a period of 100 ms: the kubelet's quotas are multiples of it."""


class Files(Protocol):
    """Quotas by the path of a cgroup, µs; a refused write raises OSError."""

    def get(self, path: str) -> int: ...

    def set(self, path: str, quota: int) -> None: ...


class Pod:
    """A pod whose quotas the kubelet and our writer change; time passes by `pass_time`."""

    def __init__(self, path: str, files: Files, ours: Bandwidths, owns: Mapping[str, int]) -> None:
        self.path = path
        self.owns = dict(owns)
        self._files = files
        self._ours = ours
        self._now = 0.0
        self._resized_at = -RESIZE_LASTS_S
        self._raised: dict[str, int] = {}

    @property
    def quota(self) -> int:
        """Return the pod's quota in its file, µs."""
        return self._files.get(self.path)

    def pass_time(self, seconds: float) -> None:
        self._now += seconds

    def raise_to(self, raised: Mapping[str, int]) -> None:
        """Let the quota burst raise containers to these quotas; no container is raised during a resize."""
        self._raised = dict(raised)
        self.sweep()

    def sweep(self) -> None:
        """Let our writer apply its values."""
        is_resized = self._now - self._resized_at < RESIZE_LASTS_S
        shares = {
            name: Share(own, own if is_resized else max(own, self._raised.get(name, own)))
            for name, own in self.owns.items()
        }
        self._ours.apply(PodBandwidth(self.path, shares), self._now)

    def resize(self, wanted: Mapping[str, int]) -> Iterator[str]:
        """Resize as the kubelet does; yield between its steps. At the end the pod has the sum of its containers'."""
        read, new = self._files.get(self.path), sum(wanted.values())
        yield "read"
        if new > read:
            self._files.set(self.path, new)
            yield "pod grew"
        for name, quota in wanted.items():
            if quota == self.owns[name]:
                continue
            self.owns[name] = quota
            self._resized_at = self._now  # UpdateContainer: our hook runs before the runtime writes
            self.sweep()
            yield "hook"
            self._files.set(name, quota)
            yield "container"
        if new < read:
            self._files.set(self.path, new)
        yield "end"


def play(pod: Pod, seed: int, steps: int = 40) -> None:
    """Play resizes and raises in a random order; a refused write of the kubelet raises OSError.

    The kubelet takes less than `SHOWN_S` from its read to its first write.
    """
    dice = random.Random(seed)
    for _ in range(steps):
        pod.raise_to({name: dice.randint(own, 3 * own) for name, own in pod.owns.items()})
        pod.pass_time(dice.choice((0.1, 2.0, 2.0, 15.0)))
        pod.sweep()
        wanted = {name: MILLI * dice.choice((500, 1000, 1500, 2000, 3000)) for name in pod.owns}
        if wanted == pod.owns:
            continue  # the kubelet has nothing to do
        kubelet = pod.resize(wanted)
        for step in kubelet:
            pod.pass_time(SHOWN_S / 2 if step == "read" else dice.choice((0.0, 0.5)))
            if dice.random() < 0.8:
                pod.raise_to({name: dice.randint(own, 3 * own) for name, own in pod.owns.items()})
        pod.raise_to({})
        pod.pass_time(RESIZE_LASTS_S)
        pod.sweep()
        left = pod.quota
        assert left == sum(pod.owns.values()), f"the pod's quota is {left} µs, its containers' are {pod.owns}"
