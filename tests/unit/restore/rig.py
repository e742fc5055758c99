"""A machine with one pod on cgroup v1 or v2, and a fake runtime that keeps each update."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nri_coloc._pb import nri_pb2
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.workload import RECORD_KEY, KnownKeys
from nri_coloc.host import cgroup_layout
from nri_coloc.nri import codec
from nri_coloc.nri.events import Call, Synchronize
from nri_coloc.restore.spec_restoration import SpecRestoration, SpecsRestored
from nri_coloc.runtime.listing import Listing
from tests.rig import told

PATH = "kubepods/podu"
V1 = {
    "cpuset": {"cpuset.cpus": "2-3", "cpuset.mems": "0"},
    "cpu": {"cpu.shares": "512", "cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"},
    "memory": {"memory.limit_in_bytes": "4096", "cgroup.procs": "7\n"},
    "blkio": {"blkio.bfq.weight": "10"},
}
V2 = {
    "cpuset.cpus": "2-3", "cpuset.cpus.effective": "2-3", "cpuset.mems": "0", "cpuset.mems.effective": "0",
    "cpu.weight": "20", "cpu.max": "50000 100000", "memory.max": "4096", "memory.high": "2048",
    "io.weight": "default 10", "cgroup.procs": "7\n",
}  # fmt: skip


def recorded(**original: Any) -> str:
    return json.dumps({"v": 1, "class": "reclaimed", "pool": "reclaim", "original": original})


class Rig:
    """A machine with one pod, and a fake runtime that keeps each update."""

    def __init__(self, root: Path, version: int) -> None:
        self.root, self.version = root, version
        self.told: list[tuple[str, Knobs, dict[str, str]]] = []
        self.pauses: list[float] = []
        self.raises: dict[str, Exception] = {}
        self.entries: dict[str, str] = {}
        self.containers: list[Any] = []
        self.pod = nri_pb2.PodSandbox(id="p", uid="u", name="web", namespace="shop")
        self.base = root / "sys/fs/cgroup"
        self._make(PATH, cpus="0-7")
        (root / "proc/7").mkdir(parents=True)
        self.score = root / "proc/7/oom_score_adj"
        self.score.write_text("1000\n")

    def _make(self, path: str, cpus: str = "2-3") -> None:
        if self.version == 2:
            self.base.mkdir(parents=True, exist_ok=True)
            (self.base / "cgroup.controllers").write_text("cpu")
        for mount, content in V1.items() if self.version == 1 else (("", V2),):
            folder = self.base / mount / path
            folder.mkdir(parents=True)
            for name, text in content.items():
                (folder / name).write_text(f"{cpus if name.startswith('cpuset.cpus') else text}\n")

    def container(self, name: str, record: str = "", *, running: bool = True, **annotations: str) -> Any:
        """Put a container into the list, and its cgroup on the machine."""
        self._make(f"{PATH}/{name}")
        state = nri_pb2.CONTAINER_RUNNING if running else nri_pb2.CONTAINER_CREATED
        message = nri_pb2.Container(id=name, pod_sandbox_id="p", name=name, state=state, pid=7)
        message.annotations.update(({RECORD_KEY: record} if record else {}) | annotations)
        message.linux.cgroups_path = f"/{PATH}/{name}"
        message.linux.oom_score_adj.value = 1000
        resources = message.linux.resources
        resources.cpu.cpus, resources.cpu.shares.value = "2-3", 512
        resources.cpu.quota.value, resources.cpu.period.value = 50_000, 100_000
        resources.memory.limit.value = 4096
        self.containers.append(message)
        return message

    def put_back(self, container_id: str, changes: Knobs, unified: Mapping[str, str]) -> None:
        if container_id in self.raises:
            raise self.raises[container_id]
        self.told.append((container_id, changes, dict(unified)))

    def run(self, **options: Any) -> SpecsRestored:
        layout = cgroup_layout.detect(str(self.root))
        work = SpecRestoration(layout, str(self.root), self, self.entries, self.pauses.append)
        return work.run(self.listing(), **options)

    def listing(self) -> Listing:
        listing = Listing(codec.Reader(KnownKeys()))
        containers = [told.container(each) for each in self.containers]
        listing.add(Synchronize(Call(1, "Synchronize", 0), [told.pod(self.pod)], containers, more=False))
        return listing

    def file(self, name: str, controller: str = "", container: str = "c") -> Path:
        return self.base / (controller if self.version == 1 else "") / PATH / container / name

    def text(self, *where: str) -> str:
        return self.file(*where).read_text().strip()
