"""I/O weights divide the throughput of a disk that one reader alone would keep busy.

The disk is the kernel's null_blk: one request at a time, each of the same length. The pods are siblings: weights
compete among siblings only, and the kubelet's own classes all weigh the same.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_coloc.cli import doctor
from tests.vm.load import read_side_by_side
from tests.vm.node import Container, Node

DISK = "nullb0"
QUEUE = Path("/sys/block", DISK, "queue")
REQUEST_NS = 4_000_000
SECONDS = 6.0
CLEARLY = 2  # the weights are 100 and 10
ROUNDS = 3  # a busy host takes CPU time from one reader alone: the effect must show in one of these rounds


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    options = ("nr_devices=1", "queue_mode=2", "submit_queues=1", "hw_queue_depth=1", "gb=1")
    timed = ("irqmode=2", f"completion_nsec={REQUEST_NS}")
    subprocess.run(["modprobe", "null_blk", *options, *timed], check=True, capture_output=True)
    yield Path("/dev", DISK)
    subprocess.run(["modprobe", "-r", "null_blk"], check=True, capture_output=True)


@pytest.fixture(scope="module")
def readers(node: Node) -> dict[str, Container]:
    return {"online": node.pod("online"), "offline": node.pod("offline", qos_class="reclaimed")}


def select(scheduler: str) -> None:
    (QUEUE / "scheduler").write_text(scheduler)
    if scheduler == "bfq":
        (QUEUE / "iosched/low_latency").write_text("0")  # else a new reader goes first for seconds


def is_seen(disk: Path, readers: dict[str, Container], holds: Callable[[int, int], bool]) -> bool:
    """Return whether `holds` is true for the blocks of the online and the offline reader, in one of ROUNDS rounds."""
    rounds = (read_side_by_side(disk, SECONDS, readers) for _ in range(ROUNDS))
    return any(holds(blocks["online"], blocks["offline"]) for blocks in rounds)


def verdict() -> str:
    """Return the sentence of `doctor` about I/O weights on this machine."""
    patient = doctor.Patient("/nowhere", "/nowhere", "/", "/tmp", "off")
    return next(check.sentence for check in doctor.checks(patient) if check.name == "I/O weights")


def test_online_and_offline_pods_have_the_weights_of_their_classes(readers: dict[str, Container]):
    weights = {name: pod.pod_cgroup("io.bfq.weight") for name, pod in readers.items()}
    assert weights == {"online": "default 100", "offline": "default 10"}


def test_under_bfq_the_heavier_pod_gets_clearly_more(disk: Path, readers: dict[str, Container]):
    select("bfq")
    assert is_seen(disk, readers, lambda online, offline: 0 < CLEARLY * offline <= online)
    assert f"{DISK} yes (bfq)" in verdict()


def test_the_doctor_reports_weights_without_a_scheduler(disk: Path, readers: dict[str, Container]):
    select("none")
    assert is_seen(disk, readers, lambda online, offline: online < CLEARLY * offline)
    assert f"{DISK} no (none)" in verdict()
