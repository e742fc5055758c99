import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import calls
from nri_coloc.nri.calls import HookKind

VALIDATE = 1 << (nri_pb2.VALIDATE_CONTAINER_ADJUSTMENT - 1)


@pytest.mark.parametrize(
    ("version", "mask"),
    [
        ((0, 6, 1), 0x07FF),
        ((0, 8, 0), 0x07FF),
        ((0, 9, 9), 0x07FF),
        ((0, 10, 0), 0x1FFF),
        ((0, 12, 2), 0x1FFF),
    ],
)
def test_the_mask_holds_every_event_that_the_version_can_send(version, mask):
    assert calls.mask(version) == mask


def test_the_mask_never_asks_for_everything_or_for_validation():
    for minor in range(20):
        assert calls.mask((0, minor, 0)) != 0
        assert not calls.mask((0, minor, 0)) & VALIDATE


def test_every_event_but_validation_is_a_hook():
    known = {kind.event for kind in HookKind}
    assert known == set(nri_pb2.Event.values()) - {nri_pb2.UNKNOWN, nri_pb2.VALIDATE_CONTAINER_ADJUSTMENT}


def test_a_hook_knows_whom_it_concerns():
    assert {kind for kind in HookKind if kind.about_pod} == {
        HookKind.RUN_POD_SANDBOX,
        HookKind.STOP_POD_SANDBOX,
        HookKind.REMOVE_POD_SANDBOX,
        HookKind.UPDATE_POD_SANDBOX,
        HookKind.POST_UPDATE_POD_SANDBOX,
    }


def test_four_hooks_never_come_as_a_state_change():
    assert {kind for kind in HookKind if not kind.by_state_change} == {
        HookKind.CREATE_CONTAINER,
        HookKind.UPDATE_CONTAINER,
        HookKind.STOP_CONTAINER,
        HookKind.UPDATE_POD_SANDBOX,
    }
