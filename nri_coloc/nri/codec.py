"""From the wire's messages to the model, and from orders to the wire's messages: the only translator.

Inward, only the fields that placement uses are declared (`told.proto`); of labels and annotations only names that are
known are kept, up to a bound, and of the environment only the DRA CPU driver's variables. A record annotation counts
only where the pod carries no such key, since a runtime may be configured to copy pod annotations onto containers.

Outward, an adjustment answers CreateContainer for the container at hand; an update is for a container that exists and
carries less (nri-protocol §5.2). Only what was ordered is set, never an empty set, never an update without resources:
containerd would take that as "wipe the kubelet's request".
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from google.protobuf.message import DecodeError

from nri_coloc._pb import nri_pb2, told_pb2
from nri_coloc.core import cpuset, knobs
from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.knobs import Capability, Carrier, Knobs
from nri_coloc.core.value import replace
from nri_coloc.core.workload import (
    MAX_BYTES,
    PREFIX,
    RECORD_KEY,
    RECORD_LENGTH,
    Container,
    KnownKeys,
    Phase,
    Pod,
    Resources,
    Texts,
)

CLAIM_PREFIX: Final = "DRA_CPUSET_"
"""Before a claim's uid in the name of a variable whose value is a cpulist (kubernetes-sigs/dra-driver-cpu)."""

_ENCODED_PREFIX: Final = CLAIM_PREFIX.encode()

_SHOWN: Final = 256
"""Bytes of a variable that an audit record may hold."""

_PHASES: Final[Mapping[int, Phase]] = {
    nri_pb2.CONTAINER_RUNNING: Phase.RUNNING,
    nri_pb2.CONTAINER_PAUSED: Phase.RUNNING,
}

_KEY_FIRST: Final = b"\x0a"
"""Tag of an entry's key: every encoder writes it before the value."""

_RECORD_ENTRY: Final = _KEY_FIRST + bytes([len(RECORD_KEY)]) + RECORD_KEY.encode()
_HEAD: Final = 2
"""Bytes of an entry before a key of up to 127 bytes: its tag and its length."""


class Reader:
    """Reads pods; `known` names the labels and annotations that are kept."""

    def __init__(self, known: KnownKeys) -> None:
        self.known = known
        self._annotations = frozenset(name.encode() for name in known.annotations)
        self._labels = frozenset(name.encode() for name in known.labels)
        self._pairs = frozenset((name.encode(), text.encode()) for name, text in known.pairs)

    def pod_of(self, message: told_pb2.PodSandbox) -> Pod:
        """Read a pod."""
        labels = dict(_known(message.labels, self._labels))
        annotations = dict(_known(message.annotations, self._annotations, PREFIX.encode()))
        of_labels = _size(labels)
        size = of_labels + _size(annotations)
        fits = size <= MAX_BYTES
        return Pod(
            id=message.id,
            uid=message.uid,
            name=message.name,
            namespace=message.namespace,
            labels=_texts(labels if of_labels <= MAX_BYTES else {}),
            annotations=_texts(annotations if fits else dict(annotations.items() & self._pairs)),
            cgroup_parent=message.linux.cgroup_parent,
            handler=message.runtime_handler,
            resources=resources_of(message.linux.pod_resources),
            overhead_bytes=max(0, message.linux.pod_overhead.memory.limit.value),
            excess_bytes=0 if fits else size,
            claims_record=RECORD_KEY.encode() in annotations,
        )


def container_of(message: told_pb2.Container, pod: Pod) -> Container:
    """Read a container of a pod that was read before."""
    linux = message.linux
    resources = resources_of(linux.resources)
    # CPUs of a driver are in the spec before us, and the spec of a creation mostly names none
    claimed, claims = _claimed(message.env) if resources.cpus else (0, "")
    return Container(
        id=message.id,
        pod_id=message.pod_sandbox_id or pod.id,
        name=message.name,
        phase=_PHASES.get(message.state, Phase.CREATED),
        pid=message.pid,
        cgroups_path=linux.cgroups_path,
        created_at=message.created_at,
        record="" if pod.claims_record else _record(message),
        oom_score_adj=linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None,
        resources=resources,
        claimed=claimed,
        claims=claims,
    )


def started(message: told_pb2.Container, known: Container) -> Container:
    """Return a container that was read before, with the facts that its start adds."""
    return replace(
        known,
        pid=message.pid,
        cgroups_path=message.linux.cgroups_path,
        created_at=message.created_at or known.created_at,
    )


def _size(texts: Mapping[bytes, bytes]) -> int:
    return sum(len(name) + len(value) for name, value in texts.items())


def has_record(message: told_pb2.Container) -> bool:
    """Return whether a container carries the plugin's annotation."""
    for entry in message.annotations:  # noqa: SIM110 - in every creation, and `any` makes a generator first
        if entry.startswith(_RECORD_ENTRY):
            return True
    return False


def _record(message: told_pb2.Container) -> str:
    for entry in message.annotations:
        if entry.startswith(_RECORD_ENTRY):
            found = _entry(entry).value
            return found.decode(errors="replace") if len(found) <= RECORD_LENGTH else ""
    return ""


def _known(
    entries: Iterable[bytes], names: frozenset[bytes], prefix: bytes = b""
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries whose names are known, undecoded."""
    lengths = [len(name) for name in (*names, *filter(None, (prefix,)))]
    least = _HEAD + min(lengths, default=0)
    for entry in entries if lengths else ():
        if len(entry) <= least:  # spares most of a hostile pod's 87,000 annotations of three bytes
            continue
        key = _key(entry)
        if key in names or (prefix and key.startswith(prefix)):
            yield key, _entry(entry).value


def _key(entry: bytes) -> bytes:
    if not entry.startswith(_KEY_FIRST):
        return _entry(entry).key
    size, begin = entry[1], _HEAD
    if size > 127:  # a varint of two bytes; no key of Kubernetes is longer than 317
        size, begin = (size & 127) | entry[2] << 7, _HEAD + 1
    return entry[begin : begin + size]


def _entry(entry: bytes) -> told_pb2.Entry:
    """Decode an entry; one that cannot be decoded is empty."""
    try:
        return told_pb2.Entry.FromString(entry)
    except DecodeError:
        return told_pb2.Entry()


def _texts(encoded: dict[bytes, bytes]) -> Texts:
    return Texts({name.decode(errors="replace"): value for name, value in encoded.items()})


def _claimed(env: Iterable[bytes]) -> tuple[CPUMask, str]:
    """Return the CPUs of all claims in an environment and the first variable.

    They are 0 and "" if there are none, if one is no cpulist, and for too many.
    """
    claims = [variable for variable in env if variable.startswith(_ENCODED_PREFIX)]
    if sum(map(len, claims)) > MAX_BYTES:
        return 0, ""
    union = 0
    for claim in claims:
        try:
            union |= cpuset.parse(claim.partition(b"=")[2].decode())
        except ValueError:
            return 0, ""
    return union, claims[0][:_SHOWN].decode(errors="replace") if union else ""


def resources_of(message: told_pb2.LinuxResources | nri_pb2.LinuxResources) -> Resources:
    """Read resources; a wrapper that is absent is None, in an update a zero means "keep"."""
    cpu, memory = message.cpu, message.memory
    return Resources(
        shares=cpu.shares.value if cpu.HasField("shares") else None,
        quota=cpu.quota.value if cpu.HasField("quota") else None,
        period=cpu.period.value if cpu.HasField("period") else None,
        cpus=cpu.cpus,
        mems=cpu.mems,
        memory_limit=memory.limit.value if memory.HasField("limit") else None,
    )


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
    resources = ordered_resources(orders, can)
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
    resources = ordered_resources(orders, can)
    if not container_id or resources is None:
        return None
    message = nri_pb2.ContainerUpdate(container_id=container_id, ignore_failure=True)
    message.linux.resources.CopyFrom(resources)
    return message


def updates(orders: Iterable[tuple[str, Knobs]], can: Capability) -> list[nri_pb2.ContainerUpdate]:
    """Render updates of several containers, one each."""
    rendered = (update(container_id, knobs, can) for container_id, knobs in orders)
    return [message for message in rendered if message is not None]


def ordered_resources(orders: Knobs, can: Capability) -> nri_pb2.LinuxResources | None:
    """Render the resources that an adjustment and an update both carry; None if there are none."""
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
