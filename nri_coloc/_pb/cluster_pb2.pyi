from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Lending(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LENDING_UNKNOWN: _ClassVar[Lending]
    LENDING_ON: _ClassVar[Lending]
    LENDING_OFF: _ClassVar[Lending]
    LENDING_DRAINING: _ClassVar[Lending]
    LENDING_COOLING: _ClassVar[Lending]

class ContainerKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTAINER_UNKNOWN: _ClassVar[ContainerKind]
    CONTAINER_MAIN: _ClassVar[ContainerKind]
    CONTAINER_SIDECAR: _ClassVar[ContainerKind]
    CONTAINER_INIT: _ClassVar[ContainerKind]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNKNOWN: _ClassVar[Outcome]
    OUTCOME_ACCEPTED: _ClassVar[Outcome]
    OUTCOME_BUDGET: _ClassVar[Outcome]
    OUTCOME_GONE: _ClassVar[Outcome]
    OUTCOME_REFUSED: _ClassVar[Outcome]
    OUTCOME_UNREACHABLE: _ClassVar[Outcome]
LENDING_UNKNOWN: Lending
LENDING_ON: Lending
LENDING_OFF: Lending
LENDING_DRAINING: Lending
LENDING_COOLING: Lending
CONTAINER_UNKNOWN: ContainerKind
CONTAINER_MAIN: ContainerKind
CONTAINER_SIDECAR: ContainerKind
CONTAINER_INIT: ContainerKind
OUTCOME_UNKNOWN: Outcome
OUTCOME_ACCEPTED: Outcome
OUTCOME_BUDGET: Outcome
OUTCOME_GONE: Outcome
OUTCOME_REFUSED: Outcome
OUTCOME_UNREACHABLE: Outcome

class HelloRequest(_message.Message):
    __slots__ = ("protocol", "version", "node_name", "node_uid")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_UID_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    node_name: str
    node_uid: str
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., node_name: _Optional[str] = ..., node_uid: _Optional[str] = ...) -> None: ...

class HelloResponse(_message.Message):
    __slots__ = ("protocol", "version", "cpu_resource", "memory_resource", "report_status", "report_events", "evict")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CPU_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_RESOURCE_FIELD_NUMBER: _ClassVar[int]
    REPORT_STATUS_FIELD_NUMBER: _ClassVar[int]
    REPORT_EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVICT_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    cpu_resource: str
    memory_resource: str
    report_status: bool
    report_events: bool
    evict: bool
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., cpu_resource: _Optional[str] = ..., memory_resource: _Optional[str] = ..., report_status: _Optional[bool] = ..., report_events: _Optional[bool] = ..., evict: _Optional[bool] = ...) -> None: ...

class NextRequest(_message.Message):
    __slots__ = ("generation", "order_ids", "event_sequence")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ORDER_IDS_FIELD_NUMBER: _ClassVar[int]
    EVENT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    generation: int
    order_ids: _containers.RepeatedScalarFieldContainer[str]
    event_sequence: int
    def __init__(self, generation: _Optional[int] = ..., order_ids: _Optional[_Iterable[str]] = ..., event_sequence: _Optional[int] = ...) -> None: ...

class NextResponse(_message.Message):
    __slots__ = ("state", "orders", "events", "events_lost")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_LOST_FIELD_NUMBER: _ClassVar[int]
    state: State
    orders: _containers.RepeatedCompositeFieldContainer[Order]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    events_lost: int
    def __init__(self, state: _Optional[_Union[State, _Mapping]] = ..., orders: _Optional[_Iterable[_Union[Order, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., events_lost: _Optional[int] = ...) -> None: ...

class Amounts(_message.Message):
    __slots__ = ("cpu_milli", "memory_bytes")
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    cpu_milli: int
    memory_bytes: int
    def __init__(self, cpu_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class State(_message.Message):
    __slots__ = ("generation", "age_ms", "lending", "offer", "node", "reason", "because", "summary", "node_state")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    LENDING_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    NODE_STATE_FIELD_NUMBER: _ClassVar[int]
    generation: int
    age_ms: int
    lending: Lending
    offer: Amounts
    node: Amounts
    reason: str
    because: str
    summary: Summary
    node_state: str
    def __init__(self, generation: _Optional[int] = ..., age_ms: _Optional[int] = ..., lending: _Optional[_Union[Lending, str]] = ..., offer: _Optional[_Union[Amounts, _Mapping]] = ..., node: _Optional[_Union[Amounts, _Mapping]] = ..., reason: _Optional[str] = ..., because: _Optional[str] = ..., summary: _Optional[_Union[Summary, _Mapping]] = ..., node_state: _Optional[str] = ...) -> None: ...

class Summary(_message.Message):
    __slots__ = ("headroom", "dedicated", "shared", "reclaimed", "system", "outlook")
    HEADROOM_FIELD_NUMBER: _ClassVar[int]
    DEDICATED_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    RECLAIMED_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    OUTLOOK_FIELD_NUMBER: _ClassVar[int]
    headroom: Amounts
    dedicated: int
    shared: int
    reclaimed: int
    system: int
    outlook: _containers.RepeatedCompositeFieldContainer[Amounts]
    def __init__(self, headroom: _Optional[_Union[Amounts, _Mapping]] = ..., dedicated: _Optional[int] = ..., shared: _Optional[int] = ..., reclaimed: _Optional[int] = ..., system: _Optional[int] = ..., outlook: _Optional[_Iterable[_Union[Amounts, _Mapping]]] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("id", "expires_s", "eviction")
    ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_S_FIELD_NUMBER: _ClassVar[int]
    EVICTION_FIELD_NUMBER: _ClassVar[int]
    id: str
    expires_s: int
    eviction: Eviction
    def __init__(self, id: _Optional[str] = ..., expires_s: _Optional[int] = ..., eviction: _Optional[_Union[Eviction, _Mapping]] = ...) -> None: ...

class Eviction(_message.Message):
    __slots__ = ("namespace", "pod", "uid", "reason", "text", "by_operator")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BY_OPERATOR_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    uid: str
    reason: str
    text: str
    by_operator: bool
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., uid: _Optional[str] = ..., reason: _Optional[str] = ..., text: _Optional[str] = ..., by_operator: _Optional[bool] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("sequence", "namespace", "pod", "uid", "reason", "message", "is_warning", "count", "first_ago_s", "last_ago_s")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    IS_WARNING_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_AGO_S_FIELD_NUMBER: _ClassVar[int]
    LAST_AGO_S_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    namespace: str
    pod: str
    uid: str
    reason: str
    message: str
    is_warning: bool
    count: int
    first_ago_s: int
    last_ago_s: int
    def __init__(self, sequence: _Optional[int] = ..., namespace: _Optional[str] = ..., pod: _Optional[str] = ..., uid: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., is_warning: _Optional[bool] = ..., count: _Optional[int] = ..., first_ago_s: _Optional[int] = ..., last_ago_s: _Optional[int] = ...) -> None: ...

class ReportPodsRequest(_message.Message):
    __slots__ = ("pods", "gone", "begin", "complete")
    PODS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    pods: _containers.RepeatedCompositeFieldContainer[PodFacts]
    gone: _containers.RepeatedScalarFieldContainer[str]
    begin: bool
    complete: bool
    def __init__(self, pods: _Optional[_Iterable[_Union[PodFacts, _Mapping]]] = ..., gone: _Optional[_Iterable[str]] = ..., begin: _Optional[bool] = ..., complete: _Optional[bool] = ...) -> None: ...

class ReportPodsResponse(_message.Message):
    __slots__ = ("not_kept",)
    NOT_KEPT_FIELD_NUMBER: _ClassVar[int]
    not_kept: int
    def __init__(self, not_kept: _Optional[int] = ...) -> None: ...

class PodFacts(_message.Message):
    __slots__ = ("uid", "namespace", "name", "owner", "priority", "requests", "deleted_in_s", "containers")
    UID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    DELETED_IN_S_FIELD_NUMBER: _ClassVar[int]
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    uid: str
    namespace: str
    name: str
    owner: Owner
    priority: int
    requests: Amounts
    deleted_in_s: int
    containers: _containers.RepeatedCompositeFieldContainer[ContainerFacts]
    def __init__(self, uid: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[_Union[Owner, _Mapping]] = ..., priority: _Optional[int] = ..., requests: _Optional[_Union[Amounts, _Mapping]] = ..., deleted_in_s: _Optional[int] = ..., containers: _Optional[_Iterable[_Union[ContainerFacts, _Mapping]]] = ...) -> None: ...

class Owner(_message.Message):
    __slots__ = ("kind", "name", "uid")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    uid: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class ContainerFacts(_message.Message):
    __slots__ = ("name", "kind", "requests", "lent", "lent_limits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    LENT_FIELD_NUMBER: _ClassVar[int]
    LENT_LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: ContainerKind
    requests: Amounts
    lent: Amounts
    lent_limits: Amounts
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[ContainerKind, str]] = ..., requests: _Optional[_Union[Amounts, _Mapping]] = ..., lent: _Optional[_Union[Amounts, _Mapping]] = ..., lent_limits: _Optional[_Union[Amounts, _Mapping]] = ...) -> None: ...

class ReportResultsRequest(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class ReportResultsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Result(_message.Message):
    __slots__ = ("order_id", "outcome", "detail", "retry_after_s")
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    order_id: str
    outcome: Outcome
    detail: str
    retry_after_s: int
    def __init__(self, order_id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., detail: _Optional[str] = ..., retry_after_s: _Optional[int] = ...) -> None: ...
