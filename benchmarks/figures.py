"""Figures from samples, in the form of `build/bench.json`."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

BUILD = Path("build/bench.json")


@dataclass(frozen=True, slots=True)
class Figures:
    """Hold figures in microseconds."""

    p50_us: float
    p99_us: float
    max_us: float
    n: int


def of(samples_ns: Sequence[int]) -> Figures:
    """Return the figures of samples in nanoseconds."""
    ordered = sorted(samples_ns)
    n = len(ordered)
    return Figures(
        round(ordered[n // 2] / 1000, 1),
        round(ordered[min(n - 1, n * 99 // 100)] / 1000, 1),
        round(ordered[-1] / 1000, 1),
        n,
    )


def write(results: dict[str, Figures]) -> None:
    """Add results to `build/bench.json`; other names in it stay."""
    BUILD.parent.mkdir(exist_ok=True)
    known = json.loads(BUILD.read_text()) if BUILD.exists() else {}
    known.update({name: asdict(figures) for name, figures in results.items()})
    BUILD.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


def show(results: dict[str, Figures]) -> None:
    """Print a table."""
    for name, f in results.items():
        print(f"{name:38} p50 {f.p50_us:9.1f}  p99 {f.p99_us:9.1f}  max {f.max_us:10.1f}  n {f.n}")


def machine() -> str:
    """Return the name of the machine that the figures hold for."""
    cpus = sum(line.startswith("processor") for line in Path("/proc/cpuinfo").read_text().splitlines())
    return f"{platform.platform()}, {cpus} CPUs, Python {platform.python_version()}"
