import subprocess
import sys
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls
from nri_coloc.nri.calls import HookKind

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_files_are_what_the_contracts_generate():
    check = subprocess.run(
        [sys.executable, str(ROOT / "api" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (check.returncode, check.stderr) == (0, "")


def test_every_hook_is_a_method_of_the_plugin_service():
    methods = {method.name for method in nri_pb2.DESCRIPTOR.services_by_name["Plugin"].methods}
    assert methods == set(calls.REQUESTS) | {"ValidateContainerAdjustment"}
    assert set(calls.REQUESTS) == set(calls.RESPONSES)
    assert {str(kind) for kind in HookKind} < methods


def test_the_tables_hold_the_messages_that_the_contract_names():
    for method in nri_pb2.DESCRIPTOR.services_by_name["Plugin"].methods:
        if method.name in calls.REQUESTS:
            assert calls.REQUESTS[method.name].DESCRIPTOR is method.input_type
            assert calls.RESPONSES[method.name].DESCRIPTOR is method.output_type


# The numbers that were easiest to get wrong, one line each; the rest of the wire is proven on a real
# containerd.
def test_field_numbers_with_gaps_are_as_on_the_wire():
    numbers = {
        "ConfigureResponse": {"events": 2},
        "ContainerAdjustment": {"annotations": 2, "mounts": 3, "CDI_devices": 8, "args": 9},
        "LinuxContainerAdjustment": {"resources": 2, "oom_score_adj": 4, "memory_policy": 12},
        "LinuxResources": {"cpu": 2, "unified": 6, "pids": 8},
        "Container": {"linux": 11, "pid": 12, "CDI_devices": 20, "user": 21, "image": 22},
        "PodSandbox": {"linux": 8, "pid": 9, "ips": 10},
    }
    for message, fields in numbers.items():
        known = nri_pb2.DESCRIPTOR.message_types_by_name[message].fields_by_name
        assert {name: known[name].number for name in fields} == fields


def test_an_optional_int_is_64_bits_wide():
    field = nri_pb2.DESCRIPTOR.message_types_by_name["OptionalInt"].fields_by_name["value"]
    assert field.type == FieldDescriptor.TYPE_INT64
