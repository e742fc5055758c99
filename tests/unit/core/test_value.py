"""core/value.py: a record costs a third of a frozen dataclass and behaves like one."""

import pytest

from nri_coloc.core.value import replace, value
from nri_coloc.core.workload import KubeQoS, Pod


@value
class Point:
    x: int
    y: int = 0


def test_equal_fields_make_equal_records_with_one_hash():
    assert Point(1, 2) == Point(1, 2)
    assert len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2


def test_a_changed_copy_leaves_the_record_as_it_was():
    before = Point(1)
    assert replace(before, y=5) == Point(1, 5)
    assert before == Point(1, 0)


def test_a_copy_computes_derived_fields_anew():
    assert (
        replace(Pod("p", cgroup_parent="/kubepods/besteffort/pod1"), cgroup_parent="/kubepods/pod1").kube_qos
        is KubeQoS.GUARANTEED
    )


def test_a_copy_takes_no_unknown_field():
    with pytest.raises(KeyError, match="z"):
        replace(Point(1), z=1)  # type: ignore[call-arg]  # mypy refuses it too


def test_a_record_has_no_room_for_undeclared_fields():
    assert not hasattr(Point(1), "__dict__")
