"""api/nri/v1alpha1/told.proto: its messages have the wire format of nri.proto, with fewer fields."""

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from nri_coloc._pb import nri_pb2, told_pb2
from nri_coloc.nri import calls

VARINT = frozenset(
    {
        FieldDescriptor.TYPE_ENUM,
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_BOOL,
    }
)
LENGTH = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE})


def differing(read: Any, written: Any, where: str = "") -> list[str]:
    """Return the fields that have another wire format in `written` than in `read`; both are descriptors."""
    found = []
    for field in read.fields:
        place = f"{where}{read.name}.{field.name}"
        other = written.fields_by_name.get(field.name)
        if other is None or not same_on_the_wire(field, other):
            found.append(place)
        elif field.message_type is not None:
            found += differing(field.message_type, other.message_type, f"{place} ")
    return found


def same_on_the_wire(one: FieldDescriptor, other: FieldDescriptor) -> bool:
    same_kind = any(one.type in kind and other.type in kind for kind in (VARINT, LENGTH))
    return same_kind and (one.number, one.is_repeated) == (other.number, other.is_repeated)


@pytest.mark.parametrize("method", calls.REQUESTS)
def test_what_is_read_is_what_is_written(method):
    assert differing(calls.READ_AS[method].DESCRIPTOR, calls.REQUESTS[method].DESCRIPTOR) == ABSENT.get(
        method, []
    )


ABSENT = {
    **{
        method: ["Hook.linux_resources"]
        for method, shape in calls.HOOKS_BY_METHOD.items()
        if shape.has_container
    },
    **{
        method: ["PodHook.linux_resources"]
        for method in calls.HOOKS_BY_METHOD
        if method.endswith("PodSandbox")
    },
    "UpdateContainer": [],
    "UpdatePodSandbox": [],
}
"""Only the two updates carry resources."""


def test_an_entry_is_an_entry_of_a_map():
    entry = nri_pb2.PodSandbox.DESCRIPTOR.fields_by_name["annotations"].message_type
    assert differing(told_pb2.Entry.DESCRIPTOR, entry) == []


def test_a_map_of_many_is_a_list_of_its_entries():
    annotations = {f"example.com/{number}": str(number) for number in range(300)}
    message = nri_pb2.PodSandbox(annotations=annotations)
    read = told_pb2.PodSandbox.FromString(message.SerializeToString())
    entries = [told_pb2.Entry.FromString(entry) for entry in read.annotations]
    assert {entry.key.decode(): entry.value.decode() for entry in entries} == annotations
