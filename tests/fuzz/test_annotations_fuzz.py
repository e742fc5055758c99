"""Any annotation of a pod gives a wish; any file gives settings or a SettingsError.

Annotations take half of the inputs; files, which pass a whole YAML parser, a tenth. The seed is fixed, so that a
failure comes back; the input is in the failure's own text.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from nri_coloc.core.settings import Settings, Tuning
from nri_coloc.core.workload import PREFIX, Container, Pod, Resources, Wish
from nri_coloc.errors import SettingsError
from nri_coloc.pods import keys
from nri_coloc.pods.annotations import resolve, resolve_pod
from nri_coloc.service.configuration import loading
from tests.fuzz import corpus

NOUN: Final = "annotations"
MOST_FINDINGS: Final = 64
"""A pod's author decides how much is written, not how much is said of it."""

TUNING = Tuning()
CONTAINER = Container(
    "c", "p", "app", oom_score_adj=700, resources=Resources(shares=2048, memory_limit=1 << 30)
)
PARENTS = ("", "/kubepods/pod1", "/kubepods/burstable/pod1", "/kubepods/besteffort/pod1")
NAMES = (*keys.KEYS, keys.CONTAINERS, keys.RECORD, "", "typo", "qosclass")
SUFFIXES = ("", "", ".app", ".log", ".", ".a.b")
PIECES = (
    "dedicated",
    "shared",
    "reclaimed",
    "system",
    "none",
    "single",
    "exclusive",
    "packed",
    "throttle",
    "evict",
    "cpu",
    "memory",
    "share",
    "0",
    "1",
    "7",
    "-",
    "+",
    ",",
    ".",
    "%",
    " ",
    "\n",
    "\0",
    "Gi",
    "Mi",
    "m",
    "e",
    "E",
    "1000",
    "0-1",
    "9" * 30,
    "9" * 5000,
    "\ud800",
    "é",
    "٣",
    "{",
    "}",
    "[",
    "]",
    ":",
    '"',
    '{"app": {',
    '"io-weight"',
    '"qos-class": "system"',
    '{"app": {"numa": "single"}}',
    "[" * 3000,
    "null",
    "true",
    "1e99",
    "\\ud800",
    "a" * 300,
)  # fmt: skip - a pile of scraps, not a table
YAML_PIECES = (
    "apiVersion: coloc.nri.io/v1\n",
    "node:",
    "classes:",
    "runtime:",
    "telemetry:",
    "mode:",
    "strict:",
    "rules:",
    "reclaimed:",
    "ioWeight:",
    "reservedCPUs:",
    "handlers:",
    "\n",
    "\n  ",
    "\n    ",
    " ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "?",
    "|",
    ">",
    "&a",
    "*a",
    "!!int",
    "!x",
    "#",
    "%",
    "@",
    "`",
    "'",
    '"',
    "0-3",
    "7",
    "-1",
    "true",
    "off",
    "null",
    "~",
    "---\n",
    "...\n",
    "<<",
    "observe",
    "pods",
    "\t",
    "\0",
    "\x85",
    "\ufeff",
    "\ud800",
    "é",
    '"\\ud800"',
)  # fmt: skip - as above


def check(data: bytes) -> None:
    """Read each line as a pod's name, a blank and a value, in each of Kubernetes' classes."""
    lines = (line.partition(" ") for line in data.decode(errors="surrogateescape").split("\n"))
    annotations = {name: value for name, blank, value in lines if blank}
    for parent in PARENTS:
        pod = Pod("p", annotations=annotations, labels=annotations, cgroup_parent=parent)
        for wish in (resolve(pod, CONTAINER, TUNING, 1 << 36), resolve_pod(pod, TUNING)):
            assert len(wish.findings) <= MOST_FINDINGS + len(annotations)
            assert all(len(each.value) <= 256 and each.value.encode() for each in wish.findings if each.value)


@corpus.replayed(NOUN)
def test_kept_annotations_give_a_wish(seed: Path):
    check(seed.read_bytes())


def test_any_annotations_near_kept_ones_give_a_wish(fuzz_inputs: int):
    corpus.made_up(NOUN, check, fuzz_inputs)


@pytest.mark.parametrize("seed", corpus.seeds(NOUN), ids=lambda path: path.name)
def test_a_kept_pod_is_told_what_is_wrong_with_it(seed: Path):
    lines = seed.read_bytes().decode(errors="surrogateescape").splitlines()
    annotations = dict(line.split(" ", 1) for line in lines)
    pod = Pod("p", annotations=annotations, cgroup_parent=PARENTS[1])
    told = resolve(pod, CONTAINER, TUNING, 1 << 36).findings
    assert bool(told) is not seed.name.startswith("good-"), told


@pytest.fixture
def inputs(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--fuzz-inputs", default=2000))


def scraps(pieces: tuple[str, ...], count: int, seed: int) -> Iterator[str]:
    """Yield texts of pieces that have a meaning in some parser."""
    dice = random.Random(seed)
    for _ in range(count):
        yield "".join(dice.choices(pieces, k=dice.randint(0, 6)))


def test_any_annotation_gives_a_wish(inputs):
    dice = random.Random(11)
    for text in scraps(PIECES, inputs // 2, seed=12):
        names = (PREFIX + dice.choice(NAMES) + dice.choice(SUFFIXES) for _ in range(dice.randint(1, 3)))
        pod = Pod("p", annotations=dict.fromkeys(names, text), cgroup_parent=dice.choice(PARENTS))
        assert isinstance(resolve(pod, CONTAINER, TUNING, 1 << 36), Wish), repr(pod.annotations)
        assert isinstance(resolve_pod(pod, TUNING), Wish), repr(pod.annotations)


def test_any_file_gives_settings_or_a_sentence(inputs):
    for text in scraps(YAML_PIECES, inputs // 10, seed=13):
        assert isinstance(_loaded(text), Settings | str), repr(text)


def _loaded(text: str) -> Settings | str:
    try:
        return loading.load(text, "file")
    except SettingsError as error:
        return str(error)
