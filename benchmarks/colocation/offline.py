"""Offline work that disturbs online pods, of four kinds, one after another; each counts the work that it does."""

import struct
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.colocation import kubelet
from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri, Limits
from tests.rig.workloads import Workload

THREADS: Final = 4 * len(cgroups.online())
HAYSTACK_BYTES: Final = 1 << 30
OWN_BYTES: Final = 128 << 20
WRITTEN_BYTES: Final = 256 << 20
THROTTLED: Final = "throttled"
REQUEST_SHARES: Final = 1024 * len(cgroups.online()) // 2


@dataclass(frozen=True, slots=True)
class Kind:
    """Describe a kind of offline work; `unit` and `scale` belong to its reported count."""

    command: tuple[str, ...]
    unit: str
    scale: float


KINDS: Final = {
    "busy": Kind(("busy", str(THREADS)), "k loops", 1e-3),
    "memory": Kind(
        ("memory", str(THREADS), "/scratch/haystack", str(OWN_BYTES)), "GiB read", 4096 / (1 << 30)
    ),
    "disk": Kind(("disk", "/scratch/written", str(WRITTEN_BYTES)), "MiB written", 1 / (1 << 20)),
    "spill": Kind(("spill", str(THREADS), "/scratch/written", str(WRITTEN_BYTES)), "k loops", 1e-3),
}


class Hog:
    """Run one pod of offline work; `folder` is on a real disk."""

    def __init__(
        self, cri: Cri, kind: str, program: Path, folder: Path, *, burstable: bool, throttled: bool
    ) -> None:
        self.kind = KINDS[kind]
        self._cri = cri
        self._counter = folder / "counter"
        self._counter.write_bytes(bytes(4096))
        if kind == "memory" and not (folder / "haystack").exists():
            with (folder / "haystack").open(
                "wb"
            ) as file:  # holes fill the page cache as data does, without the wait
                file.truncate(HAYSTACK_BYTES)
        qos = kubelet.BURSTABLE if burstable else kubelet.BESTEFFORT
        shares = REQUEST_SHARES if burstable else kubelet.LEAST_SHARES
        cgroup = f"{qos}/pod{uuid.uuid4()}"
        kubepods.create(cgroup)  # as the kubelet does, with its weight, before the plugin learns of the pod
        kubelet.weigh(cgroup, shares)
        annotations = {workloads.QOS: "reclaimed"}
        if throttled:
            annotations["coloc.nri.io/blockio-class"] = THROTTLED
        self.pod = cri.run_pod("offline", annotations=annotations, cgroup_parent=cgroup)
        limits: Limits = {"shares": shares, "oom": 1000}
        container = cri.create_container(
            self.pod,
            "hog",
            command=("/bin/hog", *self.kind.command),
            env={"HOG_COUNTER": "/scratch/counter", "GODEBUG": "asyncpreemptoff=1"},
            mounts={"/bin/hog": program, "/scratch": folder},
            **limits,
        )
        self.workload = Workload(cri, self.pod, container).start()

    def count(self) -> int:
        """Return the work that it has done, in its unit before scaling."""
        with self._counter.open("rb") as file:
            number: int = struct.unpack("=q", file.read(8))[0]
            return number

    def remove(self) -> None:
        """End it and remove it."""
        self._cri.remove_pod(self.pod.id)
        kubepods.remove(self.pod.cgroup)
