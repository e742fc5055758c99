from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PauseLendingRequest(_message.Message):
    __slots__ = ("seconds", "reason")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    reason: str
    def __init__(self, seconds: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class PauseLendingResponse(_message.Message):
    __slots__ = ("until",)
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    until: str
    def __init__(self, until: _Optional[str] = ...) -> None: ...

class ResumeLendingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeLendingResponse(_message.Message):
    __slots__ = ("was_paused",)
    WAS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    was_paused: bool
    def __init__(self, was_paused: _Optional[bool] = ...) -> None: ...

class LendingOffRequest(_message.Message):
    __slots__ = ("drain", "grace_seconds")
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    drain: bool
    grace_seconds: int
    def __init__(self, drain: _Optional[bool] = ..., grace_seconds: _Optional[int] = ...) -> None: ...

class LendingOffResponse(_message.Message):
    __slots__ = ("because", "until", "not_kept", "running", "outside")
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    NOT_KEPT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_FIELD_NUMBER: _ClassVar[int]
    because: str
    until: str
    not_kept: str
    running: _containers.RepeatedCompositeFieldContainer[RunningPod]
    outside: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, because: _Optional[str] = ..., until: _Optional[str] = ..., not_kept: _Optional[str] = ..., running: _Optional[_Iterable[_Union[RunningPod, _Mapping]]] = ..., outside: _Optional[_Iterable[str]] = ...) -> None: ...

class RunningPod(_message.Message):
    __slots__ = ("name", "why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    why: str
    def __init__(self, name: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class LendingOnRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LendingOnResponse(_message.Message):
    __slots__ = ("was_off", "because", "not_kept")
    WAS_OFF_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    NOT_KEPT_FIELD_NUMBER: _ClassVar[int]
    was_off: bool
    because: str
    not_kept: str
    def __init__(self, was_off: _Optional[bool] = ..., because: _Optional[str] = ..., not_kept: _Optional[str] = ...) -> None: ...

class ReloadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadResponse(_message.Message):
    __slots__ = ("valid", "problem")
    VALID_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    valid: bool
    problem: str
    def __init__(self, valid: _Optional[bool] = ..., problem: _Optional[str] = ...) -> None: ...

class RepairRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RepairResponse(_message.Message):
    __slots__ = ("looked_at", "repaired")
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_FIELD_NUMBER: _ClassVar[int]
    looked_at: int
    repaired: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, looked_at: _Optional[int] = ..., repaired: _Optional[_Iterable[str]] = ...) -> None: ...

class CompareRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CompareResponse(_message.Message):
    __slots__ = ("complete", "detail")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    complete: bool
    detail: str
    def __init__(self, complete: _Optional[bool] = ..., detail: _Optional[str] = ...) -> None: ...

class EvictRequest(_message.Message):
    __slots__ = ("namespace", "pod", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class EvictResponse(_message.Message):
    __slots__ = ("outcome", "detail", "retry_after_s", "order_id")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    outcome: str
    detail: str
    retry_after_s: int
    order_id: str
    def __init__(self, outcome: _Optional[str] = ..., detail: _Optional[str] = ..., retry_after_s: _Optional[int] = ..., order_id: _Optional[str] = ...) -> None: ...
