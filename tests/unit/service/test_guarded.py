"""service/runner.py, errors.blame: every step runs, and an error is logged with the part that caused it."""

from collections.abc import Callable
from typing import Any

import pytest

from nri_coloc import errors
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.service.runner import each_step


class Log:
    """Fake log that keeps its events."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def error(self, event: str, **fields: Any) -> None:
        self.told.append({"event": event, **fields})

    exception = error


def refusing(error: Exception) -> Callable[[], None]:
    def step() -> None:
        raise error

    return step


def test_every_step_is_taken_in_its_order_and_all_is_well():
    log, taken = Log(), list[str]()
    steps = {name: lambda name=name: taken.append(name) for name in ("one", "two", "three")}
    assert each_step(log, "the end", steps)
    assert (taken, log.told) == (["one", "two", "three"], [])


def test_the_steps_after_one_that_failed_are_taken():
    taken: list[str] = []
    steps = {"one": refusing(ValueError("odd")), "two": lambda: taken.append("two")}
    assert not each_step(Log(), "the end", steps)
    assert taken == ["two"]


def test_what_nobody_foresaw_is_ours_and_has_its_origin():
    log, odd = Log(), ValueError("odd")
    each_step(log, "the end", {"one": refusing(odd)})
    assert log.told == [
        {"event": "a step of the end failed", "step": "one", "blame": "ours", "exc_info": odd},
    ]


def test_what_was_foreseen_is_a_sentence_with_whose_it_is():
    log = Log()
    each_step(log, "the end", {"one": refusing(KernelInterfaceError("/f", "read", "no"))})
    assert log.told == [
        {
            "event": "a step of the end failed",
            "step": "one",
            "blame": "the kernel's",
            "because": "cannot read /f: no",
        },
    ]


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (errors.LocalProtocolError(), "ours"),
        (errors.RemoteProtocolError(), "the peer's"),
        (errors.TransportLost(), "the peer's"),
        (errors.SettingsError(), "the operator's"),
        (KernelInterfaceError("/f", "read", "no"), "the kernel's"),
        (errors.RuntimeRefused(), "the runtime's"),
        (errors.ColocError(), "ours"),
        (OSError(), "ours"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one,
)
def test_an_error_is_somebodys(error, whose):
    assert errors.blame(error) == whose
