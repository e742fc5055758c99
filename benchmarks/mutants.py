"""Change one operator or number of a deciding function at a time, and see whether the tests of its room notice.

    python -m benchmarks.mutants placing --mutants 400 --seed 1

The tree is copied once. A mutant is killed if a test of the room fails, hangs or cannot be imported. The results are
kept in `build/mutants-<room>-<seed>.jsonl`: a run that is interrupted goes on where it ended. Survivors are printed
with their line. A part of them is equivalent to the original (docs/testing.md).
"""

import argparse
import ast
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
LONGEST_S: Final = 600.0
"""Seconds for the room's tests; a mutant that takes longer hangs."""


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
        "driver",
        "lifecycle",
        "loans",
        "membership",
    ),
    *("nodes", "ownership", "pools", "protection", "reclaim_cgroups", "record", "resynchronisation"),
    *("returned_values", "search", "sizing", "starts", "step", "supply", "tiers", "update", "vm_pods"),
    *("waiting", "whereabouts"),
)
_LENDING: Final = (
    *("bands", "fast_loop", "glance", "groups", "headroom", "partition", "pool_size", "records", "stall"),
    "usage",
)
_RESTORE: Final = ("restore/restoration", "restore/spec_restoration")
_ORIGINALS: Final = ("host/journal", "host/marks", "host/originals", "host/write_back")

ROOMS: Final = {
    "placing": Room(tuple(f"placing/{name}" for name in _PLACING), ("tests/unit/placing",)),
    "lending": Room(tuple(f"lending/{name}" for name in _LENDING), ("tests/unit/lending",)),
    "memory": Room(("memory/bounds", "memory/division", "memory/headroom"), ("tests/unit/memory",)),
    "restore": Room((*_RESTORE, *_ORIGINALS), ("tests/unit/restore", "tests/unit/host")),
}


class Mutant(NamedTuple):
    """One change of one module: the number of its site in the module, the line, and the operator or number changed."""

    module: str
    site: int
    line: int
    change: str

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line} [{self.site}] {self.change}"


class Site(NamedTuple):
    """A place in a syntax tree; `apply` changes the tree."""

    line: int
    change: str
    apply: Callable[[], None]


_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_CALLED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


def sites(tree: ast.Module) -> Iterator[Site]:
    """Yield the places of a module's functions that can be changed, always in the same order."""
    for node in _evaluated(tree, within=False):
        match node:
            case ast.Compare(ops=[op]):
                yield _replaced(node, "ops", [_COMPARED[type(op)]()], type(op), _COMPARED[type(op)])
            case ast.BoolOp(op=op):
                other = ast.Or if isinstance(op, ast.And) else ast.And
                yield _replaced(node, "op", other(), type(op), other)
            case ast.BinOp(op=op) if type(op) in _COMPUTED:
                yield _replaced(node, "op", _COMPUTED[type(op)](), type(op), _COMPUTED[type(op)])
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield _replaced(node, "test", ast.UnaryOp(ast.Not(), test), "condition", "its opposite")
            case ast.Constant(value=bool() as value):
                yield _replaced(node, "value", not value, value, not value)
            case ast.Constant(value=int() | float() as value):
                yield _replaced(node, "value", value + 1, value, value + 1)
            case ast.Name(id=name, ctx=ast.Load()) if name in _CALLED:
                yield _replaced(node, "id", _CALLED[name], name, _CALLED[name])


def _replaced(node: ast.expr | ast.stmt, field: str, value: object, *shown: object) -> Site:
    was, is_now = (each.__name__ if isinstance(each, type) else str(each) for each in shown)
    return Site(node.lineno, f"{was} → {is_now}", partial(setattr, node, field, value))


def _evaluated(node: ast.AST, *, within: bool) -> Iterator[ast.AST]:
    """Yield the nodes of functions' bodies, without annotations, which nothing evaluates."""
    is_function = isinstance(node, ast.FunctionDef)
    if within:
        yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _evaluated(child, within=within or (is_function and name == "body"))


def all_mutants(room: Room, tree: Path) -> list[Mutant]:
    """Return every mutant of a room."""
    return [
        Mutant(module, number, site.line, site.change)
        for module in room.modules
        for number, site in enumerate(sites(ast.parse(_file(module, tree).read_text())))
    ]


def mutated(text: str, number: int) -> str:
    """Return the text of a module with one site changed."""
    tree = ast.parse(text)
    list(sites(tree))[number].apply()
    return ast.unparse(ast.fix_missing_locations(tree))


def _file(module: str, tree: Path) -> Path:
    return tree / "nri_coloc" / f"{module}.py"


def copy_tree(folder: Path) -> None:
    """Copy all files that git knows."""
    listed = subprocess.run(
        ["git", "-C", PROJECT, "ls-files"], capture_output=True, text=True, check=True
    ).stdout
    for name in listed.splitlines():
        source, target = PROJECT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def is_noticed(tree: Path, *tests: str) -> bool:
    """Return whether the tests fail or hang."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tier", "fast", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def is_killed(room: Room, mutant: Mutant, tree: Path) -> bool:
    """Return whether a test notices a mutant; the tests of its own module come first."""
    folder, _, module = mutant.module.partition("/")
    file, own = _file(mutant.module, tree), f"tests/unit/{folder}/test_{module}.py"
    text = file.read_text()
    file.write_text(mutated(text, mutant.site))
    try:
        return ((tree / own).exists() and is_noticed(tree, own)) or is_noticed(tree, *room.tests)
    finally:
        file.write_text(text)


def known(results: Path) -> dict[str, bool]:
    """Return the results of earlier runs, by the mutant's name."""
    lines = results.read_text().splitlines() if results.exists() else []
    return {found["mutant"]: found["killed"] for found in map(json.loads, lines)}


def judge(room: Room, chosen: list[Mutant], results: Path) -> dict[str, bool]:
    """Try every mutant that has no result yet; return all results, by the mutant's name."""
    found = known(results)
    with tempfile.TemporaryDirectory() as folder, results.open("a") as kept:
        tree = Path(folder)
        copy_tree(tree)
        if is_noticed(tree, *room.tests):
            raise SystemExit(f"{' '.join(room.tests)} fail without any mutant: mend them first")
        for number, mutant in enumerate(chosen, 1):
            if mutant.name in found:
                continue
            began = time.monotonic()
            found[mutant.name] = is_killed(room, mutant, tree)
            kept.write(json.dumps({"mutant": mutant.name, "killed": found[mutant.name]}) + "\n")
            kept.flush()
            verdict, took_s = "killed" if found[mutant.name] else "SURVIVED", time.monotonic() - began
            print(f"{number}/{len(chosen)} {verdict} {took_s:.0f} s {mutant.name}", flush=True)
    return {mutant.name: found[mutant.name] for mutant in chosen}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--mutants", type=int, default=400, help="size of the random sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    given = parser.parse_args()
    room = ROOMS[given.room]
    every = all_mutants(room, PROJECT)
    chosen = random.Random(given.seed).sample(every, min(given.mutants, len(every)))
    build = PROJECT / "build"
    build.mkdir(exist_ok=True)
    found = judge(room, chosen, build / f"mutants-{given.room}-{given.seed}.jsonl")
    killed = sum(found.values())
    print(f"{killed} of {len(found)} mutants killed ({100 * killed / len(found):.1f} %), of {len(every)}")
    print("\n".join(name for name, is_dead in found.items() if not is_dead))


if __name__ == "__main__":
    main()
