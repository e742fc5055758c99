"""The kubelet's part under the systemd cgroup driver: a pod's cgroup is a slice that systemd makes."""

from pathlib import Path
from typing import Final

from nri_coloc.core import knobs
from tests.rig import commands
from tests.rig.containerd import Containerd
from tests.rig.cri import Cri

UNITS: Final = Path("/run/systemd/system")
# the properties that libcontainer sets on a pod's slice (opencontainers/cgroups, systemd driver)
_SLICE: Final = """\
[Unit]
Description=a pod
DefaultDependencies=no
[Slice]
MemoryAccounting=yes
CPUAccounting=yes
IOAccounting=yes
TasksAccounting=yes
CPUWeight=@WEIGHT@
"""


class SystemdCri(Cri):
    """Make pods whose cgroups are slices, over CRI."""

    def __init__(self, containerd: Containerd) -> None:
        super().__init__(containerd.cri_socket, containerd.ledger)
        self._slices: list[str] = []

    def _make_cgroup(self, cgroup: str) -> None:
        UNITS.mkdir(parents=True, exist_ok=True)
        weight = 1 if "besteffort" in cgroup else 39
        (UNITS / cgroup).write_text(_SLICE.replace("@WEIGHT@", str(weight)))
        systemctl("start", cgroup)
        self._slices.append(cgroup)

    def weigh(self, cgroup: str, shares: int) -> None:
        """Let systemd write a pod's CPU request, as libcontainer does for the kubelet."""
        systemctl("set-property", "--runtime", cgroup, f"CPUWeight={knobs.cpu_weight(shares)}")

    def remove_all(self, seconds: float = 60) -> None:
        """Remove every pod, then stop their slices as the kubelet does."""
        super().remove_all(seconds)
        for name in self._slices:
            systemctl("stop", name)
            (UNITS / name).unlink()
        self._slices.clear()


def systemctl(*arguments: str) -> None:
    """Run systemctl; RigError shows all that a failed one printed."""
    commands.output(["systemctl", *arguments], seconds=300)
