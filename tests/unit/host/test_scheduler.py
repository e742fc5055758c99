"""host/scheduler.py on this machine's own kernel: hints of tasks are set, read and reset."""

import ctypes
import errno
import gc
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri_coloc.core.scheduler_hints import Hint, Policy, SchedulerCapability
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files, scheduler
from nri_coloc.host.scheduler import BATCH, IDLE, OTHER, Attributes
from tests.unit.host.host import Host

NICENESS = 19  # the tests may run at any niceness, and a child may always be nicer
SHORT, OFFLINE = Hint(Policy.OTHER, 100), Hint(Policy.BATCH)


PRIVILEGED = pytest.mark.skipif(os.geteuid() != 0, reason="to leave SCHED_IDLE needs CAP_SYS_NICE")


@pytest.fixture(autouse=True)
def usual_policy() -> Iterator[None]:
    """Give the tests' thread, and what it starts, the usual policy: the product leaves another one alone."""
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    yield
    os.sched_setscheduler(0, before, os.sched_param(0))


@pytest.fixture
def child() -> Iterator[int]:
    """Yield the id of a process with a niceness of its own."""
    process = subprocess.Popen(["sleep", "60"])
    os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
    yield process.pid
    process.kill()
    process.wait()


def of(tid: int) -> Attributes:
    found = scheduler.read(tid)
    assert found is not None
    return found


def has_slices() -> bool:
    found = scheduler.probe("/")
    return found is not None and found.slices


def test_batch_is_set_and_niceness_stays(child):
    before = of(child)
    assert scheduler.tell(child, OFFLINE) is None
    assert of(child) == before._replace(policy=BATCH)
    assert scheduler.reset(child, Policy.BATCH) is None
    assert of(child) == before


def test_a_task_that_chose_batch_itself_keeps_it(child):
    os.sched_setscheduler(child, os.SCHED_BATCH, os.sched_param(0))
    before = of(child)
    assert scheduler.tell(child, SHORT) is None
    assert scheduler.reset(child, SHORT.policy) is None
    assert of(child) == before


@PRIVILEGED
def test_idle_is_set_and_taken_back_where_it_was_told(child):
    before = of(child)
    assert scheduler.tell(child, Hint(Policy.IDLE)) is None
    assert of(child)._replace(policy=before.policy) == before
    assert of(child).policy == IDLE
    assert scheduler.reset(child, Policy.IDLE) is None
    assert of(child) == before


def test_a_short_slice_is_ignored_where_kernels_lack_it(child):
    before = of(child)
    assert scheduler.tell(child, SHORT) is None
    assert of(child).slice_us == (100 if has_slices() else 0)
    assert of(child).nice == NICENESS
    assert scheduler.reset(child) is None
    assert of(child) == before


def test_what_is_told_is_inherited():
    script = "read go; chrt -p $$; sh -c 'chrt -p $$'"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        scheduler.tell(shell.pid, OFFLINE)
        said, _ = shell.communicate(b"go\n", 60)
    assert said.decode().count("SCHED_BATCH") == 2


def test_tasks_of_other_policies_are_none_of_ours(child):
    os.sched_setscheduler(child, os.SCHED_IDLE, os.sched_param(0))
    before = of(child)
    assert scheduler.tell(child, OFFLINE) is None
    assert scheduler.reset(child) is None
    assert of(child) == before


def test_a_task_that_is_gone_is_nothing():
    process = subprocess.Popen(["true"])
    process.wait()
    assert scheduler.read(process.pid) is None
    assert scheduler.tell(process.pid, SHORT) is None
    assert scheduler.reset(process.pid) is None


def test_reading_a_task_leaves_nothing_to_collect():
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            scheduler.read(0)
        assert gc.collect() < 20
    finally:
        gc.enable()


class Kernel:
    """Fake libc that refuses every call."""

    def syscall(self, *_: object) -> int:
        ctypes.set_errno(errno.EPERM)
        return -1


def test_a_refusal_is_returned(monkeypatch):
    monkeypatch.setattr(scheduler, "_libc", Kernel())
    for refused in (scheduler.tell(7, SHORT), scheduler.reset(7)):
        assert isinstance(refused, KernelInterfaceError)
        assert str(refused) == "cannot ask /proc/7/sched: Operation not permitted"


class TestProbing:
    def test_it_leaves_every_thread_of_ours_as_it_was(self):
        before = of(0)
        found = scheduler.probe("/")
        assert of(0) == before
        assert found is not None or platform.machine() not in ("x86_64", "aarch64")

    def test_under_another_root_process_ids_are_not_ours_to_use(self, tmp_path):
        assert scheduler.probe(str(tmp_path)) is None

    def test_in_another_pid_namespace_neither(self, tmp_path):
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/self").symlink_to("1234567")
        assert scheduler.probe(str(tmp_path)) is None

    def test_a_machine_whose_numbers_we_do_not_know_has_none(self, monkeypatch):
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
        assert scheduler.probe("/") is None

    @PRIVILEGED
    def test_who_may_make_a_task_ordinary_again_is_told_so(self):
        found = scheduler.probe("/")
        assert found is not None
        assert found.returns

    def test_who_may_not_is_told_so_too(self, monkeypatch):
        asked = []

        def once(_: int, wanted: Attributes) -> None:
            asked.append(wanted.policy)
            if asked[-2:] == [IDLE, OTHER]:
                raise KernelInterfaceError("/proc/0/sched", "tell", "Operation not permitted")

        monkeypatch.setattr(scheduler, "read", lambda _: Attributes(OTHER))
        monkeypatch.setattr(scheduler, "write", once)
        assert scheduler.probe("/") == SchedulerCapability()

    @pytest.mark.parametrize("told", [0, 2800])
    def test_a_kernel_that_ignores_the_slice_has_no_slices(self, monkeypatch, told):
        monkeypatch.setattr(scheduler, "read", lambda _: Attributes(OTHER, slice_us=told))
        monkeypatch.setattr(scheduler, "write", lambda *_: None)
        assert scheduler.probe("/") == SchedulerCapability(slices=False, returns=True)

    def test_nor_one_that_refuses(self, monkeypatch):
        def refuse(_: int) -> Any:
            raise KernelInterfaceError("/proc/0/sched", "ask", "Function not implemented")

        monkeypatch.setattr(scheduler, "read", refuse)
        assert scheduler.probe("/") == SchedulerCapability(slices=False)

    def test_nor_for_a_thread_of_another_policy(self, monkeypatch):
        monkeypatch.setattr(scheduler, "read", lambda _: Attributes(os.SCHED_FIFO))
        assert scheduler.probe("/") == SchedulerCapability(slices=False)


class TestTheTasksOfACgroup:
    @pytest.mark.parametrize("told", [OFFLINE, pytest.param(Hint(Policy.IDLE), marks=PRIVILEGED)])
    @pytest.mark.parametrize(("version", "name"), [(1, "tasks"), (2, "cgroup.threads")])
    def test_all_are_told_also_those_below_and_told_back(self, tmp_path: Path, child, version, name, told):
        below = tmp_path / "below"
        below.mkdir()
        (tmp_path / name).write_text("0\n")  # a task of another PID namespace: never the caller itself
        (below / name).write_text(f"{child}\n")
        own, before = of(0), of(child)
        assert scheduler.tell_all(str(tmp_path), version, told) is None
        assert (of(child).policy, of(0)) == (BATCH if told is OFFLINE else IDLE, own)
        assert scheduler.reset_all(str(tmp_path), version, told.policy.value) is None
        assert of(child) == before

    def test_no_number_of_cgroups_makes_a_hint_costly(self, tmp_path, monkeypatch):
        for number in range(scheduler.MOST_CGROUPS + 100):
            (tmp_path / f"{number}").mkdir()
            (tmp_path / f"{number}/tasks").write_text(f"{number + 1}\n")
        told, taken_back = set[int](), set[int]()
        monkeypatch.setattr(scheduler, "tell", lambda tid, _: told.add(tid))
        monkeypatch.setattr(scheduler, "reset", lambda tid, _: taken_back.add(tid))
        assert scheduler.tell_all(str(tmp_path), 1, SHORT) is None
        assert len(told) == scheduler.MOST_CGROUPS - 1
        assert scheduler.reset_all(str(tmp_path), 1, "SCHED_IDLE") is None
        assert len(taken_back) == scheduler.MOST_CGROUPS + 100

    @PRIVILEGED
    @pytest.mark.parametrize("policies", [(Policy.BATCH, Policy.IDLE), (Policy.IDLE, Policy.BATCH)])
    def test_a_hint_that_differs_from_the_previous_process_is_taken_back(self, tmp_path, child, policies):
        host = Host(tmp_path, 1)
        (host.base / "cpu/pod").mkdir(parents=True)
        (host.base / "cpu/pod/tasks").write_text(f"{child}\n")
        before = of(child)
        for policy in policies:
            assert host.writer.hint("pod", Hint(policy)) is None
            assert of(child).policy == {Policy.BATCH: BATCH, Policy.IDLE: IDLE}[policy]
            assert host.noted() == {scheduler.NAME: policy.value}
        assert host.writer.unhint("pod") is None
        assert (of(child), host.noted()) == (before, {})

    def test_hints_that_cannot_be_reverted_stay_noted(self, tmp_path, monkeypatch):
        host = Host(tmp_path, 1)
        host.writer.hint("pod", OFFLINE)
        refusal = KernelInterfaceError("/proc/5/sched", "tell", "Operation not permitted")
        monkeypatch.setattr(scheduler, "reset_all", lambda *_: refusal)
        assert host.writer.hint("pod", Hint(Policy.IDLE)) is refusal
        assert host.noted() == {scheduler.NAME: Policy.BATCH.value}

    def test_hints_that_are_reverted_while_tasks_are_told_stay_noted(self, tmp_path, monkeypatch):
        host = Host(tmp_path, 1)
        (host.base / "cpu/pod").mkdir(parents=True)
        monkeypatch.setattr(scheduler, "tell_all", lambda *_: host.writer.unhint("pod"))
        assert host.writer.hint("pod", OFFLINE) is None
        assert host.noted() == {scheduler.NAME: Policy.BATCH.value}

    @pytest.mark.parametrize(("generations", "told"), [(4, 5), (1000, 8)], ids=["that-end", "without-end"])
    def test_who_is_born_meanwhile_is_told_too_and_nobody_twice(
        self, tmp_path, monkeypatch, generations, told
    ):
        list_, seen = tmp_path / "tasks", list[int]()

        def forks(tid: int, _: object) -> None:
            seen.append(tid)
            if tid <= generations:
                list_.write_text("".join(f"{each}\n" for each in range(1, tid + 2)))

        list_.write_text("1\n")
        monkeypatch.setattr(scheduler, "reset", forks)
        assert scheduler.reset_all(str(tmp_path), 1, "SCHED_IDLE") is None
        assert seen == list(range(1, told + 1))

    def test_the_first_refusal_is_returned(self, tmp_path, monkeypatch):
        (tmp_path / "tasks").write_text("5\n6\n")
        refusal = KernelInterfaceError("/proc/5/sched", "tell", "Operation not permitted")
        monkeypatch.setattr(scheduler, "tell", lambda *_: refusal)
        monkeypatch.setattr(scheduler, "reset", lambda *_: refusal)
        assert scheduler.tell_all(str(tmp_path), 1, SHORT) is refusal
        assert scheduler.reset_all(str(tmp_path), 1, "SCHED_IDLE") is refusal

    def test_an_unreadable_or_ended_cgroup_has_no_tasks(self, tmp_path, monkeypatch):
        assert scheduler.tell_all(str(tmp_path / "gone"), 2, SHORT) is None

        def unreadable(path: str) -> str:
            raise KernelInterfaceError(path, "read", "Operation not supported")

        monkeypatch.setattr(files, "read", unreadable)
        assert scheduler.tell_all(str(tmp_path), 2, SHORT) is None
