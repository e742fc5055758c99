"""Each kind of decision can be derived again from its audit record and the machine alone.

Only the record's own words are used here, not the state. If a sentence lacks a figure, the derivation fails, and so
does the test.
"""

import re
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

CPUS = r"[0-9]+(?:[,-][0-9]+)*"
CHOSEN = (
    Reason.WHOLE_CORE,
    Reason.WHOLE_CORES,
    Reason.WHOLE_NODE,
    Reason.THREADS,
    Reason.ACROSS_NODES,
    Reason.MEMORY_UNBOUND,
)
BY_FILE = (Reason.PLACED_AT_START, Reason.ADOPTED)


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


def found(pattern: str, record: Record) -> str:
    """Return the one figure of a sentence that matches; without it the decision cannot be derived."""
    match = re.search(pattern, record.because)
    assert match, f"no {pattern} in {record.because!r}"
    return match[1]


def asked(record: Record) -> int:
    """Return the number of CPUs that follows from the requests in a sentence."""
    of_pod = re.search(r"the pod's request is [0-9.]+ CPUs[^;]*, so (\d+)", record.because)
    if of_pod:
        return int(of_pod[1])
    amount = float(found(r"asked ([0-9.]+) CPUs", record))
    rounded = re.search(r"rounded up to (\d+)", record.because)
    whole = int(rounded[1]) if rounded else int(amount)
    assert whole == request.of(asking(int(amount * 1000))).whole
    return whole


def wish(record: Record) -> Wish:
    """Return the wish that a sentence names; all else has its default."""
    said = dict(re.findall(r"(placement|numa(?:-[a-z]+)?) ([a-z0-9,-]+?)(?=, numa|;|$)", record.because))
    return Wish(
        QoSClass.DEDICATED,
        placement=Placement(said.get("placement", "packed")),
        numa=Numa(said.get("numa", "none")),
        numa_count=int(said.get("numa-count", 0)),
        numa_ids=cpuset.parse(said.get("numa-ids", "")),
        evenly="numa-parts" in said,
        one_socket="numa-sockets" in said,
    )


def room(record: Record) -> Room:
    """Return the memory, bytes, and the whole nodes that a sentence names."""
    memory = re.search(r"asked (\d+) bytes of memory, left by node ([0-9=, ]+)", record.because)
    left = re.findall(r"(\d+)=(\d+)", memory[2]) if memory else ()
    ownable = re.search(f"nodes are whole with CPUs ({CPUS})", record.because)
    return Room(
        int(memory[1]) if memory else 0,
        tuple((int(node), int(amount)) for node, amount in left),
        cpuset.parse(ownable[1]) if ownable else 0,
    )


def derived(record: Record, on: Topology) -> str:
    """Return the CPUs that follow from the record of a placed container."""
    if record.reason in BY_FILE:  # the sentence begins with the reason that BY_FILE hides
        record = replace(record, reason=Reason(record.because.partition(":")[0]))
    if record.reason in CHOSEN:
        free = cpuset.parse(found(f"free were ({CPUS})", record))
        grant = allocator.allocate(on, free, asked(record), wish(record), room(record))
        assert grant is not None
        assert grant.reason is record.reason
        return cpuset.render(grant.cpus)
    patterns = {
        Reason.RESTORED: f"record gives CPUs ({CPUS}), still free",
        Reason.FOLLOWS_MAIN: f"less than one: it runs on CPUs ({CPUS}) of",
        Reason.BELOW_ONE_CPU: f"pool share has CPUs ({CPUS})",
        Reason.POOL_MEMBER: f"pool (?:share|system) has CPUs ({CPUS})",
        Reason.NO_FREE_CPUS: rf"CPUs are free \(({CPUS})\)",
    }
    return found(patterns[record.reason], record)


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

    def test_the_reserve_is_among_the_figures(self):
        node = Node(tuning=Tuning(reserved=0b11))
        record = first(node, "app", 2000)
        assert record.after["cpus"] == derived(record, machine()) == "2-3"

    def test_a_request_that_is_not_covered_shows_what_held_instead(self):
        node = Node()
        record = first(node, "app", 3000, replace(DEDICATED, placement=Placement.FULL_CORES))
        assert wish(record).placement is Placement.PACKED
        assert record.after["cpus"] == derived(record, machine()) == "0-2"

    def test_a_refused_request_shows_why_none_could_be_had(self):
        node = Node()
        record = first(node, "app", 8000)
        free = cpuset.parse(derived(record, machine()))
        assert record.reason is Reason.NO_FREE_CPUS
        assert asked(record) >= free.bit_count()
        assert record.after["cpus"] == cpuset.render(free)

    def test_one_refused_for_its_placement_shows_that_nothing_fits(self):
        node = Node(tuning=Tuning(reserved=0b01010101))
        record = first(node, "app", 2000, replace(DEDICATED, placement=Placement.FULL_CORES))
        free = cpuset.parse(derived(record, machine()))
        assert record.reason is Reason.NO_FREE_CPUS
        assert allocator.allocate(machine(), free, asked(record), wish(record)) is None


class TestEveryoneElse:
    @pytest.mark.parametrize("by", [SHARED, SYSTEM], ids=["shared", "system"])
    def test_a_members_cpus_are_its_pools(self, by):
        node = Node(tuning=Tuning(reserved=0b11))
        node.create("main", 2000, on="other")
        record = first(node, "app", wish=by)
        assert record.after["cpus"] == derived(record, machine())
        assert record.because.startswith(f"class by {by.because};")

    def test_a_member_of_the_box_has_the_boxs(self):
        node = Node()
        node.create("main", 2000, on="other")
        limit = audit(node.start_pod())[0]
        assert limit.after["cpus"] == found(f"the reclaim pool has CPUs ({CPUS})", limit) == "2-7"
        record = first(node, "app", wish=RECLAIMED)
        assert found(f"the reclaim pool has CPUs ({CPUS})", record) == "2-7"
        assert "cpus" not in record.after  # inherited

    def test_a_sidecars_are_its_main_containers(self):
        node = Node()
        node.create("main", 2000)
        record = first(node, "side", 100)
        assert record.after["cpus"] == derived(record, machine()) == "0-1"

    def test_a_restored_ones_are_its_records(self):
        node = Node()
        node.create("main", 2000)
        again = Node()
        record = audit(again.happen(node.listing()))[0]
        assert record.reason is Reason.RESTORED
        assert again.cpus("main") == derived(record, machine())

    def test_one_placed_by_file_says_what_it_would_have_said_at_creation(self):
        node = Node()
        record = audit(node.start("main", milli=2000))[0]
        assert record.reason is Reason.PLACED_AT_START
        assert record.after["cpus"] == derived(record, machine())

    @pytest.mark.parametrize(
        ("by", "words"),
        [
            (replace(SYSTEM, preserve=frozenset({"cpu"})), "preserve names cpu"),
            (replace(SHARED, handler="ignore"), "runtime handler is ignored"),
        ],
        ids=["preserve", "handler"],
    )
    def test_one_that_is_left_alone_gets_nothing(self, by, words):
        record = first(Node(), "app", wish=by)
        assert (record.reason, record.because, record.after) == (Reason.HANDS_OFF, words, {})


class TestPools:
    def test_what_a_pool_lost_is_what_somebody_owns_now(self):
        node = Node()
        node.create("app", wish=SHARED, on="shop")
        resize = audit(node.create("main", 2000))[1]
        owned = cpuset.parse(found(f"owns ({CPUS});", resize))
        before, after = cpuset.parse(str(resize.before["cpus"])), cpuset.parse(str(resize.after["cpus"]))
        assert after == before & ~owned
        assert found(r"(\d+) container", resize) == "1"

    def test_what_a_pool_gained_is_what_came_back(self):
        node = Node()
        node.create("app", wish=SHARED, on="shop")
        node.create("main", 2000)
        release, resize = audit(node.stop("main"))
        back = cpuset.parse(found(f"CPUs ({CPUS}) were returned", resize))
        assert cpuset.parse(str(resize.after["cpus"])) == cpuset.parse(str(resize.before["cpus"])) | back
        assert cpuset.render(back) == release.before["cpus"] == found(f"it ran on CPUs ({CPUS})", release)

    def test_a_reload_says_that_it_was_one(self):
        resize = audit(Node().reconfigure(Tuning(reserved=0b11)))[0]
        assert (resize.before["cpus"], resize.after["cpus"]) == ("0-7", "2-7")
        assert resize.because.startswith("the configuration or the machine changed;")


class TestSidecars:
    def test_one_that_joins_moves_to_the_cpus_that_are_named(self):
        node = Node()
        node.create("side", 100)
        join = audit(node.create("main", 2000))[1]
        assert join.after["cpus"] == found(f"now owns CPUs ({CPUS})", join)

    def test_one_that_lost_its_main_container_moves_to_share(self):
        node = Node()
        node.create("main", 2000)
        node.create("side", 100)
        before = node.state
        release, orphan, resize = audit(node.stop("main"), before)
        assert orphan.before["cpus"] == release.before["cpus"]
        assert orphan.after["cpus"] == resize.after["cpus"]
        assert "share" in orphan.because


class TestUpdates:
    def test_what_holds_is_what_was_asked_with_ours_over_it(self):
        node = Node()
        limited = replace(SHARED, knobs=Knobs(memory_limit=512), annotated=Knobs(memory_limit=512))
        node.create("app", wish=limited, resources=Resources(shares=1024, memory_limit=1024))
        node.create("main", 2000, on="other")
        record = audit(node.update("app", Resources(shares=2048, memory_limit=4096, cpus="0")))[0]
        wanted = dict(re.findall(f"([a-z.]+)=({CPUS})", found("asked for (.*); the plugin's values", record)))
        ours = dict(re.findall(f"([a-z.]+)=({CPUS})", found("the plugin's values hold for (.*)$", record)))
        holds = {name: str(value) for name, value in record.after.items()}
        assert holds == {k: v for k, v in {**wanted, **ours}.items() if k != "memory.limit"}
        assert ours == {"cpus": "2-7", "memory.limit": "512"}

    def test_what_passes_untouched_is_what_was_asked(self):
        node = Node()
        node.create("app", wish=SHARED)
        record = audit(node.update("app", Resources(shares=2048)))[0]
        assert record.after == {"shares": int(found(r"shares=(\d+)", record))}
        assert record.reason is Reason.NOTHING_OURS


class TestTheRest:
    @pytest.mark.parametrize("kind", FindingKind)
    def test_a_finding_names_the_value_what_is_allowed_and_what_holds(self, kind):
        bad = Finding(kind, "coloc.nri.io/io-weight", "many", "1 to 10000", "100")
        record = audit(Node().create("app", wish=replace(SHARED, findings=(bad,))))[1]
        assert record.event.value == kind.value
        assert (record.key, record.value, record.allowed, record.used) == (
            bad.key,
            bad.value,
            bad.allowed,
            bad.used,
        )
        assert all(part in record.because for part in (bad.key, "'many'", bad.allowed, bad.used))

    def test_a_protection_is_the_sum_that_is_named(self):
        node, limited = Node(), asking(0, memory_limit=1000)
        node.create("a", wish=replace(SHARED, knobs=Knobs(memory_low=100)), resources=limited)
        wish = replace(SHARED, knobs=Knobs(memory_low=50, memory_min=7))
        record = audit(node.create("b", wish=wish, resources=limited))[1]
        assert record.event is AuditEvent.POD_LIMIT
        assert record.after["memory.low"] == int(found(r"memory.low (\d+)", record)) == 150
        assert record.after["memory.min"] == int(found(r"memory.min (\d+)", record)) == 7

    def test_a_refusal_says_what_the_placement_would_have_said(self):
        node = Node(tuning=Tuning(strict=True))
        record = audit(node.create("main", 8000))[0]
        assert record.reason is Reason.REFUSED_STRICT
        assert asked(record) == 8
        assert found(rf"CPUs are free \(({CPUS})\)", record) == "0-7"
