"""The cases of `python -m benchmarks pressure`, and their outcomes.

A case is one reclaimed pod of one of five kinds that begins beside an online pod and two innocent reclaimed pods. The
kind, the program and the CPU request of the reclaimed pod follow from the seed. In a case of the sixth kind, `none`,
the pod sleeps: a hurt is the measurement's own noise there, and each verdict is wrong.

A hog does the same throughout, and the calm parts before and after it are neighbours of the time beside it. So the p99
of each half beside the hog is compared with that of each neighbour, all of the same length: the online pod is hurt if
all of these pairs differ by more than 1.2 times, and not hurt if none does. If the pairs disagree, the machine's own
noise is larger than the bound: the case is `undecided` and counted apart.

Right is a verdict that names the hog and no innocent if it was hurt, and no verdict if it was not. A verdict that names
an innocent is wrong in each case. A hurt without a verdict is counted apart if no wait for CPU, memory or a disk rose,
but the CPU time of the same requests did: then it shared memory bandwidth or a cache, for which the kernel counts no
wait.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from benchmarks.colocation.kubelet import LEAST_SHARES
from benchmarks.colocation.server import REQUEST_SHARES
from nri_coloc.pressure.verdict import RESOLUTION_S
from tests.rig.load import burners

HURT: Final = 1.2
"""p99 beside the hog, in multiples of the p99 alone, above which the online pod was hurt."""

SIDES: Final = 2
"""Calm parts that a case needs: one before and one after it."""

SLOWER: Final = 1.1
"""The online pod's CPU time, in multiples of that alone, above which its requests took more of it each."""

REQUESTS: Final = (LEAST_SHARES, REQUEST_SHARES // 2, REQUEST_SHARES, 2 * REQUEST_SHARES)
"""CPU shares of a hog: none, and up to twice the online pod's, as users set it if nothing forbids it."""

RESOURCES: Final = ("cpu", "memory", "io")
OWN: Final = "own"

APART: Final = ("apart", "undecided")
"""Outcomes that are neither right nor wrong."""

Shares = Mapping[str, float]
"""Shares of the time in which the online pod waited, by resource, and of its own CPU time (`own`)."""


FIRST_S: Final = 1.0
CALM_S: Final = 6.0
"""The calm part is before the hog, from a second after the load's begin on: nginx and its connections are new then."""

RESOLUTION: Final = RESOLUTION_S / (CALM_S - FIRST_S)
"""Share of the time by which the stall of a calm part may be wrong."""


class Stalls(NamedTuple):
    """The online pod's stalls (PSI `some`) and its own CPU time up to a moment, µs."""

    at: float
    cpu: int
    memory: int
    io: int
    own: int = 0

    def shares_since(self, before: "Stalls") -> dict[str, float]:
        """Return the shares of the time since then."""
        span_us = (self.at - before.at) * 1e6
        return {name: (getattr(self, name) - getattr(before, name)) / span_us for name in (*RESOURCES, OWN)}


class Part(NamedTuple):
    """The online pod alone, or beside the hog: the p99 of each part of `CALM_S - FIRST_S`, and its stalls in all."""

    p99_ms: tuple[float, ...]
    shares: Shares


class Case(NamedTuple):
    """One case: its kind, its number within the kind, the hog's program and its CPU request."""

    kind: str
    number: int
    command: tuple[str, ...]
    request: int = LEAST_SHARES

    @property
    def name(self) -> str:
        """Return the hog's name."""
        return f"hog-{self.kind}-{self.number}"


class Played(NamedTuple):
    """What was measured in a case; for each verdict its resource and the pods that it names."""

    case: Case
    beside: Part
    verdicts: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def hog(self) -> str:
        """Return the hog's name, with its namespace."""
        return f"default/{self.case.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case: the online pod alone and beside the hog, the verdicts as in `Played`, and the outcome.

    p99_ms: of the parts alone, and of those beside the hog.
    hurt: None if it is undecided.
    """

    mode: str
    kind: str
    number: int
    command: str
    request: int
    p99_ms: tuple[tuple[float, ...], tuple[float, ...]]
    stalls: tuple[Shares, Shares]
    verdicts: tuple[tuple[str, tuple[str, ...]], ...]
    hurt: bool | None
    outcome: str

    @property
    def right(self) -> bool:
        """Return whether the verdict was right."""
        return self.outcome in ("named", "quiet", "protected")

    @property
    def mark(self) -> str:
        """Return the judgement in a word for people."""
        return "right" if self.right else "apart" if self.outcome in APART else "WRONG"


def cases(seed: int, count: int, kinds: Sequence[str]) -> list[Case]:
    """Return the cases of a seed, one kind after the other, round-robin."""
    draw = random.Random(seed)
    return [
        Case(kind, number, KINDS[kind](draw), draw.choice(REQUESTS))
        for number in range(count)
        for kind in kinds
    ]


def neighbours(calm: Sequence[Part | None], number: int) -> list[Part]:
    """Return the last known calm part before a case and the first one after it.

    calm: before the first case, of each case before its hog, and after the last case. None is unknown: requests of that
        case were overdue.
    """
    sides = reversed(calm[: number + 2]), calm[number + 2 :]
    return [part for side in sides if (part := next((one for one in side if one), None))]


def alone(parts: Sequence[Part]) -> Part:
    """Return calm parts as one: each p99, and the median stalls."""
    return Part(
        tuple(p99 for one in parts for p99 in one.p99_ms),
        {name: median(one.shares[name] for one in parts) for name in (*RESOURCES, OWN)},
    )


def results(
    mode: str, calm: Sequence[Part | None], played: Sequence[Played], before: Iterable[Result] = ()
) -> list[Result]:
    """Return the results of the cases of a mode. calm: as in `neighbours`. before: of the mode without protection."""
    hurt_before = {(one.kind, one.number) for one in before if one.hurt}
    return [
        _result(mode, alone(neighbours(calm, number)), one, hurt_before) for number, one in enumerate(played)
    ]


def _result(mode: str, usual: Part, played: Played, hurt_before: AbstractSet[tuple[str, int]]) -> Result:
    case = played.case
    return Result(
        mode=mode,
        kind=case.kind,
        number=case.number,
        command=case.command[-1],
        request=case.request,
        p99_ms=(usual.p99_ms, played.beside.p99_ms),
        stalls=(usual.shares, played.beside.shares),
        verdicts=played.verdicts,
        hurt=is_hurt(usual.p99_ms, played.beside.p99_ms),
        outcome=outcome(usual, played, was_hurt=(case.kind, case.number) in hurt_before),
    )


def is_hurt(alone_ms: Sequence[float], beside_ms: Sequence[float]) -> bool | None:
    """Return whether each p99 beside the hog is a hurt compared with each one alone.

    None if they disagree, or without a part before and a part after the hog.
    """
    if len(alone_ms) < SIDES:
        return None
    if min(beside_ms) > HURT * max(alone_ms):
        return True
    return None if max(beside_ms) > HURT * min(alone_ms) else False


def outcome(usual: Part, played: Played, *, was_hurt: bool = False) -> str:
    """Return the outcome of a case.

    named: hurt, and each verdict names the hog alone.
    innocent: a verdict names another pod.
    missed: hurt, without a verdict.
    apart: the same, and no wait rose.
    quiet: not hurt, without a verdict.
    protected: the same, and it was hurt without protection (`was_hurt`).
    false: not hurt, or beside a hog that sleeps, with a verdict.
    undecided: the parts disagree (`is_hurt`).
    """
    named = {pod for _, pods in played.verdicts for pod in pods}
    hurt = is_hurt(usual.p99_ms, played.beside.p99_ms)
    if named - {played.hog}:
        return "innocent"
    if named and (hurt is False or played.case.kind == "none"):
        return "false"
    if hurt is None:
        return "undecided"
    if not hurt:
        return "protected" if was_hurt else "quiet"
    if named:
        return "named"
    return "apart" if is_only_slower(usual.shares, played.beside.shares) else "missed"


def is_only_slower(usual: Shares, beside: Shares) -> bool:
    """Return whether the same requests took more CPU time, and no wait rose by more than PSI resolves."""
    no_wait_rose = all(beside[name] <= usual[name] + RESOLUTION for name in RESOURCES)
    return no_wait_rose and beside[OWN] > SLOWER * usual[OWN]


def _shell(line: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", line)


def _loops(line: str, count: int) -> tuple[str, ...]:
    """Return a program that runs a line for ever, so many times at once."""
    return _shell(" ".join(f"while :; do {line}; done &" for _ in range(count)) + " wait")


def _busy(draw: random.Random) -> tuple[str, ...]:
    return burners(draw.randint(2, 16))


def _forks(draw: random.Random) -> tuple[str, ...]:
    return _loops("/bin/true", draw.randint(2, 16))


def _cache(draw: random.Random) -> tuple[str, ...]:
    return _loops(f"cat /scratch/data* | head -c {draw.randint(300, 2000)}m > /dev/null", draw.randint(1, 4))


def _anonymous(draw: random.Random) -> tuple[str, ...]:
    count, whole = draw.randint(1, 4), draw.randint(400, 1200)
    return _loops(f"dd if=/dev/zero of=/dev/null bs={whole // count}M count=20 2>&-", count)


def _disk(draw: random.Random) -> tuple[str, ...]:
    size, count = draw.choice(("64k", "256k", "1M", "4M")), draw.randint(1, 8)
    if draw.random() < 0.5:
        return _loops(f"dd if=/scratch/data of=/dev/null bs={size} iflag=direct 2>&-", count)
    return _loops(f"dd if=/dev/zero of=/scratch/out bs={size} count=64 oflag=direct 2>&-", count)


def _none(_draw: random.Random) -> tuple[str, ...]:
    return _loops("sleep 1", 1)


KINDS: Final[Mapping[str, Callable[[random.Random], tuple[str, ...]]]] = {
    "busy": _busy,
    "forks": _forks,
    "cache": _cache,
    "anonymous": _anonymous,
    "disk": _disk,
    "none": _none,
}


INNOCENTS: Final = {
    "steady": _loops("i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; sleep 0.2", 1),
    "reader": _loops("dd if=/scratch/data of=/dev/null bs=16k count=20 iflag=direct 2>&-; sleep 0.2", 1),
}


def told(result: Result) -> str:
    """Return a case's line for people."""
    usual, beside = (" and ".join(f"{one:.2f}" for one in parts) or "unknown" for parts in result.p99_ms)
    stalls = ", ".join(
        f"{n} {result.stalls[0][n]:.1%} -> {result.stalls[1][n]:.1%}" for n in (*RESOURCES, OWN)
    )
    named = "; ".join(f"{resource}: {', '.join(pods)}" for resource, pods in result.verdicts) or "none"
    return (
        f"{result.mode} {result.kind:9} {result.mark} ({result.outcome}): "
        f"p99 alone {usual} ms, beside {beside} ms; verdict {named}; "
        f"stalls {stalls}; shares {result.request}: {result.command[:60]}"
    )


def summary(found: Sequence[Result]) -> list[str]:
    """Return a line for each mode and kind: the right verdicts, and the part of the hurts that is named."""
    lines = []
    for mode, kind in sorted({(one.mode, one.kind) for one in found}, reverse=True):
        some = [one for one in found if (one.mode, one.kind) == (mode, kind)]
        counts = Counter(one.outcome for one in some)
        hurts = sum(one.hurt is True and one.outcome != "apart" for one in some)
        right = sum(one.right for one in some)
        lines.append(
            f"{mode} {kind:9} right {right} of {len(some) - sum(counts[each] for each in APART)}, "
            f"undecided {counts['undecided']}, hurts named {counts['named']} of {hurts}: {dict(counts)}"
        )
    return lines
