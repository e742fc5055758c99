"""lending/run_delay.py: the delay of chosen tasks is summed, also if tasks come, go or cannot be read."""

from pathlib import Path

import pytest

from nri_coloc.host.counters import Schedstat
from nri_coloc.host.files import Descriptors
from nri_coloc.lending.run_delay import MOST_TASKS, RunDelay, busiest


class TestChoice:
    def test_who_ran_or_waited_most_since_is_chosen(self):
        before = {1: Schedstat(900, 0), 2: Schedstat(0, 0), 3: Schedstat(0, 0)}
        after = {1: Schedstat(910, 0), 2: Schedstat(40, 0), 3: Schedstat(0, 50)}
        assert busiest(before, after, 2) == (2, 3)

    def test_who_wanted_no_cpu_is_left_out(self):
        same = {1: Schedstat(900, 7)}
        assert busiest(same, same) == ()

    def test_of_a_first_listing_the_whole_lives_count(self):
        assert busiest({}, {1: Schedstat(1, 1), 2: Schedstat(9, 0), 3: Schedstat(0, 5)}, 2) == (2, 3)

    def test_a_newcomer_comes_after_all_who_wanted_something_since(self):
        before, after = {1: Schedstat(5, 5)}, {1: Schedstat(6, 5), 2: Schedstat(10**9, 0)}
        assert busiest(before, after, 1) == (1,)
        assert busiest(before, after, 2) == (1, 2)

    @pytest.mark.parametrize("now", [Schedstat(4, 90), Schedstat(90, 4)])
    def test_a_counter_that_went_back_is_a_newcomers(self, now):
        before = {1: Schedstat(5, 5), 2: Schedstat(0, 0)}
        assert busiest(before, {1: now, 2: Schedstat(0, 1)}, 1) == (2,)

    def test_no_more_are_chosen_than_the_bound(self):
        assert len(busiest({}, {task: Schedstat(task, 1) for task in range(100)})) == MOST_TASKS


class Tasks:
    """Tasks of a planted /proc, and a reader of their delay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bank = Descriptors()
        self.delay = RunDelay(self.bank, str(folder))

    def wait(self, task: int, us: int) -> None:
        self.show(task, f"1000 {us * 1000:<12} 3\n")

    def show(self, task: int, text: str) -> None:
        self._file(task).parent.mkdir(exist_ok=True)
        with self._file(task).open("r+" if self._file(task).exists() else "w") as stream:
            stream.write(text)

    def end(self, task: int) -> None:
        self._file(task).write_text("")  # an open file is empty then, as the kernel's is
        self._file(task).unlink()

    def _file(self, task: int) -> Path:
        return self.folder / f"{task}/schedstat"


@pytest.fixture
def tasks(tmp_path) -> Tasks:
    return Tasks(tmp_path)


class TestSum:
    def test_it_rises_by_what_all_tasks_wait(self, tasks):
        tasks.wait(1, 500)
        tasks.wait(2, 40)
        tasks.delay.follow((1, 2))
        assert tasks.delay.read() == 0
        tasks.wait(1, 510)
        tasks.wait(2, 43)
        assert tasks.delay.read() == 13

    def test_who_joins_or_leaves_moves_nothing(self, tasks):
        tasks.wait(1, 500)
        tasks.delay.follow((1,))
        tasks.delay.read()
        tasks.wait(1, 507)
        tasks.delay.read()
        tasks.wait(2, 10**6)
        tasks.delay.follow((2,))
        assert tasks.delay.read() == 7
        tasks.wait(2, 10**6 + 5)
        assert tasks.delay.read() == 12

    def test_a_task_that_has_ended_takes_nothing_with_it(self, tasks):
        tasks.wait(1, 500)
        tasks.wait(2, 0)
        tasks.delay.follow((1, 2))
        tasks.delay.read()
        tasks.wait(1, 530)
        assert tasks.delay.read() == 30
        tasks.end(1)
        assert tasks.delay.read() == 30
        assert tasks.bank.count == tasks.delay.cost == 1

    def test_without_a_task_that_is_left_there_is_none(self, tasks):
        tasks.wait(1, 500)
        tasks.delay.follow((1, 2))
        assert tasks.delay.read() == 0
        tasks.end(1)
        assert tasks.delay.read() is None

    def test_a_counter_that_goes_back_begins_anew(self, tasks):
        tasks.wait(1, 500)
        tasks.delay.follow((1,))
        tasks.delay.read()
        tasks.wait(1, 3)
        assert tasks.delay.read() == 0
        tasks.wait(1, 5)
        assert tasks.delay.read() == 2

    @pytest.mark.parametrize("text", ["0 0 0\n", "garbage\n"])
    def test_a_kernel_that_does_not_count_tells_nothing(self, tasks, text):
        tasks.show(1, text)
        tasks.delay.follow((1,))
        assert tasks.delay.read() is None

    def test_a_reading_that_makes_no_sense_is_passed_over(self, tasks):
        tasks.wait(1, 500)
        tasks.delay.follow((1,))
        tasks.delay.read()
        tasks.show(1, "max  ")
        assert tasks.delay.read() == 0
        tasks.wait(1, 520)
        assert tasks.delay.read() == 20

    def test_whom_nobody_follows_has_no_open_file(self, tasks):
        tasks.wait(1, 500)
        tasks.delay.follow((1,))
        tasks.delay.follow(())
        assert (tasks.bank.count, tasks.delay.read()) == (0, None)
