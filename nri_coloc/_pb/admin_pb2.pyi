from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

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
