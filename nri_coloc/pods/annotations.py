"""Return the wish of a container: its pod's annotations as far as the gate admits them, else its class's defaults.

This runs in the hook, so it only looks values up, without pydantic. Most pods have no key that we or another vocabulary
reads: that costs one pass over the annotations for our prefix, a comparison of names for the other vocabularies, and
one cached wish. A bad value never raises: its key counts as absent, and a `Finding` reports it. The pod's own value
then takes its place, then another vocabulary's value, then the class default.

`container` must carry the kubelet's own values. After a restart the runtime reports the values that the previous
process set, so the caller first restores the original values from the record annotation. Otherwise 50 % of a limit
would be halved at each restart, and our oom_score_adj would be read as a memory request.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nri_coloc.core import workload
from nri_coloc.core.knobs import KERNELS_IO_WEIGHT, LEAST_MEMORY, MIN_SHARES, NO_KNOBS, Knobs
from nri_coloc.core.settings import ClassTuning, Selector, Tuning
from nri_coloc.core.value import replace
from nri_coloc.core.workload import (
    MAX_BYTES,
    Container,
    Finding,
    FindingKind,
    KnownKeys,
    Numa,
    Placement,
    Pod,
    QoSClass,
    Resources,
    Tolerance,
    Wish,
)
from nri_coloc.pods import gate, keys, quantity
from nri_coloc.pods.keys import PODS_KEPT, Pairs, Written, ours
from nri_coloc.pods.vocabularies import katalyst, koordinator, noderesource, volcano
from nri_coloc.pods.vocabularies.claims import (
    CPU_REQUEST,
    EVEN_PARTS,
    INIT,
    LENT_QUOTA,
    LENT_SHARES,
    ONE_SOCKET,
    ORDERED_CPUS,
    USED,
    Claim,
    Claims,
    Handling,
)


class Vocabulary(NamedTuple):
    """Another agent's annotations and labels.

    annotations: names that `read` uses.
    labels: names that `read` uses.
    keys: all keys of the vocabulary, as in the documentation.
    read: add the claims of one container from annotations and labels.
    """

    annotations: tuple[str, ...]
    labels: tuple[str, ...]
    keys: Mapping[str, Handling]
    read: Callable[[Mapping[str, str], Mapping[str, str], str, Claims], None]


VOCABULARIES: Final[Mapping[str, Vocabulary]] = MappingProxyType(
    {
        name: Vocabulary(module.ANNOTATIONS, module.LABELS, module.KEYS, module.read)
        for name, module in (
            ("Katalyst", katalyst),
            ("Koordinator", koordinator),
            ("Volcano", volcano),
            ("nri-plugins", noderesource),
        )
    }
)
"""In the order of docs/vocabularies.md: the first vocabulary with a claim for a key wins."""

_ANNOTATIONS: Final = frozenset(name for each in VOCABULARIES.values() for name in each.annotations)
_LABELS: Final = frozenset(label for each in VOCABULARIES.values() for label in each.labels)


def known_keys(tuning: Tuning) -> KnownKeys:
    """Return the names of annotations and labels that a vocabulary or an operator's rule reads."""
    annotations, labels = set(_ANNOTATIONS), set(_LABELS)
    members = (member for pool in tuning.pools for member in pool.members)
    selectors: tuple[Selector, ...] = (*tuning.rules, *members)
    pairs = {selector.annotation for selector in selectors if selector.annotation is not None}
    annotations.update(name for name, _ in pairs)
    for selector in selectors:
        labels.update(pair[0] for pair in (selector.label,) if pair is not None)
    for kind, _, key in (pool.group_by.partition(":") for pool in tuning.pools):
        {"annotation": annotations, "label": labels}.get(kind, set()).add(key)
    return KnownKeys(frozenset(annotations), frozenset(labels), frozenset(pairs))


class Carried(NamedTuple):
    """The annotations and labels of a pod that are read, each sorted by name.

    ours: annotations with our prefix.
    theirs: annotations of other vocabularies.
    labels: labels of other vocabularies.
    """

    ours: Pairs = ()
    theirs: Pairs = ()
    labels: Pairs = ()


NOTHING: Final = Carried()
SILENT: Final = Claims()


def carried_by(pod: Pod) -> Carried:
    """Return the annotations and labels of a pod that are read; for most pods the object NOTHING itself."""
    annotations, labels = pod.annotations, pod.labels
    mine = ours(annotations)
    # comparing whole names instead of prefixes costs a fifth, and unknown keys cost nothing further
    if not mine and _ANNOTATIONS.isdisjoint(annotations) and _LABELS.isdisjoint(labels):
        return NOTHING
    return Carried(mine, _pairs(annotations, _ANNOTATIONS), _pairs(labels, _LABELS))


def _pairs(texts: Mapping[str, str], names: frozenset[str]) -> Pairs:
    return (
        ()
        if names.isdisjoint(texts)
        else tuple([(name, texts[name]) for name in sorted(names & texts.keys())])
    )


def claims_of(carried: Carried, container: str) -> Claims:
    """Return other vocabularies' claims about a container ("" for the pod), cached."""
    if not carried.theirs and not carried.labels:
        return SILENT
    return _read(carried.theirs, carried.labels, container)


@lru_cache(maxsize=PODS_KEPT)
def _read(annotations: Pairs, labels: Pairs, container: str) -> Claims:
    claims = Claims()
    for vocabulary in VOCABULARIES.values():
        vocabulary.read(dict(annotations), dict(labels), container, claims)
    return claims


_LENT_PERIOD_US: Final = 100_000
"""Microseconds: the kubelet's default period. `LENT_QUOTA` is a quota for this period."""

KNOBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{key: row.knob for key, row in keys.KEYS.items() if row.knob},
        LENT_SHARES: "shares",
        LENT_QUOTA: "quota",
    }
)
"""Key to the knob that it orders: the annotations' and the lent amounts'."""

_JUDGED: Final = (*(key for key in keys.KEYS if key != keys.QOS_CLASS), *USED)
"""Every key except the class, in the order in which the gate judges them."""


def resolve(
    pod: Pod,
    container: Container,
    tuning: Tuning,
    node_memory_bytes: int,
    members_request: int | None = None,
) -> Wish:
    """Return a container's wish. No annotation or label makes it raise.

    members_request: the CPU requests of the pod's containers, thousandths of a CPU; they count if the pod's is unknown.
    """
    limit = workload.known_memory_limit(container)
    request = workload.certain_memory(pod, container, node_memory_bytes)
    native, score = _has_shares(container.resources), container.oom_score_adj
    carried = carried_by(pod)
    subject = gate.Subject(
        pod,
        QoSClass.SHARED,
        tuning,
        limit,
        request,
        cpu_request=members_request if pod.cpu_request is None else pod.cpu_request,
        resources=container.resources,
        score=score,
    )
    if carried is NOTHING and (known := _by_rules(subject)) is not None:
        found = _of_class(pod, tuning, *known, _Given(native, limit, request, score))
        return _without_excess(gate.joined(found, pod, tuning), pod)
    return _without_excess(_annotated(_reading(carried, container.name), subject, native=native), pod)


def resolve_as_pod(pod_wish: Wish, container: Container) -> Wish | None:
    """Return the pod's wish if it holds for this container too; None if the caller must call `resolve`.

    It holds for most containers, at a tenth of the cost. Only the class's CPU shares differ by container: if a
    container has a CPU request, it keeps the kubelet's shares.
    """
    if not pod_wish.plain or pod_wish.qos is QoSClass.DEDICATED:
        return None
    if pod_wish.knobs.shares is not None and _has_shares(container.resources):
        return None
    return pod_wish


def resolve_pod(pod: Pod, tuning: Tuning, names: Collection[str] | None = None) -> Wish:
    """Return the pod's wish before any container is known. It has no memory values: their base is unknown.

    names: the pod's containers; None if they are unknown. Then each container that an annotation names may exist.
    """
    carried = carried_by(pod)
    subject = gate.Subject(pod, QoSClass.SHARED, tuning, cpu_request=pod.cpu_request, whole_pod=True)
    known = _by_rules(subject) if carried is NOTHING else None
    is_given = known is not None and gate.is_given(known[0], pod, tuning)
    if known is not None and is_given and not gate.tuned(tuning, known[0]).has_memory:
        found = gate.joined(_of_class(pod, tuning, *known, _Given(native=False)), pod, tuning)
        return _without_excess(found, pod) if pod.excess_bytes else _plain(found)
    reading = _reading(carried, "")
    wish = _annotated(reading, subject, native=_has_shares(pod.resources))
    knobs = wish.knobs._replace(memory_high=None, memory_low=None, memory_min=None)
    found = replace(wish, knobs=knobs, mixed=_is_mixed(reading, subject, wish.qos, names))
    return _without_excess(found, pod)


def _without_excess(wish: Wish, pod: Pod) -> Wish:
    """Return a wish, with a finding if the pod has more bytes of annotations and labels than are read."""
    if not pod.excess_bytes:
        return wish
    allowed = f"{MAX_BYTES} bytes of names and values that are read, together"
    written_there = f"{pod.excess_bytes} bytes"
    excess = Finding(FindingKind.INVALID, keys.ALL, written_there, allowed, "none")
    return replace(wish, findings=(*wish.findings, excess))


@lru_cache(maxsize=1024)
def _plain(wish: Wish) -> Wish:
    """Return one wish object for all equal pods, so that an answer cached for it serves all of them."""
    return replace(wish, plain=True)


def _is_mixed(
    of_pod: "_Reading", subject: gate.Subject, qos: QoSClass, names: Collection[str] | None
) -> bool:
    """Return whether a container may have another class than its pod. Each named class is judged once."""
    # other vocabularies cannot name a class for one container: the pod's claims hold for every container
    named = {
        _class_word(values[keys.QOS_CLASS][1]): name
        for name, values in of_pod.written.values.items()
        if name and keys.QOS_CLASS in values and (names is None or name in names)
    }
    readings = (replace(of_pod, container=name, noted=[]) for name in named.values())
    return any(_class_of(reading, subject)[0] is not qos for reading in readings)


def _class_word(text: str) -> QoSClass | None:
    try:
        found: QoSClass = keys.read(keys.QOS_CLASS, text)
    except ValueError:
        return None
    return found


def _has_shares(resources: Resources | None) -> bool:
    return resources is not None and (resources.shares or 0) > MIN_SHARES


class _Answer(NamedTuple):
    """The value of a key after the gate.

    value: None sets nothing.
    because: the place of the value, such as the name of an annotation.
    claim: the claim of another vocabulary; None for our own annotations.
    """

    value: Any
    because: str
    claim: Claim | None = None


@dataclass(slots=True)
class _Reading:
    """The keys of one container while they are judged.

    written: our own annotations.
    claims: other vocabularies' values.
    container: its name, "" for the pod.
    noted: key and finding of each value that the gate refused.
    short: whether the pod's CPU request is too small for a class that it named.
    """

    written: Written
    claims: Claims
    container: str
    noted: list[tuple[str, Finding]] = field(default_factory=list)
    short: bool = False

    def first(self, key: str, subject: gate.Subject) -> _Answer | None:
        """Return the first readable value that the gate admits: ours first, then the other vocabularies'."""
        for name, text in self.written.candidates(key, self.container):
            try:
                return _Answer(keys.judge(key, keys.read(key, text), subject), f"annotation {name}")
            except gate.UnfitError as unfit:
                self.deny(key, unfit, name, text)
            except ValueError:
                self.note(key, FindingKind.INVALID, name, text, keys.KEYS[key].allowed)
        for claim in self.claims.by_key.get(key, ()):
            try:
                value = claim.judged(subject)
            except gate.UnfitError as unfit:
                self.deny(key, unfit, claim.name, claim.text)
                continue
            if value is not None:
                return _Answer(value, f"{claim.source} {claim.name}", claim)
        return None

    def asked(self) -> list[str]:
        """Return the keys that an annotation or a claim names, without the class, in the order of the gate."""
        present = self.written.named(self.container) | self.claims.by_key.keys()
        present.discard(keys.QOS_CLASS)
        return [key for key in _JUDGED if key in present] if present else []

    def deny(self, key: str, unfit: gate.UnfitError, name: str, text: str) -> None:
        """Note a value that the gate refused for this subject."""
        self.short = self.short or isinstance(unfit, gate.ShortError)
        self.note(key, unfit.kind, name, text, unfit.allowed)

    def note(self, key: str, kind: FindingKind, name: str, text: str, allowed: str) -> None:
        self.noted.append((key, Finding(kind, keys.shown(name), keys.shown(text), allowed, "")))

    def findings(self, wish: Wish) -> tuple[Finding, ...]:
        """Return all findings, each with the value that is used instead."""
        if not (self.noted or self.written.refused or self.claims.findings):
            return ()
        told = (replace(finding, used=_used(key, wish)) for key, finding in self.noted)
        return (*told, *self.written.findings(self.container), *self.claims.findings)


def _reading(carried: Carried, container: str) -> _Reading:
    return _Reading(keys.by_container(carried.ours), claims_of(carried, container), container)


def _used(key: str, wish: Wish) -> str:
    return keys.KEYS[key].used(wish) if key in keys.KEYS else USED[key](wish)


class _Given(NamedTuple):
    """A container's own values that class defaults depend on.

    native: whether it has a CPU request.
    limit: memory limit in bytes, 0 for none.
    request: memory request in bytes, 0 for none.
    score: the kubelet's oom_score_adj, None if unknown.
    """

    native: bool
    limit: int = 0
    request: int = 0
    score: int | None = None


def _annotated(reading: _Reading, subject: gate.Subject, *, native: bool) -> Wish:
    qos, because = _class_of(reading, subject)
    subject = subject._replace(qos=qos)
    values: dict[str, Any] = {}
    origins: list[tuple[str, str, str]] = []
    chosen_by = burst_by = ""
    for key in reading.asked():
        found = reading.first(key, subject)
        if found is None or found.value is None:
            continue
        values[key] = found.value
        if found.claim is not None:
            origins.append((key, keys.shown(found.claim.name), keys.shown(found.claim.text)))
        if key == "cpu-pool":
            chosen_by = keys.shown(found.because)
        if key == "cpu-burst":
            burst_by = keys.shown(found.because)
        if key == "memory-limit":  # memory-high may be a percentage of this limit
            subject = subject._replace(limit=found.value)
    given = _Given(native, subject.limit, subject.request, subject.score)
    base = _of_class(subject.pod, subject.tuning, qos, because, given)
    if burst_by:
        base = replace(base, cpu_burst_percent=values["cpu-burst"], burst_because=burst_by)
    wish = gate.joined(_overlaid(base, values, tuple(origins)), subject.pod, subject.tuning, chosen_by)
    findings = reading.findings(wish)
    return replace(wish, findings=findings, short=reading.short) if findings else wish


def _class_of(reading: _Reading, subject: gate.Subject) -> tuple[QoSClass, str]:
    found = reading.first(keys.QOS_CLASS, subject)
    if found is not None:
        return found.value, keys.shown(found.because)
    for rule, because in gate.by_operator(subject.pod, subject.tuning):
        try:
            return gate.admit_rule(rule, subject), because
        except gate.UnfitError as unfit:
            reading.deny(keys.QOS_CLASS, unfit, because, f"class {rule.qos}")
    return gate.by_kubernetes(subject.pod)


def _by_rules(subject: gate.Subject) -> tuple[QoSClass, str] | None:
    """Return class and reason of a pod without a known key; None if the gate denies one of the operator's rules."""
    try:
        for rule, because in gate.by_operator(subject.pod, subject.tuning):
            return gate.admit_rule(rule, subject), because
    except gate.UnfitError:
        return None
    return gate.by_kubernetes(subject.pod)


def _overlaid(base: Wish, values: Mapping[str, Any], origins: tuple[tuple[str, str, str], ...]) -> Wish:
    if not values:
        return base
    ordered = {KNOBS[key]: value for key, value in values.items() if key in KNOBS}
    if LENT_QUOTA in values:
        ordered["period"] = _LENT_PERIOD_US
    return Wish(
        qos=base.qos,
        because=base.because,
        pool=values.get("cpu-pool", ""),
        numa=values.get("numa", Numa.NONE),
        numa_count=values.get("numa-count", 0),
        numa_ids=values.get("numa-ids", 0),
        evenly=values.get(EVEN_PARTS, False),
        one_socket=values.get(ONE_SOCKET, False),
        placement=values.get("cpu-placement", Placement.PACKED),
        cpus_ordered=values.get(ORDERED_CPUS, 0),
        cpu_milli=values.get(CPU_REQUEST, 0),
        init=values.get(INIT, False),
        knobs=base.knobs._replace(**ordered) if ordered else base.knobs,
        annotated=Knobs(**ordered) if ordered else NO_KNOBS,
        cpu_burst_percent=base.cpu_burst_percent,
        burst_because=base.burst_because,
        priority=values.get("priority", 0),
        avoidance=values.get("avoidance"),
        tolerance=values.get("tolerance", Tolerance.NORMAL),
        preserve=values.get("preserve", frozenset()),
        handler=base.handler,
        origins=origins,
    )


def _of_class(pod: Pod, tuning: Tuning, qos: QoSClass, because: str, given: _Given) -> Wish:
    settings = gate.tuned(tuning, qos)
    is_judged = gate.is_privileged(settings) and not gate.is_given(qos, pod, tuning)
    if is_judged and not gate.is_allowed(pod, qos, tuning):
        score = given.score if settings.oom_score_adj is not None else None
        settings = gate.unprivileged(settings, qos, pod.kube_qos, score)
    if settings.has_memory:
        given = given._replace(score=None)
    else:
        given = _Given(given.native)  # the other values have no effect: fewer cache entries
    return _default(settings, qos, because, tuning.handlers.get(pod.handler, "container"), given)


@lru_cache(maxsize=1024)
def _default(settings: ClassTuning, qos: QoSClass, because: str, handler: str, given: _Given) -> Wish:
    knobs = Knobs(
        shares=None if given.native else settings.cpu_shares,
        memory_high=_class_limit(settings.memory_high, given.limit),
        memory_low=_class_protection(settings.memory_low, given.request),
        memory_min=_class_protection(settings.memory_min, given.request),
        oom_score_adj=settings.oom_score_adj,
        io_weight=None if settings.io_weight == KERNELS_IO_WEIGHT else settings.io_weight,
    )
    return Wish(
        qos,
        because,
        knobs=knobs,
        cpu_burst_percent=settings.cpu_burst or None,
        burst_because=f"classes.{qos}.cpuBurst" if settings.cpu_burst else "",
        handler=handler,
    )


def _class_bytes(text: str | None, base: int) -> int | None:
    return None if text is None else quantity.amount(text).of(base)


def _class_limit(text: str | None, base: int) -> int | None:
    """Return a default limit in bytes, at least `LEAST_MEMORY`; None for no limit."""
    found = _class_bytes(text, base)
    return None if found is None else max(found, LEAST_MEMORY)


def _class_protection(text: str | None, request: int) -> int | None:
    """Return a default protection in bytes, at most the container's own request; None for no protection."""
    return min(_class_bytes(text, request) or 0, request) or None
