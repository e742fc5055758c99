"""Orders into NRI's messages: the only translator outward.

An adjustment answers CreateContainer for the container at hand; an update is for a container that exists and
carries less (nri-protocol §5.2). Only what was ordered is set, never an empty set, never an update without
resources: containerd would take that as "wipe the kubelet's request".
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from nri_coloc._pb import nri_pb2
from nri_coloc.core import knobs
from nri_coloc.core.knobs import Capability, Carrier, Knobs
from nri_coloc.core.workload import RECORD_KEY


@lru_cache(maxsize=256)
def creation(
    orders: Knobs, record: str, can: Capability, former_oom: int | None = None
) -> nri_pb2.CreateContainerResponse:
    """Render the answer to CreateContainer, without updates of others; shared, so not to be changed.

    Cached because the members of a pool mostly get the same one.
    """
    response = nri_pb2.CreateContainerResponse()
    adjust = response.adjust
    if record:
        adjust.annotations[RECORD_KEY] = record
    resources = resources_of(orders, can)
    if resources is not None:
        adjust.linux.resources.CopyFrom(resources)
    if orders.oom_score_adj is not None and can.oom_by_answer(orders.oom_score_adj, former_oom):
        adjust.linux.oom_score_adj.value = orders.oom_score_adj
    if orders.blockio_class is not None:
        adjust.linux.resources.blockio_class.value = orders.blockio_class
    if orders.rdt_class is not None and can.resctrl:
        adjust.linux.resources.rdt_class.value = orders.rdt_class
    return response


def update(container_id: str, orders: Knobs, can: Capability) -> nri_pb2.ContainerUpdate | None:
    """Render one container's update; None if nothing that an update can carry was ordered."""
    resources = resources_of(orders, can)
    if not container_id or resources is None:
        return None
    message = nri_pb2.ContainerUpdate(container_id=container_id, ignore_failure=True)
    message.linux.resources.CopyFrom(resources)
    return message


def updates(orders: Iterable[tuple[str, Knobs]], can: Capability) -> list[nri_pb2.ContainerUpdate]:
    """Render updates of several containers, one each."""
    rendered = (update(container_id, knobs, can) for container_id, knobs in orders)
    return [message for message in rendered if message is not None]


def resources_of(orders: Knobs, can: Capability) -> nri_pb2.LinuxResources | None:
    """Render what both messages carry; None for nothing."""
    resources = nri_pb2.LinuxResources()
    cpu = resources.cpu
    if orders.cpus:
        cpu.cpus = orders.cpus
    if orders.mems:
        cpu.mems = orders.mems
    if orders.shares is not None:
        cpu.shares.value = orders.shares
    if orders.quota is not None:
        cpu.quota.value = orders.quota
    if orders.period is not None:
        cpu.period.value = orders.period
    if orders.memory_limit:
        resources.memory.limit.value = orders.memory_limit
    for name, value in _unified(orders, can):
        resources.unified[name] = value
    return resources if resources.ByteSize() else None


def _unified(orders: Knobs, can: Capability) -> Iterator[tuple[str, str]]:
    """Yield the values that only v2's files carry, for the files that exist."""
    for field in _UNIFIED if can.cgroup == 2 else ():
        for file, text in knobs.written(orders, can, field):
            yield file.name, text


_UNIFIED: Final = knobs.carried(Carrier.UNIFIED)
