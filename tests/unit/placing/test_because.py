"""Each kind of decision can be derived again from the figures of its audit record and the machine alone.

Only the record's `inputs` are used here, neither its sentence nor the state. If a figure is missing, the derivation
fails, and so does the test. The sentence repeats some figures: `tests/rig/records.py` compares them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.core.decisions import Room
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.reasons import AuditEvent, Reason
from nri_coloc.core.settings import Tuning
from nri_coloc.core.topology import Topology
from nri_coloc.core.workload import Finding, FindingKind, Numa, Placement, QoSClass, Resources, Wish
from nri_coloc.placing import allocator, request
from nri_coloc.service.audit import Record
from tests.unit.placing.kit import DEDICATED, RECLAIMED, SHARED, SYSTEM, Node, asking, audit, machine

CHOSEN = (
    Reason.WHOLE_CORE,
    Reason.WHOLE_CORES,
    Reason.WHOLE_NODE,
    Reason.THREADS,
    Reason.ACROSS_NODES,
    Reason.MEMORY_UNBOUND,
)
BY_FILE = (Reason.PLACED_AT_START, Reason.ADOPTED)
OWNED = '{"v":1,"class":"dedicated","pool":"dedicated","exclusive":"7-8"}'


STEERED = st.builds(
    replace,
    st.just(DEDICATED),
    placement=st.sampled_from(Placement),
    numa=st.sampled_from(Numa),
    numa_count=st.sampled_from((0, 1, 2)),
    numa_ids=st.sampled_from((0, 1, 2)),
    evenly=st.booleans(),
    one_socket=st.booleans(),
)


def used(record: Record) -> Mapping[str, Any]:
    """Return the figures of a record."""
    found: Mapping[str, Any] = record.extra["inputs"]
    return found


def asked(record: Record) -> int:
    """Return the number of CPUs that follows from the requests."""
    count = int(used(record)["n"])
    assert count == request.of(asking(used(record)["request_milli"])).whole
    return count


def wish(record: Record) -> Wish:
    """Return the wish that the figures name; all else has its default."""
    found = used(record)
    return Wish(
        QoSClass.DEDICATED,
        placement=Placement(found.get("placement", "packed")),
        numa=Numa(found.get("numa", "none")),
        numa_count=int(found.get("numa_count", 0)),
        numa_ids=cpuset.parse(found.get("numa_ids", "")),
        evenly=bool(found.get("numa_evenly")),
        one_socket=bool(found.get("one_socket")),
    )


def room(record: Record) -> Room:
    """Return the memory, bytes, and the whole nodes that the figures name."""
    found, key = used(record), "memory_left_bytes_node_"
    left = {int(name.removeprefix(key)): amount for name, amount in found.items() if name.startswith(key)}
    return Room(
        int(found.get("memory_bytes", 0)),
        tuple(sorted(left.items())),
        cpuset.parse(found.get("ownable", "")),
    )


def derived(record: Record, on: Topology) -> str:
    """Return the CPUs that follow from the record of a placed container."""
    found = used(record)
    reason = Reason(found["placed_as"]) if record.reason in BY_FILE else record.reason
    if reason in CHOSEN:
        grant = allocator.allocate(on, cpuset.parse(found["free"]), asked(record), wish(record), room(record))
        assert grant is not None
        assert grant.reason is reason
        return cpuset.render(grant.cpus)
    names = {
        Reason.RESTORED: "claim_cpus",
        Reason.FOLLOWS_MAIN: "main_cpus",
        Reason.BELOW_ONE_CPU: "pool_cpus",
        Reason.POOL_MEMBER: "pool_cpus",
        Reason.NO_FREE_CPUS: "free",
    }
    return str(found[names[reason]])


def first(node: Node, *args: Any, **values: Any) -> Record:
    return audit(node.create(*args, **values))[0]


class TestChosenCPUs:
    @given(
        st.sampled_from(("8cpu", "4node", "isolated", "laptop-no-numa", "xeon-64", "hybrid", "dies")),
        st.lists(st.sampled_from((0, 1000, 1500, 2000, 3000, 4000)), max_size=4),
        st.sampled_from((1, 500, 1000, 1500, 2000, 3000, 4000, 6000)),
        STEERED,
        st.sampled_from((None, 1 << 30, 10 << 30, 17 << 30, 1 << 40)),
        st.sampled_from((Tuning(), Tuning(reserved_count=2, reserved_memory=3 << 30))),
    )
    def test_the_same_figures_give_the_same_cpus(self, name, before, milli, by, memory, tuning):
        node = Node(name, tuning)
        bound = replace(DEDICATED, numa=Numa.SINGLE)
        for number, others in enumerate(before):
            asks = asking(others, memory_limit=6 << 30)
            node.create(f"other-{number}", wish=bound, on=f"other-{number}", resources=asks)
        record = first(node, "app", wish=by, resources=asking(milli, memory_limit=memory))
        assert record.after["cpus"] == derived(record, machine(name))

    def test_reserved_cpus_are_not_free(self):
        node = Node(tuning=Tuning(reserved=0b11))
        record = first(node, "app", 2000)
        assert record.after["cpus"] == derived(record, machine()) == "2-3"

    def test_a_narrowed_wish_is_the_recorded_one(self):
        node = Node()
        record = first(node, "app", 3000, replace(DEDICATED, placement=Placement.FULL_CORES))
        assert wish(record).placement is Placement.PACKED
        assert record.after["cpus"] == derived(record, machine()) == "0-2"

    def test_a_refusal_has_the_free_cpus(self):
        node = Node()
        record = first(node, "app", 8000)
        free = cpuset.parse(derived(record, machine()))
        assert record.reason is Reason.NO_FREE_CPUS
        assert asked(record) >= free.bit_count()
        assert record.after["cpus"] == cpuset.render(free)

    def test_a_refused_placement_fits_nowhere(self):
        node = Node(tuning=Tuning(reserved=0b01010101))
        record = first(node, "app", 2000, replace(DEDICATED, placement=Placement.FULL_CORES))
        free = cpuset.parse(derived(record, machine()))
        assert record.reason is Reason.NO_FREE_CPUS
        assert allocator.allocate(machine(), free, asked(record), wish(record)) is None

    def test_a_completed_record_is_grown_again(self):
        asks = asking(2000)
        record = first(Node(), "app", resources=asks, record=OWNED)
        found = used(record)
        left, free = (cpuset.parse(found[name]) for name in ("claim_free", "free"))
        grant = allocator.fit(machine(), free & ~left, left, found["n"], wish(record))
        assert grant is not None
        assert record.after["cpus"] == cpuset.render(grant.cpus) == "6-7"


class TestOtherContainers:
    @pytest.mark.parametrize("by", [SHARED, SYSTEM], ids=["shared", "system"])
    def test_a_pools_container_has_its_cpus(self, by):
        node = Node(tuning=Tuning(reserved=0b11))
        node.create("main", 2000, on="other")
        record = first(node, "app", wish=by)
        assert record.after["cpus"] == derived(record, machine())

    def test_a_reclaimed_container_has_the_reclaim_pool(self):
        node = Node()
        node.create("main", 2000, on="other")
        limit = audit(node.start_pod())[0]
        assert limit.after["cpus"] == used(limit)["reclaim_cpus"] == "2-7"
        record = first(node, "app", wish=RECLAIMED)
        assert used(record)["pool_cpus"] == "2-7"
        assert "cpus" not in record.after  # inherited

    def test_a_sidecar_has_its_main_containers_cpus(self):
        node = Node()
        node.create("main", 2000)
        record = first(node, "side", 100)
        assert record.after["cpus"] == derived(record, machine()) == "0-1"

    def test_a_restored_container_has_its_claim(self):
        node = Node()
        node.create("main", 2000)
        again = Node()
        record = audit(again.happen(node.listing()))[0]
        assert record.reason is Reason.RESTORED
        assert again.cpus("main") == derived(record, machine())

    def test_a_container_placed_by_file_has_its_choice(self):
        node = Node()
        record = audit(node.start("main", milli=2000))[0]
        assert record.reason is Reason.PLACED_AT_START
        assert record.after["cpus"] == derived(record, machine())

    @pytest.mark.parametrize(
        "by",
        [replace(SYSTEM, preserve=frozenset({"cpu"})), replace(SHARED, handler="ignore")],
        ids=["preserve", "handler"],
    )
    def test_a_container_may_be_left_alone(self, by):
        record = first(Node(), "app", wish=by)
        assert (record.reason, record.after) == (Reason.HANDS_OFF, {})


class TestPools:
    def test_a_pool_loses_the_owned_cpus(self):
        node = Node()
        node.create("app", wish=SHARED, on="shop")
        resize = audit(node.create("main", 2000))[1]
        owned = cpuset.parse(used(resize)["dedicated_cpus"])
        before, after = cpuset.parse(str(resize.before["cpus"])), cpuset.parse(str(resize.after["cpus"]))
        assert after == before & ~owned
        assert used(resize)["members"] == 1

    def test_a_pool_gains_returned_cpus(self):
        node = Node()
        node.create("app", wish=SHARED, on="shop")
        node.create("main", 2000)
        release, resize = audit(node.stop("main"))
        back = cpuset.parse(str(release.before["cpus"]))
        assert cpuset.parse(str(resize.after["cpus"])) == cpuset.parse(str(resize.before["cpus"])) | back

    def test_a_reload_takes_reserved_cpus(self):
        resize = audit(Node().reconfigure(Tuning(reserved=0b11)))[0]
        assert (resize.before["cpus"], resize.after["cpus"]) == ("0-7", "2-7")
        assert (resize.reason, used(resize)["reserved_cpus"]) == (Reason.RECONFIGURED, "0-1")


class TestSidecars:
    def test_a_join_has_the_new_cpus(self):
        node = Node()
        node.create("side", 100)
        join = audit(node.create("main", 2000))[1]
        assert join.after["cpus"] == used(join)["main_cpus"]

    def test_an_orphan_moves_to_share(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        before = node.state
        release, orphan, resize = audit(node.stop("main"), before)
        assert orphan.before["cpus"] == release.before["cpus"]
        assert orphan.after["cpus"] == resize.after["cpus"] == used(orphan)["pool_cpus"]


class TestUpdates:
    def test_our_values_lie_over_the_kubelets(self):
        node = Node()
        limited = replace(SHARED, knobs=Knobs(memory_limit=512), annotated=Knobs(memory_limit=512))
        node.create("app", wish=limited, resources=Resources(shares=1024, memory_limit=1024))
        node.create("main", 2000, on="other")
        record = audit(node.update("app", Resources(shares=2048, memory_limit=4096, cpus="0")))[0]
        wanted = {name: used(record)[f"asked.{name}"] for name in ("shares", "memory.limit", "cpus")}
        assert wanted == {"shares": 2048, "memory.limit": 4096, "cpus": "0"}
        assert record.after == {"shares": 2048, "cpus": "2-7"}

    def test_kept_cpus_are_named(self):
        node = Node()
        node.create("app", wish=SHARED)
        node.create("main", 2000, on="other")
        record = audit(node.update("app", Resources(shares=2048, cpus="0")))[0]
        assert (record.after["cpus"], used(record)["kept.cpus"]) == ("2-7", "2-7")
        assert "(kept.cpus=2-7, " in record.because

    def test_untouched_values_are_the_kubelets(self):
        node = Node()
        node.create("app", wish=SHARED)
        record = audit(node.update("app", Resources(shares=2048)))[0]
        assert record.after == {"shares": used(record)["asked.shares"]}
        assert record.reason is Reason.NOTHING_OURS


class TestOtherDecisions:
    @pytest.mark.parametrize("kind", FindingKind)
    def test_a_finding_has_its_value_and_what_is_allowed(self, kind):
        bad = Finding(kind, "coloc.nri.io/io-weight", "many", "1 to 10000", "100")
        record = audit(Node().create("app", wish=replace(SHARED, findings=(bad,))))[1]
        assert record.event.value == kind.value
        assert (record.key, record.value, record.allowed, record.used) == (
            bad.key,
            bad.value,
            bad.allowed,
            bad.used,
        )

    def test_a_protection_is_a_sum(self):
        node, limited = Node(), asking(0, memory_limit=1000)
        node.create("a", wish=replace(SHARED, knobs=Knobs(memory_low=100)), resources=limited)
        wish = replace(SHARED, knobs=Knobs(memory_low=50, memory_min=7))
        record = audit(node.create("b", wish=wish, resources=limited))[1]
        assert record.event is AuditEvent.POD_LIMIT
        assert record.after["memory.low"] == used(record)["asked_low_bytes"] == 150
        assert record.after["memory.min"] == used(record)["asked_min_bytes"] == 7

    def test_a_strict_refusal_has_the_choices_figures(self):
        node = Node(tuning=Tuning(strict=True))
        record = audit(node.create("main", 8000))[0]
        assert record.reason is Reason.REFUSED_STRICT
        assert (asked(record), used(record)["free"]) == (8, "0-7")
