"""The pydantic model of the configuration file: every key, its default, and the allowed values in words.

docs/configuration.md lists the names and sections. If a value is refused, the key's description is shown as the
allowed values. Defaults come from `core.settings`, so each is written once. This module knows no files or lines.
"""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, PlainValidator, field_validator

from nri_coloc.core import cpuset, endpoint
from nri_coloc.core.knobs import LEAST_MEMORY
from nri_coloc.core.settings import Settings, default_classes
from nri_coloc.core.workload import QoSClass
from nri_coloc.pods import quantity
from nri_coloc.pods.gate import BANDS
from nri_coloc.service.configuration.kubernetes_section import Kubernetes
from nri_coloc.service.configuration.pressure import Pressure
from nri_coloc.service.configuration.schedule_section import Schedule
from nri_coloc.service.configuration.sections import (
    Glob,
    Pools,
    Reclaim,
    Section,
    Selector,
    decimal,
    listed,
    section,
    written,
)

API_VERSION: Final = "coloc.nri.io/v1"

_DEFAULTS: Final = Settings()
_CLASSES: Final = default_classes()

_LONGEST_SOCKET: Final = 107
"""sockaddr_un.sun_path is 108 bytes with its final NUL (unix(7))."""


def _quantity(value: str) -> str:
    quantity.whole_bytes(decimal(value))
    return value


def _amount(value: str) -> str:
    quantity.amount(decimal(value))
    return value


def _cpus(value: Any) -> str | int:
    if isinstance(value, str):
        cpuset.parse(decimal(value))
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("neither a cpulist nor a count")  # noqa: TRY004 - pydantic reports ValueError only
    if not 0 <= value <= cpuset.MAX_CPU_ID:
        raise ValueError(f"a count must lie between 0 and {cpuset.MAX_CPU_ID}")
    return value


def _listen(value: str) -> str:
    if value != "off":
        endpoint.split(value)
    return value


class Node(Section):
    """CPUs and memory that are reserved for the node itself."""

    reserved_cpus: Annotated[
        str | int,
        PlainValidator(_cpus),
        Field(
            alias="reservedCPUs",
            description='a cpulist such as "0-1,8", or how many CPUs (whole lowest cores first)',
        ),
    ] = ""
    reserved_memory: Annotated[
        str,
        BeforeValidator(written),
        Field(alias="reservedMemory", description=quantity.QUANTITY_ALLOWED),
    ] = str(_DEFAULTS.tuning.reserved_memory)
    kubelet_cpu_manager: Annotated[
        Literal["refuse", "preserve-kubelet"],
        Field(alias="kubeletCPUManager", description="refuse or preserve-kubelet"),
    ] = "refuse"

    _bytes = field_validator("reserved_memory")(_quantity)


ClassName = Literal["dedicated", "shared", "reclaimed", "system"]


class Rule(Selector):
    """One selector, and the class of the pods that it matches."""

    qos: Annotated[ClassName, Field(alias="class", description="one of dedicated, shared, reclaimed, system")]


Shares = Annotated[
    int | None,
    Field(
        alias="cpuShares",
        ge=2,
        le=262144,
        description="an integer from 2 to 262144 (1024 is one CPU), or null for the kubelet's",
    ),
]
Weight = Annotated[int, Field(alias="ioWeight", ge=1, le=10000, description="an integer from 1 to 10000")]
Score = Annotated[
    int | None,
    Field(alias="oomScoreAdj", description="an integer in the band of the class, or null for the kubelet's"),
]
Memory = Annotated[str | None, BeforeValidator(written)]
Namespaces = Annotated[
    tuple[Glob, ...],
    BeforeValidator(listed),
    Field(
        alias="allowNamespaces",
        description="a list of namespaces or globs such as [kube-system, batch-*]",
    ),
]
_OF_LIMIT: Final = f"{quantity.AMOUNT_ALLOWED} of the limit, {LEAST_MEMORY} bytes at least, or null for none"
_OF_REQUEST: Final = f"{quantity.AMOUNT_ALLOWED} of the request, or null for none"


class ClassSection(Section):
    """Defaults of one class, and the namespaces with its privileges."""

    name: ClassVar[QoSClass] = QoSClass.SHARED

    cpu_shares: Shares = None
    io_weight: Weight = 100
    oom_score_adj: Score = None
    memory_high: Annotated[Memory, Field(alias="memoryHigh", description=_OF_LIMIT)] = None
    memory_low: Annotated[Memory, Field(alias="memoryLow", description=_OF_REQUEST)] = None
    memory_min: Annotated[Memory, Field(alias="memoryMin", description=_OF_REQUEST)] = None
    cpu_burst: Annotated[
        int,
        Field(
            alias="cpuBurst",
            ge=0,
            le=100,
            description="a percentage of the CPU quota, from 0 (none) to 100",
        ),
    ] = 0
    allow_namespaces: Namespaces = _CLASSES[QoSClass.SHARED].allow_namespaces

    @field_validator("memory_low", "memory_min")
    @classmethod
    def _memory(cls, value: str | None) -> str | None:
        return value if value is None else _amount(value)

    @field_validator("memory_high")
    @classmethod
    def _limit(cls, value: str | None) -> str | None:
        if value is not None:
            quantity.limit(decimal(value))
        return value

    @field_validator("oom_score_adj")
    @classmethod
    def _band(cls, value: int | None) -> int | None:
        low, high = BANDS[cls.name]
        if value is not None and not low <= value <= high:
            raise ValueError(f"{value} is outside of the band of class {cls.name}, {low} to {high}")
        return value


class Dedicated(ClassSection):
    """Containers with owned CPUs."""

    name = QoSClass.DEDICATED

    min_request: Annotated[
        str,
        BeforeValidator(written),
        Field(alias="minRequest", description="an amount of CPUs such as 1, 1500m or 4, above 0"),
    ] = "1"

    @field_validator("min_request")
    @classmethod
    def _cpus(cls, value: str) -> str:
        if not quantity.thousandths(decimal(value)):
            raise ValueError(f"{value[:40]!r} is no amount of CPUs")
        return value


class Shared(ClassSection):
    """Online containers that share a pool."""


class Reclaimed(ClassSection):
    """Offline containers, on lent CPUs."""

    name = QoSClass.RECLAIMED

    cpu_shares: Shares = _CLASSES[QoSClass.RECLAIMED].cpu_shares
    io_weight: Weight = _CLASSES[QoSClass.RECLAIMED].io_weight
    oom_score_adj: Score = _CLASSES[QoSClass.RECLAIMED].oom_score_adj


class System(ClassSection):
    """Node agents."""

    name = QoSClass.SYSTEM


class Classes(Section):
    """The operator's rules, and the classes."""

    rules: Annotated[
        tuple[Rule, ...],
        BeforeValidator(listed),
        Field(
            max_length=100,
            description='a list of at most 100, such as [{namespace: "batch-*", class: reclaimed}]; each '
            "needs a class and at least one of annotation, label, namespace",
        ),
    ] = ()
    dedicated: Annotated[Dedicated, BeforeValidator(section)] = Dedicated()
    shared: Annotated[Shared, BeforeValidator(section)] = Shared()
    reclaimed: Annotated[Reclaimed, BeforeValidator(section)] = Reclaimed()
    system: Annotated[System, BeforeValidator(section)] = System()


Socket = Annotated[
    str,
    Field(
        pattern=r"^/[^\x00]+$",
        max_length=_LONGEST_SOCKET,
        description=f"an absolute path of at most {_LONGEST_SOCKET} characters",
    ),
]


class Runtime(Section):
    """The container runtime, and the plugin's name and index there."""

    nri_socket: Annotated[Socket, Field(alias="nriSocket")] = _DEFAULTS.nri_socket
    cri_socket: Annotated[Socket, Field(alias="criSocket")] = _DEFAULTS.cri_socket
    plugin_name: Annotated[
        str,
        Field(
            alias="pluginName",
            pattern=r"^[A-Za-z0-9._+-]{1,63}$",
            description="1 to 63 letters, digits, '.', '_', '+' and '-'",
        ),
    ] = _DEFAULTS.plugin_name
    plugin_index: Annotated[
        str,
        BeforeValidator(written),
        Field(
            alias="pluginIndex",
            pattern=r"^[0-9]{2}$",
            description='exactly two digits such as "50"; plugins are called in this order',
        ),
    ] = _DEFAULTS.plugin_index
    updates_per_reply: Annotated[
        int,
        Field(
            alias="updatesPerReply",
            ge=0,
            le=64,
            description="an integer from 0 to 64; each costs the runtime 7 to 20 ms under its lock",
        ),
    ] = _DEFAULTS.tuning.updates_per_reply
    dra_cpu_driver: Annotated[
        bool,
        Field(
            alias="draCPUDriver",
            description="true or false; true where the DRA CPU driver gives containers CPUs on this node",
        ),
    ] = _DEFAULTS.tuning.dra_driver
    handlers: Annotated[
        dict[str, Literal["container", "pod", "ignore"]],
        BeforeValidator(section),
        Field(description="runtime handler to one of container, pod, ignore, such as {kata: pod}"),
    ] = {}  # noqa: RUF012 - pydantic copies a default, and the model is frozen


class Telemetry(Section):
    """HTTP address, audit and log of the daemon."""

    http: Annotated[str, Field(description=endpoint.OR_OFF)] = _DEFAULTS.http
    audit_ring: Annotated[
        int,
        Field(
            alias="auditRing",
            ge=1,
            le=65536,
            description="how many audit records of placement, and of lending, are kept for /v1/audit, from 1 to 65536",
        ),
    ] = _DEFAULTS.audit_ring
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(alias="logLevel", description="one of debug, info, warning, error"),
    ] = "info"

    _address = field_validator("http")(_listen)


class File(Section):
    """The whole file."""

    api_version: Annotated[Literal["coloc.nri.io/v1"], Field(alias="apiVersion", description=API_VERSION)] = (
        API_VERSION
    )
    node: Annotated[Node, BeforeValidator(section)] = Node()
    classes: Annotated[Classes, BeforeValidator(section)] = Classes()
    pools: Pools = {}  # noqa: RUF012 - pydantic copies a default, and the model is frozen
    reclaim: Annotated[Reclaim, BeforeValidator(section)] = Reclaim()
    pressure: Annotated[Pressure, BeforeValidator(section)] = Pressure()
    schedule: Annotated[Schedule, BeforeValidator(section)] = Schedule()
    kubernetes: Annotated[Kubernetes, BeforeValidator(section)] = Kubernetes()
    runtime: Annotated[Runtime, BeforeValidator(section)] = Runtime()
    telemetry: Annotated[Telemetry, BeforeValidator(section)] = Telemetry()
    mode: Annotated[Literal["enforce", "observe"], Field(description="enforce or observe")] = "enforce"
    strict: Annotated[bool, Field(description="true or false")] = _DEFAULTS.tuning.strict
