"""Load the operator's configuration into `Settings`, from a file or from a text of the runtime.

All problems become one SettingsError, with a line for each problem: `file:line: key: problem; allowed: values`. So an
operator can correct a file at once. `schema` has the allowed values, `document` the lines; this module joins both and
fills the model.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from nri_coloc.core import cpuset
from nri_coloc.core.settings import (
    BurstTuning,
    ClassRule,
    ClassTuning,
    HintTuning,
    PoolTuning,
    ReclaimTuning,
    Selector,
    Settings,
    Tuning,
)
from nri_coloc.core.workload import QoSClass
from nri_coloc.errors import SettingsError
from nri_coloc.pods import quantity
from nri_coloc.service.configuration import document, pressure, schema
from nri_coloc.service.configuration.document import Document, DocumentError, Problem
from nri_coloc.service.configuration.sections import MisplacedError, Pool, Reclaim
from nri_coloc.service.configuration.sections import Selector as Conditions

MAX_BYTES: Final = 1 << 20
"""The size limit of a ConfigMap (etcd's default limit, and Kubernetes' own check)."""

_MAX_PROBLEMS: Final = 50

QUOTA_BURST_PERCENT: Final = 300
"""Largest quota with the feature quota-burst, in percent: Koordinator's default (cfsQuotaBurstPercent)."""

NO_HINTS: Final = HintTuning(online_slice_us=0, offline_policy="")
BATCH_HINTS: Final = HintTuning(offline_policy="SCHED_BATCH")


def load(text: str, where: str) -> Settings:
    """Return the settings in a text; raise SettingsError with all problems, each line beginning with `where`."""
    return settings_of(parse(text, where))


def read(path: str | Path) -> Settings:
    """Return the settings in a file; raise SettingsError as `load` does."""
    return load(text_of(path), str(path))


def parse(text: str, where: str) -> schema.File:
    """Return the file with its defaults filled in; raise SettingsError as `load` does."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _refused(where, [Problem(0, "", f"too large; allowed: at most {MAX_BYTES} bytes")])
    try:
        found = document.read(text)
    except DocumentError as error:
        raise _refused(where, [error.problem]) from error
    problems, more = found.problems, 0
    try:
        file = schema.File.model_validate({} if found.data is None else found.data)
    except ValidationError as error:
        details = _in_order(error, found)
        problems += [_problem(detail, found) for detail in details[:_MAX_PROBLEMS]]
        more = len(details[_MAX_PROBLEMS:])
    if problems:
        raise _refused(where, sorted(problems, key=lambda problem: problem.line), more)
    return file


def text_of(path: str | Path, *, once: bool = False) -> str:
    """Return a file's text, at most one byte more than allowed.

    once: the file is read this once, so it may be a pipe, whose writer is waited for. A file that is read again and
    again may be none.
    """
    try:
        with open(path, "rb", opener=None if once else _without_waiting) as file:
            raw = file.read(MAX_BYTES + 1)
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refused(str(path), [Problem(line, "", "not text in UTF-8")]) from error
    except OSError as error:
        mend = "; run nri-coloc as a user that may read it" if isinstance(error, PermissionError) else ""
        raise SettingsError(f"{path}: cannot be read: {error.strerror}{mend}") from error
    except ValueError as error:  # a path with a NUL in it
        raise SettingsError(f"{path!r}: is not a path") from error


def _without_waiting(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is a pipe")
    return fd


def _refused(where: str, problems: list[Problem], more: int = 0) -> SettingsError:
    lines = [_line(where, problem) for problem in problems[:_MAX_PROBLEMS]]
    more += len(problems) - len(lines)
    if more:
        lines.append(f"{where}: and {more} problems more")
    return SettingsError(*map(_printable, lines))


def _printable(line: str) -> str:
    """Return a line that a terminal does not obey: a key of the file may hold any character."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in line)


def _line(where: str, problem: Problem) -> str:
    place = f"{where}:{problem.line}" if problem.line else where
    return f"{place}: {problem.path}: {problem.text}" if problem.path else f"{place}: {problem.text}"


def _in_order(error: ValidationError, found: Document) -> list[ErrorDetails]:
    """Return the problems in the order of the file, because of many problems only the first are reported."""
    return sorted(error.errors(include_url=False), key=lambda detail: found.line_of(_path(detail)))


def _path(detail: ErrorDetails) -> tuple[str | int, ...]:
    misplaced = detail.get("ctx", {}).get("error")
    return (*detail["loc"], *(misplaced.at if isinstance(misplaced, MisplacedError) else ()))


def _problem(detail: ErrorDetails, found: Document) -> Problem:
    path = _path(detail)
    return Problem(found.line_of(path), document.joined(path), _sentence(detail, path))


def _sentence(detail: ErrorDetails, path: tuple[str | int, ...]) -> str:
    *parents, key = path or ("",)
    if detail["type"] == "extra_forbidden":
        return _unknown_key(key, _model_at(tuple(parents)))
    if detail["type"] == "model_type":
        return f"{_short(detail['input'])} does not fit; allowed: {_names(_model_at(path))}"
    field = _field_at(path)
    allowed = field.description if field else ""
    if detail["type"] == "missing":
        return f"missing; allowed: {allowed}"
    if detail["type"] == "value_error":
        return f"{detail['ctx']['error']}; allowed: {allowed}"
    return f"{_short(detail['input'])} does not fit; allowed: {allowed}"


def _unknown_key(key: str | int, model: type[BaseModel] | None) -> str:
    import difflib  # only needed after a mistake

    near = difflib.get_close_matches(str(key)[:64], _keys(model), n=1)
    hint = f", did you mean {near[0]}?" if near else ""
    return f"unknown key{hint}; allowed: {_names(model)}"


def _keys(model: type[BaseModel] | None) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()} if model else {}


def _names(model: type[BaseModel] | None) -> str:
    return ", ".join(_keys(model)) or "nothing yet, this section has no keys so far"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, tuple):
        return "a list"
    return repr(value[:80]) if isinstance(value, str) else json.dumps(value)  # null, true, false, 7


def _fields_along(path: tuple[str | int, ...]) -> Iterator[FieldInfo]:
    model: type[BaseModel] | None = schema.File
    for part in path:
        if part in (keys := _keys(model)):  # an item of a list or map is described by its field
            yield keys[part]
            model = _model_in(keys[part].annotation)


def _field_at(path: tuple[str | int, ...]) -> FieldInfo | None:
    *_, last = (None, *_fields_along(path))
    return last


def _model_at(path: tuple[str | int, ...]) -> type[BaseModel] | None:
    field = _field_at(path)
    return schema.File if field is None else _model_in(field.annotation)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def settings_of(file: schema.File) -> Settings:
    """Return the settings of a valid file."""
    return Settings(
        tuning=_tuning(file),
        nri_socket=file.runtime.nri_socket,
        cri_socket=file.runtime.cri_socket,
        plugin_name=file.runtime.plugin_name,
        plugin_index=file.runtime.plugin_index,
        http=file.telemetry.http,
        audit_ring=file.telemetry.audit_ring,
        log_level=file.telemetry.log_level,
        restore_on_exit="restore-on-exit" in file.reclaim.features,
        schedule=file.schedule.tuning(),
        kubernetes=file.kubernetes.settings(),
    )


def _tuning(file: schema.File) -> Tuning:
    cpus = file.node.reserved_cpus
    sections = (file.classes.dedicated, file.classes.shared, file.classes.reclaimed, file.classes.system)
    return Tuning(
        reserved=cpuset.parse(cpus) if isinstance(cpus, str) else 0,
        reserved_count=cpus if isinstance(cpus, int) else 0,
        reserved_memory=quantity.whole_bytes(file.node.reserved_memory),
        preserve_kubelet=file.node.kubelet_cpu_manager == "preserve-kubelet",
        classes={section.name: _class(section) for section in sections},
        rules=tuple(_rule(rule) for rule in file.classes.rules),
        pools=tuple(_pool(name, pool) for name, pool in file.pools.items()),
        reclaim=_reclaim(file.reclaim, quantity.whole_bytes(file.node.reserved_memory)),
        pressure=pressure.tuning(file.pressure),
        dra_driver=file.runtime.dra_cpu_driver,
        handlers=dict(file.runtime.handlers),
        updates_per_reply=file.runtime.updates_per_reply,
        observe=file.mode == "observe",
        strict=file.strict,
    )


def _class(section: schema.ClassSection) -> ClassTuning:
    return ClassTuning(
        cpu_shares=section.cpu_shares,
        io_weight=section.io_weight,
        oom_score_adj=section.oom_score_adj,
        memory_high=section.memory_high,
        memory_low=section.memory_low,
        memory_min=section.memory_min,
        cpu_burst=section.cpu_burst,
        allow_namespaces=section.allow_namespaces,
        min_request=quantity.thousandths(section.min_request) if isinstance(section, schema.Dedicated) else 0,
    )


def _rule(rule: schema.Rule) -> ClassRule:
    return ClassRule(*_conditions(rule), qos=QoSClass(rule.qos))


def _conditions(found: Conditions) -> tuple[tuple[str, str] | None, tuple[str, str] | None, str]:
    """Return annotation, label and namespace of a selector."""
    return _pair(found.annotation), _pair(found.label), found.namespace or ""


def _reclaim(section: Reclaim, reserved: int) -> ReclaimTuning:
    return ReclaimTuning(
        enabled=section.enabled,
        partition=section.sharing == "partition",
        watermark=section.cpu_watermark / 100,
        stall=section.stall / 100,
        memory_watermark=section.memory_watermark / 100,
        memory_reserve=reserved,
        host_groups=section.members,
        burst=BurstTuning(quota_percent=QUOTA_BURST_PERCENT)
        if "quota-burst" in section.features
        else BurstTuning(),
        hints=_hints(section),
    )


def _hints(section: Reclaim) -> HintTuning:
    if "scheduler-hints" not in section.features:
        return NO_HINTS
    return HintTuning() if "scheduler-idle" in section.features else BATCH_HINTS


def _pool(name: str, pool: Pool) -> PoolTuning:
    low, high = pool.band or (0, 0)
    return PoolTuning(
        name,
        members=tuple(Selector(*_conditions(member)) for member in pool.members),
        qos=QoSClass.SYSTEM if pool.kind == "system" else QoSClass.SHARED,
        minimum=pool.min_cpus,
        maximum=pool.max_cpus,
        group_by=pool.group_by,
        priority=pool.priority,
        band=(low / 100, high / 100) if pool.band else None,
    )


def _pair(selector: str | None) -> tuple[str, str] | None:
    if selector is None:
        return None
    key, _, value = selector.partition("=")
    return key, value
