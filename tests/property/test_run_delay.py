"""For any schedstat files, the waiting of tasks is a counter that never falls and rises no more than the files."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nri_coloc.host.counters import Schedstat
from nri_coloc.host.files import Descriptors
from nri_coloc.lending.run_delay import RunDelay, busiest

US = st.integers(0, 10**12)
LISTING = st.dictionaries(st.integers(1, 20), st.builds(Schedstat, US, US), max_size=20)
TASKS = (1, 2, 3)
TOLD = st.integers(1, 10**9) | st.sampled_from(["0 0 0", "", "max", "1 2", "9" * 30])
"""A task's waiting in µs, or words that make no sense."""


@given(LISTING, LISTING, st.integers(0, 10))
def test_nobody_is_left_out_for_one_who_wanted_a_cpu_less(before, after, most):
    def wanted(task: int) -> int:
        then, now = before[task], after[task]
        return int(now.ran_us - then.ran_us + now.waited_us - then.waited_us)

    chosen = busiest(before, after, most)
    assert len(chosen) == len(set(chosen)) <= most
    assert set(chosen) <= set(after)
    grew = {
        task
        for task in after.keys() & before.keys()
        if all(now >= then for now, then in zip(after[task], before[task], strict=True)) and wanted(task)
    }
    assert len(chosen) >= min(most, len(grew))
    left, taken = grew - set(chosen), grew & set(chosen)
    assert not left or (
        set(chosen) == taken and max(map(wanted, left)) <= min(map(wanted, taken), default=10**13)
    )


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from(TASKS)), st.fixed_dictionaries(dict.fromkeys(TASKS, TOLD))),
        max_size=8,
    )
)
def test_the_sum_rises_at_most_with_its_counters(tmp_path_factory, rounds):
    proc = tmp_path_factory.mktemp("proc")
    bank = Descriptors()
    delay, total = RunDelay(bank, str(proc)), 0
    counters: dict[int, int] = {}
    most = 0
    for followed, told in rounds:
        for task, words in told.items():
            risen = _show(proc, task, words, counters)
            most += risen
        delay.follow(followed)
        found = delay.read()
        if found is not None:
            assert total <= found <= most
            total = found
    delay.follow(())
    assert bank.count == 0


def _show(proc: Path, task: int, words: int | str, counters: dict[int, int]) -> int:
    """Write a task's file in place, and return how far its counter rose, in µs."""
    folder = proc / str(task)
    folder.mkdir(exist_ok=True)
    text = f"5 {words * 1000} 1" if isinstance(words, int) else words
    with (folder / "schedstat").open("r+" if (folder / "schedstat").exists() else "w") as stream:
        stream.write(f"{text:<40}\n")
    if isinstance(words, str):
        return 0
    before, counters[task] = counters.get(task, words), words
    return max(0, words - before)
