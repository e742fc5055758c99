"""Change one operator or number of a deciding function at a time, and see whether the tests of its room notice.

    python -m benchmarks.mutants placing --mutants 400 --seed 1

One process imports the product and collects the room's tests. Its first child plays them once, and records each test's
time and the lines that it reaches. Then each mutant gets a child. The child replaces the code of the changed function
and plays the tests that reach the changed line, the quickest first, until one fails. A line that runs while tests are
collected may leave its result in a constant. So a mutant that survives there is tried again in a process that imports
the changed module. Survivors are printed with their line. A part of them is equivalent to the original
(docs/testing.md).
"""

import argparse
import ast
import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from importlib.machinery import SourceFileLoader
from itertools import chain, pairwise, repeat
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, NamedTuple

import coverage
import pytest

from benchmarks.children import Ended, run
from benchmarks.mutations import mutated, sites

PROJECT = Path(__file__).resolve().parents[1]
SURVIVED: Final = "survived"
SPARE_CPU_S: Final = 3.0
"""Seconds of CPU time that a test may take beyond ten times its usual time; then the mutant has timed out."""
LONGEST_SLEEP_S: Final = 60.0
"""Seconds that a test may sleep: a mutant may also wait for ever. Time without a free CPU does not count."""
LONGEST_START_S: Final = 600.0
"""Seconds of CPU time for all tests of a mutant in a process of its own."""


class Room(NamedTuple):
    """The modules of which functions are changed, by their paths in `nri_coloc`, and the tests that must notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


_PLACING: Final = (
    *(
        "admission",
        "allocator",
        "candidates",
        "change",
        "claim",
        "claims",
        "driver",
        "lifecycle",
        "loans",
        "node",
    ),
    *("nodes", "ownership", "pools", "protection", "reclaim_cgroups", "record", "resynchronisation"),
    *("returned_values", "search", "starts", "supply", "tiers", "update", "vm_pods", "waiting"),
)
_LENDING: Final = ("bands", "fast_loop", "groups", "partition", "pool_size", "records", "usage")
_RESTORE: Final = ("restore/restoration", "restore/spec_restoration")
_ORIGINALS: Final = ("host/journal", "host/mark_owners", "host/marks", "host/originals", "host/write_back")

ROOMS: Final = {
    "placing": Room(
        tuple(f"placing/{name}" for name in _PLACING),
        (
            "tests/unit/placing",
            "tests/property/test_placing_invariants.py",
            "tests/property/test_allocator.py",
            "tests/scenario/test_placing_scenarios.py",
        ),
    ),
    "lending": Room(
        tuple(f"lending/{name}" for name in _LENDING),
        (
            "tests/unit/lending",
            "tests/property/test_bands.py",
            "tests/property/test_lendable_use.py",
            "tests/property/test_lending_invariants.py",
            "tests/property/test_partition_invariants.py",
            "tests/scenario/test_lending_scenarios.py",
        ),
    ),
    "memory": Room(
        ("memory/bounds", "memory/division", "memory/headroom"),
        (
            "tests/unit/memory",
            "tests/property/test_authority_of_memory.py",
            "tests/property/test_box_memory.py",
        ),
    ),
    "restore": Room(
        (*_RESTORE, *_ORIGINALS),
        (
            "tests/unit/restore",
            "tests/unit/host",
            "tests/unit/cli/test_restore.py",
            "tests/property/test_restored_values.py",
        ),
    ),
}


class Mutant(NamedTuple):
    """One change of one module: the number of its site in the module, its lines, and the operator or number changed."""

    module: str
    site: int
    statement: int
    """The first line of the statement: code of a long expression may count as one of several lines."""
    line: int
    change: str

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line} [{self.site}] {self.change}"


def all_mutants(room: Room) -> list[Mutant]:
    """Return every mutant of a room."""
    return [
        Mutant(module, number, site.statement, site.line, site.change)
        for module in room.modules
        for number, site in enumerate(sites(ast.parse(_file(module).read_text())))
    ]


def _file(module: str) -> Path:
    return PROJECT / "nri_coloc" / f"{module}.py"


def code_of(mutant: Mutant) -> CodeType:
    """Return the code of a mutant's module."""
    file = _file(mutant.module)
    return compile(mutated(file.read_text(), mutant.site), str(file), "exec", dont_inherit=True)


def functions_of(files: Collection[str]) -> list[FunctionType]:
    """Return the functions of modules, also those that decorators, classes and other modules hold.

    No search finds frozen objects, and `tests/conftest.py` freezes all that are there after the collection of tests.
    """
    gc.unfreeze()
    return [
        each for each in gc.get_objects() if type(each) is FunctionType and each.__code__.co_filename in files
    ]


def replace_functions(functions: Iterable[FunctionType], code: CodeType) -> None:
    """Give the functions of a module other code, in place."""
    codes = {(each.co_qualname, each.co_firstlineno): each for each in _functions(code)}
    for each in functions:
        was = each.__code__
        if was.co_filename == code.co_filename:
            each.__code__ = codes.get((was.co_qualname, was.co_firstlineno), was)


def _functions(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if not each.co_name.startswith("<"):  # lambdas of one line share their name
                yield each
            yield from _functions(each)


def replace_module(code: CodeType) -> None:
    """Let the import of a module find other code."""
    found = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        return code if self.path == code.co_filename else found(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]  # the process is this mutant's own


class Reached(NamedTuple):
    """The CPU time of each test in seconds, and the tests that reach each line of a module, by their numbers."""

    cpu_s: list[float]
    lines: dict[str, dict[int, list[str]]]

    def by(self, mutant: Mutant) -> list[int]:
        """Return the tests that reach a mutant, quickest first."""
        return sorted((int(test) for test in self._by(mutant) if test), key=lambda test: self.cpu_s[test])

    def while_collected(self, mutant: Mutant) -> bool:
        """Return whether the line runs too while modules are imported and tests collected."""
        return "" in self._by(mutant)

    def _by(self, mutant: Mutant) -> set[str]:
        lines = self.lines[mutant.module]
        return {test for line in range(mutant.statement, mutant.line + 1) for test in lines.get(line, [])}


class Verdict(NamedTuple):
    """`killed` by a test, `timed out`, or `survived`; `because` names the test, the signal, or the number of tests."""

    outcome: str
    because: str


class Player:
    """Play tests alike in each process, as a plugin of pytest."""

    failed = ""
    """The first test that failed in this process."""

    def pytest_sessionstart(self) -> None:
        """Let hypothesis try the same examples each time, and neither keep nor shrink one that fails."""
        import hypothesis  # pytest rewrites its assertions if it is imported after pytest has begun

        found = hypothesis.Phase.explicit, hypothesis.Phase.generate
        hypothesis.settings.register_profile("mutants", derandomize=True, database=None, phases=found)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the first failure."""
        if report.failed:
            self.failed = self.failed or report.nodeid


class Trials(Player):
    """Play a room's tests once, and for each mutant those that reach it."""

    def __init__(self, room: Room, mutants: list[Mutant], workers: int) -> None:
        self._room, self._mutants, self._workers = room, mutants, workers
        self._files = [str(_file(module)) for module in room.modules]
        self._coverage = coverage.Coverage(data_file=None, include=self._files, config_file=False)
        self._functions: list[FunctionType] = []
        self.verdicts: dict[Mutant, Verdict] = {}
        self.collected: list[Mutant] = []
        """Survivors of which the line ran before the functions were replaced."""

    def pytest_collection(self) -> None:
        """Record too which lines run while tests are collected."""
        self._coverage.start()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find the verdicts."""
        ((_, recorded),) = run([("the original", partial(self._record, session.items))], 1)
        self._coverage.stop()
        if isinstance(recorded.result, str):
            raise SystemExit(f"{recorded.result} fails without any mutant: mend it first")
        reached: Reached = recorded.result
        self._functions = functions_of(self._files)
        if not self._functions:
            raise SystemExit("no function of these modules was found, so no mutant would be tried")
        gc.freeze()  # else each child copies all objects when it collects garbage
        jobs = ((mutant, partial(self._try, mutant, reached, session.items)) for mutant in self._mutants)
        for number, (mutant, ended) in enumerate(run(jobs, self._workers), 1):
            self.verdicts[mutant] = verdict = _verdict(ended, f"{len(reached.by(mutant))} tests reach it")
            if verdict.outcome == SURVIVED and reached.while_collected(mutant):
                self.collected.append(mutant)
            shown = f"{verdict.outcome} {mutant.name} ({verdict.because})"
            print(f"{number}/{len(self._mutants)} {shown}", flush=True)
        return True

    def _record(self, items: list[pytest.Item]) -> Reached | str:
        cpu_s = []
        for number, item in enumerate(items):
            self._coverage.switch_context(str(number))
            began = time.process_time()
            if failed := self._play([item]):
                return failed
            cpu_s.append(time.process_time() - began)
        self._coverage.stop()
        found = self._coverage.get_data()
        lines = {module: found.contexts_by_lineno(str(_file(module))) for module in self._room.modules}
        return Reached(cpu_s, lines)

    def _try(self, mutant: Mutant, reached: Reached, items: list[pytest.Item]) -> str:
        replace_functions(self._functions, code_of(mutant))
        tests = reached.by(mutant)
        return self._play([items[test] for test in tests], [reached.cpu_s[test] for test in tests])

    def _play(self, items: list[pytest.Item], usual_s: Iterable[float] = ()) -> str:
        """Play tests until one fails; return its name, or an empty text."""
        limits_s = chain(usual_s, repeat(LONGEST_START_S))
        for (item, following), usual in zip(pairwise([*items, None]), limits_s, strict=False):
            assert item is not None
            signal.setitimer(signal.ITIMER_PROF, SPARE_CPU_S + 10 * usual)
            _limit_sleep()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                break
        return self.failed


def _limit_sleep() -> None:
    """Let SIGALRM end this process once it has slept for LONGEST_SLEEP_S from now on."""
    began_s = _asleep_s()

    def check(*_: object) -> None:
        left_s = LONGEST_SLEEP_S - (_asleep_s() - began_s)
        if left_s > 0:
            signal.setitimer(signal.ITIMER_REAL, left_s + 1.0)
        else:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGALRM)

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SLEEP_S)


def _asleep_s() -> float:
    """Return the seconds, from any fixed moment, in which the main thread neither ran nor waited for a CPU."""
    ran_ns, waited_ns, _ = map(
        int, Path("/proc/self/schedstat").read_text().split()
    )  # man 5 proc_pid_schedstat
    return time.monotonic() - (ran_ns + waited_ns) / 1e9


def _verdict(ended: Ended, otherwise: str) -> Verdict:
    if ended.signal in {signal.SIGPROF, signal.SIGALRM, signal.SIGXCPU}:
        return Verdict("timed out", signal.Signals(ended.signal).name)
    if ended.signal:
        return Verdict("killed", signal.Signals(ended.signal).name)
    return Verdict("killed", ended.result) if ended.result else Verdict(SURVIVED, otherwise)


def _arguments(room: Room) -> list[str]:
    options = ["-q", "-x", "-s", "--tier", "fast", "-p", "no:cacheprovider", "--rootdir", str(PROJECT)]
    return [*options, *room.tests]


def alone(room: Room, mutant: Mutant) -> str:
    """Play all tests of the room in this process, before it imports the product; return the test that failed."""
    replace_module(code_of(mutant))
    signal.setitimer(signal.ITIMER_PROF, LONGEST_START_S)
    player = Player()
    ended = pytest.main(_arguments(room), plugins=[player])
    return player.failed or (f"pytest ended with {ended}" if ended else "")


def _in_new_process(name: str, mutant: Mutant) -> str:
    command = [sys.executable, "-m", "benchmarks.mutants", name, "--alone", f"{mutant.module}:{mutant.site}"]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if ended.returncode < 0:
        os.kill(os.getpid(), -ended.returncode)
    return ended.stdout.splitlines()[-1] if ended.returncode else ""


def judge(name: str, chosen: list[Mutant], workers: int) -> dict[Mutant, Verdict]:
    """Return the verdict of each mutant of a room."""
    trials = Trials(ROOMS[name], chosen, workers)
    pytest.main(_arguments(ROOMS[name]), plugins=[trials])
    jobs = [(mutant, partial(_in_new_process, name, mutant)) for mutant in trials.collected]
    print(f"{len(jobs)} survivors again, each in a new process", flush=True)
    for mutant, ended in run(jobs, workers):
        trials.verdicts[mutant] = verdict = _verdict(ended, trials.verdicts[mutant].because)
        print(f"{verdict.outcome} {mutant.name} ({verdict.because})", flush=True)
    return trials.verdicts


def _commit() -> str:
    command = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--mutants", type=int, default=400, help="size of the random sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="mutants at once")
    parser.add_argument("--alone", metavar="MODULE:SITE", help="try this mutant, in a process of its own")
    given = parser.parse_args()
    every = all_mutants(ROOMS[given.room])
    if given.alone:
        (mutant,) = (each for each in every if f"{each.module}:{each.site}" == given.alone)
        failed = alone(ROOMS[given.room], mutant)
        print(failed or SURVIVED)
        raise SystemExit(bool(failed))
    chosen = random.Random(given.seed).sample(every, min(given.mutants, len(every)))
    began = time.monotonic()
    found = judge(given.room, chosen, given.workers)
    counted = Counter(verdict.outcome for verdict in found.values())
    dead = len(found) - counted[SURVIVED]
    print(f"{_commit()}: {given.room}: {len(found)} of {len(every)} mutants, {dict(counted)},", end=" ")
    print(f"{100 * dead / len(found):.1f} % noticed, {time.monotonic() - began:.0f} s")
    for mutant in sorted(mutant for mutant, verdict in found.items() if verdict.outcome == SURVIVED):
        print(f"{mutant.name}: {_line(mutant)}")


def _line(mutant: Mutant) -> str:
    return _file(mutant.module).read_text().splitlines()[mutant.line - 1].strip()


if __name__ == "__main__":
    main()
