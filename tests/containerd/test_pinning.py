"""Containers get their CPUs before their first instruction and release them at their end, by the kernel's files."""

import grpc
import pytest

from tests.rig import cgroups, kubepods, workloads
from tests.rig.cri import Cri
from tests.rig.daemon import Daemon
from tests.rig.waiting import becomes, wait_until
from tests.rig.workloads import NODE_CPUS

pytestmark = [pytest.mark.containerd, pytest.mark.bears_load, pytest.mark.usefixtures("daemon")]


def test_a_dedicated_cpu_is_its_own_at_first_instruction(cri: Cri):
    web = workloads.dedicated(cri)
    assert len(web.first_cpus()) == 1
    assert web.cpus == cgroups.effective_cpus(web.cgroup) == web.first_cpus()
    assert cgroups.allowed_cpus(cri.pid(web.id)) == web.first_cpus()


def test_others_are_moved_off_a_dedicated_cpu_and_stay_disjoint(cri: Cri):
    before = [workloads.shared(cri, "early"), workloads.shared(cri, "early-too")]
    assert [w.cpus for w in before] == [NODE_CPUS, NODE_CPUS]
    web = workloads.dedicated(cri)
    after = workloads.shared(cri, "late")
    left = NODE_CPUS - web.first_cpus()
    everyone = (*before, after)
    becomes(lambda: [w.cpus for w in everyone], [left] * 3)
    becomes(lambda: [cgroups.allowed_cpus(cri.pid(w.id)) for w in everyone], [left] * 3)
    assert after.first_cpus() == NODE_CPUS - web.first_cpus()


def test_offline_containers_are_moved_with_their_pod(cri: Cri):
    batch = workloads.reclaimed(cri)
    web = workloads.dedicated(cri)
    late = workloads.reclaimed(cri, "late")
    left = NODE_CPUS - web.first_cpus()
    becomes(lambda: {(cgroups.cpus(o.pod.cgroup), o.cpus) for o in (batch, late)}, {(left, left)})
    assert late.first_cpus() == left


def test_the_runtimes_stored_spec_agrees_with_the_cgroups(daemon: Daemon, cri: Cri):
    neighbour = workloads.shared(cri)
    web = workloads.dedicated(cri)
    both = (web, neighbour)
    wait_until(lambda: all(cgroups.members(w.spec_cpus) == w.cpus for w in both), 30, "agreement")


def test_what_the_daemon_says_agrees_with_the_cgroups(daemon: Daemon, cri: Cri):
    neighbour, web = workloads.shared(cri), workloads.dedicated(cri)
    becomes(lambda: neighbour.cpus, NODE_CPUS - web.first_cpus())
    both = (web, neighbour)
    wait_until(lambda: all(_read_back(daemon, w) == w.cpus for w in both), 30, "the CPUs that it read back")
    told, other = daemon.container(web.id), daemon.container(neighbour.id)
    assert {told["class"], told["pool"]} == {"dedicated"}
    assert (told["exclusive"], other["exclusive"]) == (True, False)
    assert cgroups.members(told["cpus"]) == cgroups.members(told["actual_cpus"]) == web.cpus
    assert cgroups.members(other["cpus"]) == cgroups.members(other["actual_cpus"]) == neighbour.cpus
    pools = daemon.state()["pools"]
    assert cgroups.members(pools["dedicated"]["cpus"]) == web.cpus
    assert cgroups.members(pools["share"]["cpus"]) == neighbour.cpus


def test_an_admission_is_audited_with_what_it_gave(daemon: Daemon, cri: Cri):
    web = workloads.dedicated(cri)
    record = daemon.audited("container.admit", container_id=web.id)
    assert (record["namespace"], record["pod"], record["container"]) == ("default", "web", "app")
    assert (record["pod_uid"], record["class"], record["pool"]) == (web.pod.uid, "dedicated", "dedicated")
    assert record["before"] == {}
    assert cgroups.members(record["after"]["cpus"]) == web.cpus
    assert record["latency_us"] > 0
    assert (record["inputs"]["request_milli"], record["inputs"]["n"]) == (1000, 1)


@pytest.mark.parametrize("end", ["stop", "remove", "exit"])
def test_the_cpus_of_a_container_that_ends_return_to_the_others(daemon: Daemon, cri: Cri, end: str):
    neighbour, batch = workloads.shared(cri), workloads.reclaimed(cri)
    web = workloads.dedicated(cri)
    owned = web.first_cpus()
    _end(cri, web, end)
    wait_until(lambda: neighbour.cpus == batch.cpus == NODE_CPUS, 30, f"CPUs {owned} to come back")
    becomes(lambda: cgroups.cpus(batch.pod.cgroup), NODE_CPUS)
    released = daemon.audited("container.release", container_id=web.id)
    assert released["reason"] in ("stopped", "removed")
    becomes(lambda: daemon.container(web.id), {})


def test_a_freed_cpu_is_given_to_the_next(cri: Cri):
    first = workloads.dedicated(cri)
    owned = first.first_cpus()
    cri.remove_pod(first.pod.id)
    assert workloads.dedicated(cri, "next").first_cpus() == owned


def test_an_impossible_request_runs_in_share_and_is_audited(daemon: Daemon, cri: Cri):
    web, unmet = workloads.dedicated(cri), daemon.metric("nri_coloc_unmet_requests_total")
    greedy = workloads.dedicated(cri, "greedy", request=len(NODE_CPUS) - 1)
    assert greedy.first_cpus() == greedy.cpus == NODE_CPUS - web.first_cpus()
    record = daemon.audited("container.admit", container_id=greedy.id)
    assert (record["reason"], record["pool"]) == ("no_free_cpus", "share")
    becomes(lambda: daemon.metric("nri_coloc_unmet_requests_total"), unmet + 1)
    assert not daemon.container(greedy.id)["exclusive"]


def test_a_created_container_follows_when_its_cpus_are_taken(cri: Cri):
    waiting = workloads.shared(cri, "waiting", started=False)
    web = workloads.dedicated(cri)
    waiting.start()
    assert waiting.first_cpus() == waiting.cpus == NODE_CPUS - web.first_cpus()


def test_a_created_container_gains_what_is_freed_before_it_starts(cri: Cri):
    web = workloads.dedicated(cri)
    waiting = workloads.shared(cri, "waiting", started=False)
    cri.remove_pod(web.pod.id)
    waiting.start()
    assert waiting.first_cpus() == waiting.cpus == NODE_CPUS


def test_a_created_dedicated_container_keeps_its_cpu_until_it_starts(cri: Cri):
    waiting = workloads.dedicated(cri, "waiting", started=False)
    second = workloads.dedicated(cri, "second", request=len(NODE_CPUS) - 1)
    waiting.start()
    assert len(waiting.first_cpus()) == 1
    assert second.cpus == NODE_CPUS - waiting.first_cpus()


def test_a_sidecar_runs_on_the_main_containers_cpus(cri: Cri):
    web = workloads.dedicated(cri)
    sidecar = workloads.add(cri, web.pod, "proxy", request=0.1)
    assert sidecar.first_cpus() == sidecar.cpus == web.first_cpus()


def test_a_container_that_cannot_be_started_holds_no_cpus(daemon: Daemon, cri: Cri):
    with pytest.raises(grpc.RpcError):
        workloads.run(cri, "broken", "dedicated", request=1, command=("/no/such/program",))
    neighbour = workloads.shared(cri)
    wait_until(lambda: neighbour.cpus == NODE_CPUS, 60, "the failed container's CPU to come back")


def _read_back(daemon: Daemon, workload: workloads.Workload) -> frozenset[int]:
    return cgroups.members(daemon.container(workload.id)["actual_cpus"])


def _end(cri: Cri, workload: workloads.Workload, how: str) -> None:
    if how == "exit":
        kubepods.kill(workload.cgroup)
    else:
        {"stop": cri.stop, "remove": cri.remove}[how](workload.id)
