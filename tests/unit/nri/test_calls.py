"""nri/calls.py: every call of the runtime has its messages."""

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls
from nri_coloc.nri.calls import HookKind

PLUGIN = nri_pb2.DESCRIPTOR.services_by_name["Plugin"]
# validation is never subscribed to: a plugin that does not answer it makes every creation fail
METHODS = [method for method in PLUGIN.methods if method.name != "ValidateContainerAdjustment"]


def test_every_method_of_the_contract_is_known():
    assert {method.name for method in METHODS} == calls.REQUESTS.keys()
    assert calls.REQUESTS.keys() == calls.RESPONSES.keys()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_methods_messages_are_the_contracts(method):
    assert calls.REQUESTS[method.name].DESCRIPTOR is method.input_type
    assert calls.RESPONSES[method.name].DESCRIPTOR is method.output_type


def test_the_services_are_named_as_on_the_wire():
    assert PLUGIN.full_name == calls.PLUGIN
    assert nri_pb2.DESCRIPTOR.services_by_name["Runtime"].full_name == calls.RUNTIME


@pytest.mark.parametrize("kind", HookKind)
def test_a_hooks_shape_is_what_its_request_carries(kind):
    shape = calls.HOOKS_BY_METHOD[str(kind)]
    fields = calls.REQUESTS[str(kind)].DESCRIPTOR.fields_by_name
    assert shape.has_container is ("container" in fields)
    assert shape.kind is kind


def test_a_state_change_names_its_hook_by_number():
    for event, shape in calls.HOOKS_BY_EVENT.items():
        assert nri_pb2.Event.Name(event) == shape.kind.name
