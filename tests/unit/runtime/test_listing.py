"""runtime/listing.py: the parts of a Synchronize become one list of pods and containers."""

import pytest

from nri_coloc._pb import told_pb2
from nri_coloc.core.workload import RECORD_KEY, KnownKeys
from nri_coloc.errors import RemoteProtocolError
from nri_coloc.nri import codec
from nri_coloc.nri.events import Call, Synchronize
from nri_coloc.runtime import listing
from nri_coloc.runtime.listing import Listing
from tests.rig.told import entry


def part(*things: told_pb2.PodSandbox | told_pb2.Container) -> Synchronize:
    pods = [one for one in things if isinstance(one, told_pb2.PodSandbox)]
    containers = [one for one in things if isinstance(one, told_pb2.Container)]
    return Synchronize(Call(1, "Synchronize", 0), pods, containers, more=True)


def of(*parts: Synchronize) -> Listing:
    found = Listing(codec.Reader(KnownKeys()))
    for each in parts:
        found.add(each)
    return found


def a_pod(name: str, **annotations: str) -> told_pb2.PodSandbox:
    return told_pb2.PodSandbox(id=name, annotations=[entry(*pair) for pair in annotations.items()])


def a_container(name: str, pod: str) -> told_pb2.Container:
    record = entry(RECORD_KEY, "ours")
    return told_pb2.Container(id=name, pod_sandbox_id=pod, annotations=[record])


def test_parts_come_together_in_their_order():
    found = of(part(a_container("c", "p")), part(a_pod("p"), a_container("d", "q")), part(a_pod("q")))
    assert list(found.pods) == ["p", "q"]
    assert [(c.id, c.pod_id, c.record) for c in found.containers] == [("c", "p", "ours"), ("d", "q", "ours")]


@pytest.mark.parametrize("pod_first", [True, False])
def test_a_record_that_the_pod_claims_is_forged(pod_first):
    parts = [part(a_pod("p", **{RECORD_KEY: "x"})), part(a_container("c", "p"))]
    (container,) = of(*(parts if pod_first else reversed(parts))).containers
    assert container.record == ""


def test_a_list_without_end_is_the_peers_fault(monkeypatch):
    monkeypatch.setattr(listing, "MOST", 2)
    with pytest.raises(RemoteProtocolError, match="over 2 pods and containers"):
        of(part(a_pod("p")), part(a_container("c", "p"), a_container("d", "p")))
