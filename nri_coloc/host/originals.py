"""The original values of a container, as an update of the runtime's spec and as kernel files.

They come from the container's record, or, if it ran before the daemon did, from the journal's entries of its files. A
knob without an original value gets the kernel's value for a new cgroup, and a cpuset gets its pod's: an update can
change a value but cannot take one out of a spec (nri-protocol §5.2).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nri_coloc.core import knobs, kubepods
from nri_coloc.core.knobs import (
    ATTRIBUTES,
    KERNELS_PERIOD,
    KERNELS_SHARES,
    NO_LIMIT,
    UNLIMITED_BYTES,
    Carrier,
    Knobs,
    Original,
    bent_cpu_weight,
    cpu_weight,
    shares_of,
)
from nri_coloc.host import io_limits
from nri_coloc.host.knob_files import FileValue, number, same

SPEC_FILES: Final = frozenset(file.name for file in knobs.files(*knobs.carried(Carrier.SPEC)))
"""The files of a container whose values its runtime's spec holds too."""

KERNELS: Final = {file.name: file.fresh for file in knobs.files() if file.fresh}
"""The values that the kernel gives a new cgroup, by file."""

UNIFIED: Final = tuple(file.name for file in knobs.files(*knobs.carried(Carrier.UNIFIED), cgroup=2))
"""The files of v2 that stand in a spec under their own names (`nri.codec`)."""

_WEIGHTS: Final = frozenset(file.name for file in knobs.files("io_weight"))

NOT_RESTORABLE: Final = tuple(knob.field for knob in knobs.TABLE if not knob.restorable)
"""Knobs that the runtime takes at creation only: no call of it changes them later."""

_CARRIED: Final = frozenset(knobs.carried(Carrier.SPEC))
"""The knobs that an update of a spec carries, on every version of cgroups."""

_FIGURES: Final = Knobs(shares=0, quota=0, period=0, memory_limit=0)
"""The numbers among them. The names count, the values do not."""

_DEFAULTS: Final = Knobs(shares=KERNELS_SHARES, quota=NO_LIMIT, period=KERNELS_PERIOD, memory_limit=NO_LIMIT)


def of_files(texts: Mapping[str, str]) -> Original:
    """Return the journalled values of one container's files, by file name; a text that is no number counts as none.

    A quota above 0 and its period are left out: the plugin raised that quota by file alone, and the container's spec
    still holds the kubelet's quota, or a newer one.
    """
    found: dict[str, str | int | None] = {}
    for name, text in texts.items():
        match name:
            case "cpuset.cpus" | "cpuset.mems":
                found[name.removeprefix("cpuset.")] = text.strip() or None
            case "cpu.shares":
                found["shares"] = number(text)
            case "cpu.weight":
                weight = number(text)
                found["shares"] = None if weight is None else shares_of(weight)
            case "cpu.cfs_quota_us":
                found["quota"] = number(text)
            case "cpu.cfs_period_us":
                found["period"] = number(text)
            case "cpu.max":
                quota, _, period = text.partition(" ")
                found |= {"quota": number(quota), "period": number(period)}
            case "memory.limit_in_bytes" | "memory.max":
                found["memory_limit"] = _limit(text)
    values = Knobs(**found)  # type: ignore[arg-type]  # each name has its own kind above
    if (values.quota or 0) > 0:
        return Original(frozenset(found) - {"quota", "period"}, values._replace(quota=None, period=None))
    return Original(frozenset(found), values)


def in_spec(original: Original, said: Knobs) -> Original:
    """Return the originals of the figures that a spec still holds in our version.

    A figure counts as ours if the spec's value differs from the journalled one. CPUs are left out: the spec itself
    shows whether its CPUs are ours.

    said: the spec's values.
    """
    before = original.values.where_set(_FIGURES)
    was = Knobs._make([None if value in (0, NO_LIMIT) else value for value in before])
    if said.shares and was.shares and was.shares in (said.shares, *_shown_shares(said.shares)):
        was = was._replace(shares=said.shares)  # as v2 shows it
    changed = said.differing(was).where_set(_FIGURES)
    ours = {name for name, value in zip(ATTRIBUTES, changed, strict=True) if value is not None}
    return Original(original.ours & ours, was)


def _shown_shares(shares: int) -> tuple[int, int]:
    """Return the shares that `of_files` reads from the weight of a runtime before 1.3.2 and of one from then on."""
    return shares_of(cpu_weight(shares)), shares_of(bent_cpu_weight(shares))


def as_update(original: Original, inherited: Knobs, now: Knobs) -> Knobs:
    """Return the update that writes the original values into the runtime's spec.

    A value that the spec lacks stays absent, because runc writes no file for it later.

    inherited: cpus and mems of the pod.
    now: the spec's values.
    """
    wanted = _DEFAULTS.overlaid(inherited).overlaid(original.values).differing(now).where_set(now)
    ours = original.ours & _CARRIED
    return Knobs._make(
        [value if name in ours else None for name, value in zip(ATTRIBUTES, wanted, strict=True)]
    )


def as_files(original: Original, inherited: Knobs, cgroup: int) -> tuple[FileValue, ...]:
    """Return the original values of the container's own files. On v2 an empty cpuset means the parent's.

    On v2 an original CPU weight is left to the runtime, because only the runtime knows how it converts shares. Values
    that only files hold (I/O weights, v2's memory.high and protections) had the kernel's values: the kubelet sets none.
    """
    values = _v1(original.values, inherited) if cgroup == 1 else _v2(original.values)
    return tuple(value for name, each in values.items() if name in original.ours for value in each)


def holds(shown: str, wanted: str) -> bool:
    """Return whether a file shows a wanted value already.

    A weight may be shown with or without the word "default". On v1 a huge memory limit stands for no limit.
    """
    if wanted == str(NO_LIMIT) and (limit := number(shown)) is not None and limit >= 0:
        return limit >= UNLIMITED_BYTES
    first = shown.split("\n", maxsplit=1)[0].removeprefix("default ")
    return first.strip() == wanted.removeprefix("default ")


def written(name: str, was: str) -> str:
    """Return the text that restores a file.

    A weight's file shows one line more for each device with a weight of its own, but takes one line at a time
    (block/blk-iocost.c, ioc_weight_write: EINVAL for the whole). Weights of devices are not ours: they stay.
    """
    if name not in _WEIGHTS:
        return was
    lines = was.split("\n")
    return next((line for line in lines if line.startswith("default ")), lines[0])


def _v1(was: Knobs, inherited: Knobs) -> dict[str, tuple[FileValue, ...]]:
    return {
        "cpus": _cpuset("cpuset.cpus", was.cpus or inherited.cpus),
        "mems": _cpuset("cpuset.mems", was.mems or inherited.mems),
        "shares": (FileValue("cpu", "cpu.shares", str(was.shares or KERNELS_SHARES)),),
        "period": (FileValue("cpu", "cpu.cfs_period_us", str(was.period or KERNELS_PERIOD)),),
        "quota": (FileValue("cpu", "cpu.cfs_quota_us", str(was.quota or NO_LIMIT)),),
        "memory_limit": (FileValue("memory", "memory.limit_in_bytes", str(was.memory_limit or NO_LIMIT)),),
        **_fresh(1),
    }


def _v2(was: Knobs) -> dict[str, tuple[FileValue, ...]]:
    bandwidth = FileValue("cpu", "cpu.max", f"{_or_max(was.quota)} {was.period or KERNELS_PERIOD}")
    return {
        "cpus": (FileValue("cpuset", "cpuset.cpus", was.cpus or ""),),
        "mems": (FileValue("cpuset", "cpuset.mems", was.mems or ""),),
        "shares": () if was.shares else (FileValue("cpu", "cpu.weight", KERNELS["cpu.weight"]),),
        "quota": (bandwidth,),
        "period": (bandwidth,),
        "memory_limit": (FileValue("memory", "memory.max", _or_max(was.memory_limit)),),
        **_fresh(2),
    }


def _fresh(cgroup: int) -> dict[str, tuple[FileValue, ...]]:
    """Return the kernel's values of the knobs that no spec holds by a field of its own."""
    return {
        field: tuple(
            FileValue(file.controller, file.name, file.fresh) for file in knobs.files(field, cgroup=cgroup)
        )
        for field in knobs.carried(Carrier.UNIFIED)
    }


def _cpuset(name: str, cpus: str | None) -> tuple[FileValue, ...]:
    return () if cpus is None else (FileValue("cpuset", name, cpus),)


def _or_max(amount: int | None) -> str:
    return str(amount) if amount is not None and amount > 0 else "max"


def _limit(text: str) -> int | None:
    limit = number(text)
    return None if limit is None or limit >= UNLIMITED_BYTES else limit


CPUSETS: Final = frozenset({"cpuset.cpus", "cpuset.mems"})


class Entry(NamedTuple):
    """The journal's entry of a file.

    original: the value before our first write, which `restore` writes.
    is_known: False if that value is unknown; `original` is then a value that does no harm.
    ours: the values of ours that the file may hold: the last one, and the one before it, because the process may have
        ended before the write; none if they were not noted, as of CPUs.
    """

    original: str
    is_known: bool = True
    ours: tuple[str, ...] = ()

    def is_original(self, shown: str) -> bool:
        """Return whether a file shows its original value, and it is known to be."""
        return self.is_known and self.original == shown

    def is_anothers(self, shown: str) -> bool:
        """Return whether a file shows a value that another writer wrote after us: no original and no value of ours.

        False if no value of ours is known.
        """
        known = (self.original, *self.ours)
        return bool(self.ours) and not any(same(shown, text) or holds(shown, text) for text in known)

    def before_write(self, shown: str, texts: tuple[str, ...]) -> "Entry":
        """Return the entry to keep before a write.

        shown: the file's text before the write.
        texts: the texts that it may show afterwards; if there are none, no value of ours is known from then on.

        Without a known value of ours before, the shown one may be ours, unless it is the original.
        """
        known = self.ours or (() if self.original == shown else (shown,))
        held = (text for text in known if same(shown, text)) if texts else ()
        return self._replace(ours=tuple(dict.fromkeys((*held, *texts))))


def unknown(file: str, found: str) -> Entry:
    """Return a harmless substitute for an original value that is unknown.

    A cpuset becomes its parent's. A container's value that its runtime's spec holds too stays as found, because file
    and spec agree. Every other file gets the kernel's value for a new cgroup, because the found value may be ours.
    """
    folder, _, name = file.rpartition("/")
    if name in CPUSETS:
        return Entry("", is_known=False)
    if name in SPEC_FILES and kubepods.is_a_pods(folder.rpartition("/")[0]):
        return Entry(found, is_known=False, ours=(found,))
    if name in io_limits.ALL_NAMES:
        return Entry("", is_known=False)
    return Entry(KERNELS.get(name, found), is_known=False, ours=(found,))
