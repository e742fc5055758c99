"""runtime/stored_specs.py: the values of a runtime's spec that the daemon set are known."""

from dataclasses import replace

from nri_coloc.core.knobs import Knobs
from nri_coloc.core.workload import Container, Resources
from nri_coloc.host.knob_files import FileValue
from nri_coloc.runtime import stored_specs
from tests.unit.host.host import Host
from tests.unit.placing.kit import RECLAIMED, SHARED, Node

MI = 1 << 20


def test_over_the_kubelets_value_only_an_annotations_is_written():
    node = Node()
    by_class = replace(SHARED, knobs=Knobs(shares=4096, memory_limit=64 * MI))
    given = Resources(shares=512, memory_limit=128 * MI)
    node.create("app", wish=by_class, resources=given)
    assert stored_specs.wanted(node.state, node["app"]) == Knobs(cpus="0-7")
    node.create("told", wish=replace(by_class, annotated=Knobs(memory_limit=64 * MI)), resources=given)
    assert stored_specs.wanted(node.state, node["told"]) == Knobs(cpus="0-7", memory_limit=64 * MI)


def test_the_journal_knows_earlier_changes_to_a_spec(tmp_path):
    host = Host(tmp_path, 2)
    host.cgroup("kubepods/podu/c", memory_max=str(128 * MI), cpu_weight="39")
    limit = FileValue("memory", "memory.max", str(64 * MI))
    host.apply("", limit, FileValue("cpu", "cpu.weight", "1"), path="kubepods/podu/c", journalled=True)
    listed = Container(
        "c", "p", cgroups_path="/kubepods/podu/c", resources=Resources(1000, memory_limit=64 * MI)
    )
    found = stored_specs.journalled(host.writer, listed)
    assert (*found.ours, found.values.memory_limit) == ("memory_limit", 128 * MI)


def test_of_a_cgroup_that_can_be_none_no_journal_tells(tmp_path):
    odd = Container("c", "p", cgroups_path="../c", resources=Resources(1000))
    assert stored_specs.journalled(Host(tmp_path, 2).writer, odd).ours == frozenset()


def test_an_ended_annotation_leaves_the_kubelets_value():
    node = Node()
    less = Knobs(memory_limit=64 * MI)
    node.create(
        "app",
        wish=replace(SHARED, knobs=less, annotated=less),
        resources=Resources(shares=512, memory_limit=128 * MI),
    )
    node.reconfigure(wishes={"app": SHARED})
    assert stored_specs.wanted(node.state, node["app"]) == Knobs(cpus="0-7", memory_limit=128 * MI)


def test_a_container_without_loans_has_no_limits():
    node = Node()
    loan = Knobs(shares=512, quota=50_000, period=100_000, memory_limit=64 * MI)
    node.create("app", wish=replace(RECLAIMED, knobs=loan, annotated=loan), resources=Resources(shares=2))
    node.reconfigure(wishes={"app": SHARED})
    assert stored_specs.wanted(node.state, node["app"]) == Knobs(
        cpus="0-7", shares=2, quota=-1, period=100_000, memory_limit=-1
    )
