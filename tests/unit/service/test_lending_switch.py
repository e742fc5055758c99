"""service/lending_switch.py: an operator's order survives a restart, and a disk that refuses it is reported."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_coloc.schedule.switch import ON, Clocks, Switch, switched_off
from nri_coloc.service.lending_switch import NAME, LendingSwitch
from nri_coloc.service.state_folder import TRIED_EVERY_S
from tests.unit import parts

Order = Callable[[Switch, float], Switch]


def drain(before: Switch, now_s: float) -> Switch:
    return switched_off(before, now_s, 600, drain=True)


def on(_before: Switch, _now_s: float) -> Switch:
    return ON


@pytest.fixture
def switch(tmp_path: Path) -> LendingSwitch:
    return parts.a_switch(tmp_path)


def ordered(switch: LendingSwitch, order: Order) -> str:
    switch.put(order)
    return switch.keep()


def test_without_a_file_lending_is_on(switch):
    assert switch.load() == ""
    assert (switch.held, switch.now()) == (ON, ON)


def test_an_order_survives_a_restart(switch, tmp_path):
    assert ordered(switch, drain) == ""
    assert parts.a_switch(tmp_path).held == switch.held


def test_on_leaves_no_file(switch, tmp_path):
    ordered(switch, drain)
    assert ordered(switch, on) == ""
    assert list(tmp_path.iterdir()) == []


def test_an_order_of_the_previous_process_is_loaded(switch, tmp_path):
    ordered(parts.a_switch(tmp_path), drain)
    assert switch.held == ON
    assert switch.load() == ""
    assert switch.held.drain


def test_the_newest_of_two_orders_is_stored(switch, tmp_path):
    switch.put(drain)
    switch.put(on)
    assert (switch.keep(), switch.keep()) == ("", "")
    assert parts.a_switch(tmp_path).held == ON


@pytest.mark.parametrize("text", ["", "{}", "\0" * 9000])
def test_an_unreadable_order_switches_off(text, tmp_path):
    (tmp_path / NAME).write_text(text)
    switch = parts.a_switch(tmp_path)
    problem = switch.load()
    assert problem.endswith("; lending stays off until `nri-coloc admin lending on`")
    assert (switch.held.off, switch.held.drain) == (True, False)


def test_an_unreadable_order_is_reported_once(tmp_path):
    (tmp_path / NAME).write_text("torn")
    parts.a_switch(tmp_path).load()
    assert parts.a_switch(tmp_path).load() == ""


def test_a_folder_in_its_place_switches_off(tmp_path):
    (tmp_path / NAME).mkdir()
    switch = parts.a_switch(tmp_path)
    assert "cannot be read: it is no regular file" in switch.load()
    assert switch.held.off


def test_a_pipe_in_its_place_switches_off(tmp_path):
    os.mkfifo(tmp_path / NAME)
    switch = parts.a_switch(tmp_path)
    assert "cannot be read: it is no regular file" in switch.load()
    assert switch.held.off


def test_an_order_that_cannot_be_stored_is_in_force(tmp_path):
    switch = parts.a_switch(tmp_path / "gone")
    problem = ordered(switch, drain)
    assert problem.endswith("No such file or directory; after a restart lending is on again")
    assert (switch.held.drain, switch.problem) == (True, problem)


def test_it_is_stored_as_soon_as_possible(tmp_path):
    switch = parts.a_switch(tmp_path / "gone")
    ordered(switch, drain)
    (tmp_path / "gone").mkdir()
    switch.look(TRIED_EVERY_S)
    assert switch.problem == ""
    assert parts.a_switch(tmp_path / "gone").held == switch.held


def test_a_lost_file_is_written_again(switch, tmp_path):
    ordered(switch, drain)
    (tmp_path / NAME).unlink()
    switch.look(TRIED_EVERY_S)
    assert parts.a_switch(tmp_path).held.drain


def test_an_on_that_cannot_be_stored_is_in_force(switch, tmp_path):
    ordered(switch, drain)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    assert ordered(switch, on).endswith("after a restart lending is off again")
    assert switch.held == ON


def test_a_full_disk_leaves_no_half_file(switch, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert "No space left on device" in ordered(switch, drain)
    assert list(tmp_path.iterdir()) == []


def test_times_are_shown_by_the_present_wall_clock(tmp_path):
    times = [Clocks("one", 100.0, 5000.0)]
    switch = LendingSwitch(str(tmp_path), lambda: times[-1])
    switch.put(drain)
    times.append(Clocks("one", 160.0, 9060.0))
    assert switch.now().at_s == 9000


@pytest.mark.parametrize("wall_s", [5000.0, 5000.3, 5000.8])
def test_an_order_without_grace_is_over_at_once(wall_s, tmp_path):
    switch = LendingSwitch(str(tmp_path), lambda: Clocks("one", 100.1, wall_s))
    switch.put(lambda before, now_s: switched_off(before, now_s, 0, drain=True))
    assert switch.now().drains_s <= wall_s
