"""The daemon's other modes: it observes, reloads, ends and is slow."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig import cgroups, slow_daemon, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import SLOW_PROGRAM, Daemon
from tests.rig.versions import ON_THE_NEWEST
from tests.rig.waiting import becomes, wait_until
from tests.rig.workloads import NODE_CPUS
from tests.rig.writes import Writes

pytestmark = pytest.mark.containerd

OwnDaemon = Callable[..., Daemon]
RESERVED = frozenset({min(NODE_CPUS)})
RESERVE = f'node:\n  reservedCPUs: "{min(NODE_CPUS)}"\n'
BROKEN = (
    "node: [",
    "node:\n  reservedCPU: 1\n",
    f"node:\n  reservedCPUs: {len(NODE_CPUS)}\n",
    "mode: maybe\n",
)
ENDS_SECONDS = 2
SLOW_SECONDS = "1.2"  # a quarter of the runtime's two seconds is 0.5; an answer must not take the two seconds


@pytest.mark.bears_load
def test_observing_changes_nothing_but_says_what_it_would_do(cri: Cri, own_daemon: OwnDaemon):
    before = workloads.reclaimed(cri, "before")
    unplaced = _files_of(before)
    with Writes(unplaced) as writes:
        daemon = own_daemon(config="mode: observe\n")
        web = workloads.run(cri, "web", "dedicated", request=1, annotations={"coloc.nri.io/io-weight": "300"})
        batch = workloads.run(cri, "batch", "reclaimed", request=0.1, oom=300)
        daemon.wait_ready()
        assert writes.seen() == []
    for container in (before, web, batch):
        assert container.cpus == cgroups.cpus(container.pod.cgroup) == NODE_CPUS
        assert cgroups.weighs(container.cgroup, 100)
        assert cgroups.weighs(container.pod.cgroup, 100)
    assert web.spec_cpus == ""
    assert "coloc.nri.io/record" not in cri.info(web.id)["runtimeSpec"].get("annotations", {})
    assert cgroups.shares(batch.pod.cgroup) in (1024, None)
    assert cgroups.oom_score_adj(cri.pid(batch.id)) == 300
    assert len(cgroups.members(daemon.audited("container.admit", container_id=web.id)["after"]["cpus"])) == 1
    assert daemon.state()["mode"] == "observe"


@pytest.mark.bears_load
@ON_THE_NEWEST
def test_a_flag_makes_it_observe_whatever_the_file_says(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(flags=["--observe"], config="mode: enforce\n")
    assert workloads.dedicated(cri).first_cpus() == NODE_CPUS
    assert daemon.state()["mode"] == "observe"


def test_sigterm_ends_it_within_two_seconds_and_pins_stay(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon()
    web, neighbour, batch = workloads.dedicated(cri), workloads.shared(cri), workloads.reclaimed(cri)
    owned, left = web.first_cpus(), neighbour.cpus
    with Writes([*_files_of(web), *_files_of(neighbour), *_files_of(batch)]) as writes:
        assert daemon.terminate(ENDS_SECONDS) == 0
        assert writes.seen() == []
    assert (web.cpus, neighbour.cpus, batch.cpus) == (owned, left, left)
    assert daemon.audit("daemon.stop")
    assert workloads.shared(cri, "later").cpus == NODE_CPUS


@pytest.mark.bears_load
@ON_THE_NEWEST
def test_a_reload_moves_only_what_differs(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon()
    neighbour, batch, agent = workloads.shared(cri), workloads.reclaimed(cri), _agent(cri)
    with Writes([agent.cpuset_file]) as writes:
        daemon.config.write(RESERVE)
        wait_until(lambda: neighbour.cpus == NODE_CPUS - RESERVED, 30, "the shared container to move")
        wait_until(
            lambda: cgroups.cpus(batch.pod.cgroup) == NODE_CPUS - RESERVED, 30, "the offline pod to move"
        )
        assert writes.seen() == []
    assert agent.cpus == NODE_CPUS
    assert daemon.audited("config.reload")["reason"] == "valid"
    becomes(lambda: daemon.metric('nri_coloc_config_reload_total{result="valid"}'), 1)
    assert cgroups.members(daemon.state()["node"]["reserved"]) == RESERVED
    daemon.config.write("")
    wait_until(lambda: neighbour.cpus == batch.cpus == NODE_CPUS, 30, "the CPUs to come back")


@pytest.mark.bears_load
@ON_THE_NEWEST
def test_an_invalid_reload_is_reported_until_mended(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=RESERVE)
    neighbour = workloads.shared(cri)
    for broken in BROKEN:
        with Writes(_files_of(neighbour)) as writes:
            daemon.config.write(broken)
            wait_until(lambda: not daemon.check("config")["ok"], 30, f"readiness to refuse {broken!r}")
            assert writes.seen() == []
        assert neighbour.cpus == workloads.shared(cri, "later").first_cpus() == NODE_CPUS - RESERVED
        daemon.config.write(RESERVE)
        wait_until(lambda: daemon.check("config")["ok"], 30, "the mended file to count")
    told = ["invalid", "valid"] * len(BROKEN)
    wait_until(
        lambda: [r["reason"] for r in daemon.audit("config.reload")] == told, 30, "all of it in the audit"
    )
    becomes(lambda: daemon.metric('nri_coloc_config_reload_total{result="invalid"}'), len(BROKEN))
    assert "Traceback" not in daemon.log()


@pytest.mark.bears_load
@ON_THE_NEWEST
def test_a_file_that_vanishes_changes_nothing(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(config=RESERVE)
    neighbour = workloads.shared(cri)
    (daemon.config.file.parent / "..data").unlink()
    wait_until(lambda: not daemon.check("config")["ok"], 30, "readiness to say so")
    assert neighbour.cpus == NODE_CPUS - RESERVED
    assert not daemon.is_dead


@pytest.mark.bears_load
@ON_THE_NEWEST
def test_a_dedicated_container_leaves_cpus_that_become_reserved(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon()
    web = workloads.dedicated(cri)
    assert web.first_cpus() == RESERVED
    daemon.config.write(RESERVE)
    wait_until(lambda: web.cpus and web.cpus.isdisjoint(RESERVED), 30, "the reserve to be free")


@pytest.mark.parametrize("qos", ["dedicated", "shared", "reclaimed"])
def test_a_slow_decision_is_made_good_before_the_first_instruction(cri: Cri, own_daemon: OwnDaemon, qos: str):
    daemon = own_daemon(program=SLOW_PROGRAM)
    first = workloads.dedicated(cri, "first") if qos != "dedicated" else workloads.shared(cri, "first")
    late = workloads.run(
        cri, "late", qos, request=1, annotations={slow_daemon.SLOW: SLOW_SECONDS}, started=False
    )
    assert late.spec_cpus == ""
    late.start()
    assert late.first_cpus() == late.cpus == NODE_CPUS - (first.cpus or NODE_CPUS)
    record = daemon.audited("container.admit", container_id=late.id)
    assert record["reason"] == "placed_at_start"
    assert daemon.audited("container.late", container_id=late.id)["reason"] == "too_late"
    assert daemon.metric('nri_coloc_neutral_replies_total{hook="CreateContainer"}') >= 1
    assert daemon.metric("nri_coloc_reconnects_total") == 0


def test_a_slow_decision_keeps_its_cpus_through_a_restart(cri: Cri, own_daemon: OwnDaemon):
    daemon = own_daemon(program=SLOW_PROGRAM)
    late = workloads.run(cri, "late", "dedicated", request=1, annotations={slow_daemon.SLOW: SLOW_SECONDS})
    owned = late.first_cpus()
    daemon.kill()
    daemon.start()
    daemon.wait_ready()
    assert late.cpus == owned
    wait_until(lambda: cgroups.members(late.spec_cpus) == owned, 30, "the runtime's spec to agree")


def _agent(cri: Cri) -> workloads.Workload:
    return workloads.run(cri, "agent", namespace="kube-system", request=0.1)


def _files_of(workload: workloads.Workload) -> list[Path]:
    """Return the existing files that the product might write for a running container."""
    names = (
        *(("cpuset", "cpuset.cpus"), ("cpuset", "cpuset.mems"), ("cpu", "cpu.shares"), ("cpu", "cpu.weight")),
        *(("blkio", "blkio.bfq.weight"), ("blkio", "io.weight"), ("memory", "memory.limit_in_bytes")),
    )
    groups = (workload.cgroup, workload.pod.cgroup)
    files = [cgroups.file(group, *name) for group in groups for name in names]
    return [path for path in files if path.exists()]
