"""Write the files of a container's cgroup as runc does, and raise its errors if a kernel would refuse a value.

runc writes the whole stored spec each time. So any later update overwrites another program's value in a file that the
spec names (nri-protocol §5.2).
"""

from collections.abc import Iterator

from nri_coloc._pb import nri_pb2
from nri_coloc.errors import RuntimeRefused
from nri_coloc.sim.cgroup_tree import CgroupTree


def create(tree: CgroupTree, path: str, resources: nri_pb2.LinuxResources, broken: str = "") -> None:
    """Create a container's cgroup and write its limits. Without a cpuset in the spec, on v1 it has its parent's.

    broken: the reason of a simulated failure, "" for none.
    """
    _check(tree, path, resources)
    if broken:
        raise RuntimeRefused(f"runc create failed: {broken}")
    tree.make(path)
    update(tree, path, resources)


def update(tree: CgroupTree, path: str, resources: nri_pb2.LinuxResources) -> None:
    """Write the whole spec."""
    _check(tree, path, resources)
    for name, text in _files(tree, path, resources):
        tree.write(path, name, text)
    tree.settle(path)


def _check(tree: CgroupTree, path: str, resources: nri_pb2.LinuxResources) -> None:
    if resources.unified and tree.version == 1:
        raise RuntimeRefused("cannot use unified on cgroup v1")
    if resources.cpu.cpus and not tree.fits(path, resources.cpu.cpus):
        raise RuntimeRefused(f"write {resources.cpu.cpus} to /{path}/cpuset.cpus: permission denied")
    quota = resources.cpu.quota.value
    if quota and not tree.takes_quota(path, quota):
        raise RuntimeRefused(f"write {quota} to the CPU quota of /{path}: invalid argument")
    missing = [
        name
        for name in resources.unified
        if tree.exists(path) and not (tree.folder(name, path) / name).exists()
    ]
    if missing:
        raise RuntimeRefused(f"unable to set unified resource {missing[0]!r}: no such file")


def _files(tree: CgroupTree, path: str, resources: nri_pb2.LinuxResources) -> Iterator[tuple[str, str]]:
    cpu = resources.cpu
    if cpu.cpus:
        yield "cpuset.cpus", cpu.cpus
    if cpu.mems:
        yield "cpuset.mems", cpu.mems
    if cpu.shares.value:
        yield tree.weight(cpu.shares.value)
    if cpu.quota.value or cpu.period.value:
        yield from _bandwidth(tree, path, cpu)
    if limit := resources.memory.limit.value:
        name = "memory.limit_in_bytes" if tree.version == 1 else "memory.max"
        yield name, str(limit) if limit > 0 or tree.version == 1 else "max"
        if tree.version == 2 and limit > 0:
            yield "memory.swap.max", "0"
    yield from resources.unified.items()


def _bandwidth(tree: CgroupTree, path: str, cpu: nri_pb2.LinuxCPU) -> Iterator[tuple[str, str]]:
    quota, period = cpu.quota.value, cpu.period.value
    if tree.version == 1:
        if period:
            yield "cpu.cfs_period_us", str(period)
        if quota:
            yield "cpu.cfs_quota_us", str(quota)
        return
    _, _, current = (tree.read(path, "cpu.max") or "max 100000").partition(" ")
    yield "cpu.max", f"{quota if quota > 0 else 'max'} {period or current}"
