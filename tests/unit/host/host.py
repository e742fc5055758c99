"""A host's folder with cgroups in it and a writer on them."""

from pathlib import Path

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import CONTROLLERS
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import Applied, FileValue, Target
from tests.rig.journals import load

SHARES = FileValue("cpu", "cpu.shares", "2")
WEIGHT = FileValue("cpu", "cpu.weight", "1")


class Host:
    """A host's folder with a writer on it; `cgroup` makes a cgroup with these files."""

    def __init__(self, root: Path, version: int) -> None:
        self.version = version
        self.base = root / "sys/fs/cgroup"
        mounts: dict[str, str] = {
            name: str(self.base if version == 2 else self.base / name)
            for name in ("cpu", "cpuset", "memory", "blkio")
        }
        self.journal_path = root / "journal"
        self.journal = Journal(str(self.journal_path), str(root))
        self.writer = CgroupWriter(CgroupLayout(version, **mounts), self.journal, str(root), lambda _: None)
        self.root = root

    def file(self, name: str, path: str = "pod") -> Path:
        first = name.partition(".")[0]
        mount = first if first in CONTROLLERS else "cpuset"
        return (self.base if self.version == 2 else self.base / mount) / path / name

    def cgroup(self, path: str = "pod", **files: str) -> None:
        for name, text in files.items():
            file = self.file(name.replace("_", ".", 1) if name != "cgroup_procs" else "cgroup.procs", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")

    def text(self, name: str, path: str = "pod") -> str:
        return self.file(name, path).read_text().strip()

    def apply(
        self, cpus: str = "", *values: FileValue, path: str = "pod", journalled: bool = False
    ) -> Applied:
        return self.writer.apply(Target(path, cpuset.parse(cpus), values, journalled))

    def noted(self) -> dict[str, str]:
        return {name.rpartition("/")[2]: was for name, was in load(str(self.journal_path)).items()}
