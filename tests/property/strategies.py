"""Machines, wishes and amounts to draw from; the properties of the placement share them."""

from dataclasses import replace

from hypothesis import strategies as st

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import Knobs
from nri_coloc.core.settings import PoolTuning
from nri_coloc.core.topology import CPU, Topology
from nri_coloc.core.workload import Numa, Placement, QoSClass, Resources, Wish
from nri_coloc.sim import machines

SMALL = (
    "1cpu",
    "2cpu",
    "8cpu",
    "laptop-no-numa",
    "4node",
    "offline",
    "isolated",
    "smt-off",
    "virtual",
    "sparse",
    "hybrid",
    "three-kinds",
    "dies",
    "dies-in-a-node",
    "l3-beyond-nodes",
    "l3-in-a-node",
    "four-threads",
    "node-without-memory",
    "memory-only-node",
)


@st.composite
def drawn_machines(draw: st.DrawFn) -> Topology:
    """Draw up to 16 CPUs with any ids, in cores of one to three threads, any L3 groups and nodes."""
    ids = draw(st.lists(st.integers(0, 300), min_size=1, max_size=16, unique=True))
    cpus: list[CPU] = []
    while len(cpus) < len(ids):
        node, l3 = draw(st.integers(0, 2)), draw(st.sampled_from(("", "x", "y")))
        core = draw(st.sampled_from(("", f"core-{len(cpus)}")))
        width = draw(st.integers(1, 3))
        die, kind = draw(st.integers(0, 1)), draw(st.integers(0, 1))
        here = ids[len(cpus) : len(cpus) + width]
        cpus += [
            CPU(id=n, package=node, node=node, l3=l3 and f"{node}{l3}", core=core, die=die, kind=kind)
            for n in here
        ]
    memory = draw(st.dictionaries(st.integers(0, 3), st.sampled_from((0, 1 << 30)), max_size=4))
    return Topology.build(cpus, memory, draw(st.sampled_from((0, cpuset.of(ids[1::2])))))


TOPOLOGIES = st.one_of(
    st.sampled_from(SMALL).map(lambda name: machines.topology(machines.MACHINES[name])), drawn_machines()
)

MILLI = st.sampled_from((100, 1000, 2000, 0, 500, 1001, 1500, 3000, 4000, 64000))

RESOURCES = st.builds(
    Resources,
    shares=st.sampled_from((None, 0, 2, 512, 1024, 2048, 262144)),
    quota=st.sampled_from((None, -1, 0, 50_000, 250_000)),
    period=st.sampled_from((None, 0, 100_000)),
    cpus=st.sampled_from(("", "0", "0-1", "nonsense")),
    mems=st.sampled_from(("", "0")),
    memory_limit=st.sampled_from((None, 0, 1 << 20, 1 << 30)),
)

LOANS = st.builds(
    Knobs,
    shares=st.none() | st.integers(2, 1024),
    quota=st.none() | st.integers(1000, 10**6),
    memory_limit=st.none() | st.integers(4096, 2**40),
)
"""What the loop grants to a reclaimed container."""

CLASS_WISHES = (
    Wish(QoSClass.DEDICATED, "annotation"),
    Wish(QoSClass.SHARED, "Kubernetes"),
    Wish(QoSClass.RECLAIMED, "Kubernetes", knobs=Knobs(shares=2, oom_score_adj=1000)),
    Wish(QoSClass.SYSTEM, "namespace"),
)

IN_POOLS = (
    *(Wish(QoSClass.SHARED, pool=pool) for pool in ("gold", "etl", "etl/a", "etl/b", "name", "nosuch")),
    *(Wish(QoSClass.SYSTEM, pool=pool) for pool in ("mon", "agents")),
)
"""Members of the pools of `PLANS`, whichever of those there are."""

PLANS = st.sampled_from(
    (
        (),
        (PoolTuning("gold", minimum=2, maximum=4, priority=1), PoolTuning("name")),
        (
            PoolTuning("etl", group_by="namespace", maximum=3),
            PoolTuning("gold", minimum=1),
            PoolTuning("mon", qos=QoSClass.SYSTEM, maximum=1),
            PoolTuning("agents", qos=QoSClass.SYSTEM),
            PoolTuning("share", minimum=2),
            PoolTuning("reclaim", minimum=2, maximum=4),
        ),
        (PoolTuning("etl", group_by="label:team", minimum=2, band=(0.4, 0.6)), PoolTuning("gold", minimum=1)),
    )
)

_ODD = st.builds(
    replace,
    st.sampled_from((*CLASS_WISHES, *IN_POOLS)),
    numa=st.sampled_from(Numa),
    numa_count=st.sampled_from((0, 1, 2, 1024)),
    numa_ids=st.sampled_from((0, 1, 2, 1 << 900)),
    placement=st.sampled_from(Placement),
    pool=st.sampled_from(("", "isolated")),
    preserve=st.sampled_from((frozenset[str](), frozenset({"cpu"}), frozenset({"memory"}))),
    handler=st.sampled_from(("container", "pod", "ignore")),
    mixed=st.booleans(),
    cpu_burst_percent=st.sampled_from((None, 0, 100)),
    knobs=st.sampled_from((Knobs(), Knobs(shares=2, memory_limit=1 << 19), Knobs(memory_low=1, io_weight=7))),
)

PLAIN = st.sampled_from((*CLASS_WISHES, *IN_POOLS))
WISHES = st.one_of(PLAIN, _ODD)
"""Half of them are what nearly every container asks for, half are odd."""
