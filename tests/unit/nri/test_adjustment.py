"""nri/codec.py: orders become NRI's messages, and nothing else does."""

import pytest

from nri_coloc.core.knobs import NO_KNOBS, PAGE, Capability, Knobs
from nri_coloc.nri import codec

V1 = Capability(1, frozenset({"blkio.bfq.weight", "memory.high"}))
V2 = Capability(
    2,
    frozenset({"memory.high", "memory.low", "memory.min", "io.weight", "io.bfq.weight"}),
    oom_least=-1000,
    resctrl=True,
)
BASIC = Knobs(cpus="0-1", mems="0", shares=2, quota=-1, period=100_000, memory_limit=5)


class TestCreation:
    def test_the_designs_example(self):
        response = codec.creation(Knobs(cpus="0-1"), "the record", V1)
        assert dict(response.adjust.annotations) == {"coloc.nri.io/record": "the record"}
        assert response.adjust.linux.resources.cpu.cpus == "0-1"
        assert not response.adjust.linux.resources.cpu.HasField("shares")
        assert not response.adjust.linux.resources.HasField("memory")
        assert not response.update

    def test_what_nri_carries_natively(self):
        resources = codec.creation(BASIC, "", V1).adjust.linux.resources
        assert (resources.cpu.cpus, resources.cpu.mems) == ("0-1", "0")
        assert (resources.cpu.shares.value, resources.cpu.quota.value, resources.cpu.period.value) == (
            2,
            -1,
            100_000,
        )
        assert resources.memory.limit.value == 5

    def test_without_orders_the_answer_is_empty(self):
        assert codec.creation(NO_KNOBS, "", V2).ByteSize() == 0

    def test_a_record_alone_makes_no_resources(self):
        assert not codec.creation(NO_KNOBS, "r", V2).adjust.HasField("linux")

    def test_a_score_travels_where_the_runtime_applies_it(self):
        adjust = codec.creation(Knobs(oom_score_adj=1000), "", V1, 0).adjust
        assert adjust.linux.oom_score_adj.value == 1000

    @pytest.mark.parametrize(
        ("score", "former", "can"),
        [(1000, 0, Capability(oom_at_create=False)), (-500, 0, V1), (100, 500, Capability(oom_least=200))],
        ids=["old-runtime", "below-zero", "lowered"],
    )
    def test_a_score_that_could_fail_the_creation_stays_behind(self, score, former, can):
        adjust = codec.creation(Knobs(oom_score_adj=score), "", can, former).adjust
        assert not adjust.linux.HasField("oom_score_adj")

    def test_a_class_of_the_runtime_is_passed_on(self):
        resources = codec.creation(Knobs(blockio_class="slow", rdt_class="gold"), "", V2)
        assert resources.adjust.linux.resources.blockio_class.value == "slow"
        assert resources.adjust.linux.resources.rdt_class.value == "gold"

    def test_without_resctrl_no_rdt_class_is_named(self):
        adjust = codec.creation(Knobs(rdt_class="gold"), "", V1).adjust
        assert not adjust.HasField("linux")

    def test_the_same_orders_are_the_same_bytes(self):
        one, two = (codec.creation(BASIC, "r", can, None).SerializeToString() for can in (V1, V1))
        assert one == two


class TestUnified:
    ORDERS = Knobs(memory_high=3 * PAGE + 1, memory_low=2 * PAGE, memory_min=PAGE, io_weight=200)

    def test_v2s_own_values_travel_by_the_names_of_their_files(self):
        resources = codec.ordered_resources(self.ORDERS, V2)
        assert resources is not None
        assert dict(resources.unified) == {
            "memory.high": f"{3 * PAGE}",
            "memory.low": f"{2 * PAGE}",
            "memory.min": f"{PAGE}",
            "io.weight": "default 200",
            "io.bfq.weight": "109",
        }

    def test_never_on_v1(self):
        assert codec.ordered_resources(self.ORDERS, V1) is None

    def test_never_for_a_file_that_does_not_exist(self):
        resources = codec.ordered_resources(self.ORDERS, Capability(2, frozenset({"memory.high"})))
        assert resources is not None
        assert dict(resources.unified) == {"memory.high": f"{3 * PAGE}"}

    def test_no_protection_is_a_value_too(self):
        resources = codec.ordered_resources(Knobs(memory_min=0), V2)
        assert resources is not None
        assert dict(resources.unified) == {"memory.min": "0"}


class TestUpdate:
    def test_it_names_its_container_and_may_fail(self):
        update = codec.update("c1", Knobs(cpus="2-7"), V1)
        assert update is not None
        assert (update.container_id, update.ignore_failure) == ("c1", True)
        assert update.linux.resources.cpu.cpus == "2-7"

    @pytest.mark.parametrize(
        ("container_id", "orders"),
        [
            ("", Knobs(cpus="0")),
            ("c1", NO_KNOBS),
            ("c1", Knobs(cpus="", mems="", memory_limit=0)),
            ("c1", Knobs(oom_score_adj=5, burst=7, blockio_class="slow", rdt_class="gold")),
            ("c1", Knobs(io_weight=5, memory_high=7)),
        ],
        ids=["nobody", "nothing", "empty", "not-for-updates", "not-on-v1"],
    )
    def test_one_without_a_name_or_resources_is_not_sent(self, container_id, orders):
        assert codec.update(container_id, orders, V1) is None

    def test_several_are_one_each_and_only_those_that_say_something(self):
        orders = [("a", Knobs(cpus="0")), ("b", NO_KNOBS), ("c", Knobs(shares=2))]
        assert [u.container_id for u in codec.updates(orders, V1)] == ["a", "c"]
