"""The disk is full: for the audit on stdout, and for everything in the state folder, journal and checkpoint."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_coloc.cli import main
from tests.rig import checkpoint, disk, studious_daemon
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.inspector import Inspector
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import wait_until
from tests.rig.workloads import NODE_CPUS
from tests.rig.writes import Writes

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, ON_THE_NEWEST]

OwnDaemon = Callable[..., Daemon]
LENDING = "reclaim: {enabled: true}\n"
PAGE = 4096
CHECKPOINT = "forecast"
MORE_TRIES = 3
CREATED = 0x100  # <sys/inotify.h>
LOST = 'nri_coloc_audit_lost_total{why="no_space"}'


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    with disk.tiny(tmp_path / "disk") as found:
        yield found


@pytest.mark.invariant(1, 3, 6, 7, 8)
def test_an_audit_that_nobody_can_write_costs_the_audit_alone(own_daemon: OwnDaemon, inspector: Inspector):
    daemon = own_daemon(audit_to=Path("/dev/full"))
    _one_of_each(inspector)
    inspector.wait_until_sound()
    wait_until(lambda: daemon.metric(LOST) >= 3, 30, "the lost records to be counted")
    assert daemon.metric("nri_coloc_reconnects_total") == 0


@pytest.mark.invariant(1, 3, 8)
def test_an_audit_continues_in_whole_lines_after_full_disks(
    own_daemon: OwnDaemon, inspector: Inspector, tiny: Path
):
    daemon = own_daemon(audit_to=tiny / "audit")
    disk.fill(tiny)
    _end_of_page(tiny / "audit")
    inspector.run("neighbour", "shared")
    wait_until(lambda: daemon.metric(LOST), 30, "a record to be lost")
    inspector.run("batch", "reclaimed")
    disk.free(tiny)
    web = inspector.run("web", "dedicated")
    inspector.wait_until_sound()
    assert daemon.audited("container.admit", container_id=web.id)["class"] == "dedicated"


@pytest.mark.invariant(1, 3, 6, 7, 8, 9)
def test_a_full_state_folder_costs_restore_and_no_placement(
    cri: Cri,
    own_daemon: OwnDaemon,
    inspector: Inspector,
    tiny: Path,
    capsys: pytest.CaptureFixture[str],
):
    (tiny / "state").mkdir()
    disk.fill(tiny)  # before the daemon's start: the journal's first page would hold all entries
    daemon = own_daemon(state_dir=tiny / "state")
    web, neighbour, _batch = _one_of_each(inspector)
    inspector.wait_until_sound()
    assert daemon.audited("write.failed", saying="restore journal")
    assert "No space left on device" in daemon.check("state")["detail"]
    assert daemon.metric("nri_coloc_state_writable") == 0
    main.main(["doctor", *daemon.places()], {})
    said = " ".join(capsys.readouterr().out.split())
    assert "state cannot be written: No space left on device; pods are placed nevertheless" in said
    owned = web.cpus
    daemon.kill()
    daemon.start()
    daemon.wait_synchronised()
    inspector.wait_until_sound()
    assert web.cpus == owned, "what is owned is nowhere in the state folder"
    inspector.forget(web)
    cri.remove_pod(web.pod.id)
    wait_until(lambda: neighbour.cpus == NODE_CPUS, 30, "the CPUs to come back")


@pytest.mark.invariant(1, 3, 6, 8)
def test_a_full_disk_leaves_the_former_checkpoint_whole(
    cri: Cri, own_daemon: OwnDaemon, inspector: Inspector, tiny: Path
):
    state = tiny / "state"
    daemon = own_daemon(state_dir=state, config=LENDING, program=studious_daemon.PROGRAM)
    neighbour = inspector.run("neighbour", "shared")
    wait_until((state / CHECKPOINT).exists, 60, "a first checkpoint")
    _fill_until(tiny, lambda: _complaints(daemon, state) == 1, "a checkpoint that finds no room")
    kept = checkpoint.read(state / CHECKPOINT)
    with Writes() as tries:
        tries.watch(state, CREATED)
        web = inspector.run("web", "dedicated")
        inspector.run("batch", "reclaimed")
        inspector.wait_until_sound()
        wait_until(lambda: len(tries.seen()) >= MORE_TRIES, 60, "more tries")
    assert checkpoint.read(state / CHECKPOINT) == kept
    disk.free(tiny)
    wait_until(lambda: _saved_s(state) > kept["saved_s"], 60, "a newer checkpoint")
    assert _complaints(daemon, state) == 1, "a problem is said once"
    wait_until(lambda: daemon.metric("nri_coloc_state_writable") == 1, 60, "the folder to be well")

    _fill_until(tiny, lambda: _complaints(daemon, state) == 2, "a disk that is full again to be said again")
    kept, owned = checkpoint.read(state / CHECKPOINT), web.cpus
    assert daemon.terminate() == 0
    assert checkpoint.read(state / CHECKPOINT) == kept
    inspector.forget(neighbour)
    cri.remove_pod(neighbour.pod.id)
    daemon.start()
    daemon.wait_synchronised()
    inspector.wait_until_sound()
    assert web.cpus == owned
    disk.free(tiny)
    wait_until(lambda: _saved_s(state) > kept["saved_s"], 60, "a newer checkpoint")
    assert checkpoint.read(state / CHECKPOINT)["workloads"].keys() >= kept["workloads"].keys(), "all was read"


def _fill_until(tiny: Path, predicate: Callable[[], bool], what: str) -> None:
    """Fill the disk again and again: a file that is replaced or given up frees room for a moment."""

    def look() -> bool:
        disk.fill(tiny)
        return predicate()

    wait_until(look, 60, what)


def _complaints(daemon: Daemon, state: Path) -> int:
    return daemon.log().count(f"cannot write {state / CHECKPOINT}")


def _saved_s(state: Path) -> float:
    saved_s: float = checkpoint.read(state / CHECKPOINT)["saved_s"]
    return saved_s


def _end_of_page(audit: Path) -> None:
    """Pad a file to a whole page: a full disk still has room in the rest of the file's last page.

    Blanks before a record change nothing about it; a record that came meanwhile is padded behind.
    """
    with audit.open("a") as file:
        while used := audit.stat().st_size % PAGE:
            file.write(" " * (PAGE - used))
            file.flush()


def _one_of_each(inspector: Inspector):
    return [inspector.run(f"{qos}-one", qos) for qos in ("dedicated", "shared", "reclaimed")]
