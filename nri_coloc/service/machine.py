"""The machine as pods may use it: its topology, within the CPUs that the cgroup of all pods has."""

from typing import Final, NamedTuple

from nri_coloc.core.state import NodeState
from nri_coloc.core.topology import Topology
from nri_coloc.host import cgroup_layout, granted, sysfs
from nri_coloc.host.cgroup_layout import CgroupLayout
from nri_coloc.host.granted import Granted
from nri_coloc.host.sysfs import Glimpse
from nri_coloc.repair import targets

_DRIVERS: Final = (
    "containers lie outside their pods' cgroups, as /{place}: the kubelet's cgroup driver is systemd and the "
    "runtime's is cgroupfs; set SystemdCgroup = true in the runtime's options (containerd's config.toml), restart it "
    "and delete the pods, or set cgroupDriver: cgroupfs in the kubelet's configuration"
)


class Look(NamedTuple):
    """The facts of which one changes when the topology changes, or the CPUs that pods may have."""

    glimpse: Glimpse
    granted: Granted


class Machine:
    """Reads below `host_root`; keeps nothing."""

    def __init__(self, host_root: str, layout: CgroupLayout) -> None:
        self._host_root = host_root
        self._layout = layout

    def look(self, kubepods: tuple[str, ...]) -> Look:
        """Return the present facts. Raises KernelInterfaceError as `sysfs.glimpse`.

        kubepods: the cgroup of all pods by the pods' paths, as `targets.kubepods`.
        """
        glimpse = sysfs.glimpse(self._host_root)
        return Look(glimpse, granted.read(self._layout, self._present(kubepods), glimpse.online))

    def read(self, state: NodeState | None = None) -> Topology:
        """Return the topology that pods may use; all of it where they may use no CPU.

        Without a state no pod is known yet. Raises KernelInterfaceError as `topology.read`.
        """
        whole = sysfs.read(self._host_root)
        found = granted.read(self._layout, self._kubepods(state), whole.online)
        return whole.within(found.cpus, found.mems)

    def problem(self, state: NodeState) -> str:
        """Return which file leaves pods no CPU, or that kubelet and runtime have two cgroup drivers; "" if neither."""
        return granted.problem(self._granted(state), state.topology.usable_by_all) or self._two_drivers(state)

    def _two_drivers(self, state: NodeState) -> str:
        """Return where a container lies whose runtime took systemd's notation for a path; "" if there is none."""
        places = (each.container.cgroups_path for each in state.containers.values())
        found = next((each for each in places if cgroup_layout.is_literal(self._layout, each)), "")
        return _DRIVERS.format(place=found) if found else ""

    def remark(self, state: NodeState) -> str:
        """Return which file keeps pods from some CPUs, or that the cgroup of all pods is unknown; "" if neither."""
        unknown = "" if targets.kubepods(state) else cgroup_layout.ambiguity(self._layout)
        return unknown or granted.remark(self._granted(state), state.topology.machine)

    def _granted(self, state: NodeState) -> Granted:
        return granted.read(self._layout, self._kubepods(state), state.topology.machine)

    def _kubepods(self, state: NodeState | None) -> tuple[str, ...]:
        """Return the cgroup of all pods: from pods' paths, and before the first pod the only one that exists."""
        return self._present(targets.kubepods(state) if state is not None else ())

    def _present(self, kubepods: tuple[str, ...]) -> tuple[str, ...]:
        return kubepods or cgroup_layout.only_kubepods(self._layout)
