"""Specs get the kubelet's values back, from the container's record or from the journal of its files."""

import json
import shutil

import pytest

from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.workload import RECORD_KEY
from nri_coloc.errors import RuntimeRefused, TransportLost
from nri_coloc.host import write_back
from nri_coloc.restore.spec_restoration import SpecsRestored, carries_records
from nri_coloc.runtime.pusher import PAUSE_S
from tests.unit.restore.rig import PATH, recorded


def test_what_the_record_says_was_there_is_told_the_runtime(rig):
    rig.container("c", recorded(cpus="0-5", shares=2, quota=None, period=None, **{"memory.limit": None}))
    done = rig.run()
    former = Knobs(cpus="0-5", shares=2, quota=-1, memory_limit=-1)
    assert [(k, changes) for k, changes, _ in rig.told] == [("c", former)]
    assert done == SpecsRestored((f"shop/web/c: {'cpus=0-5, shares=2, quota=-1, memory.limit=-1'}",))
    assert rig.pauses == [PAUSE_S]


@pytest.mark.parametrize(("lent", "told"), [(512, Knobs(shares=102)), (2, NO_KNOBS)])
def test_figures_of_a_resize_are_no_values_of_ours(rig, lent, told):
    record = json.loads(recorded(shares=102)) | {"lent": {"shares": lent}}
    rig.container("c", json.dumps(record))
    rig.run()
    assert [changes for _, changes, _ in rig.told] == [told] * (told != NO_KNOBS)


@pytest.mark.parametrize("names", [("cpu.shares", "cpu.weight"), ("memory.limit_in_bytes", "memory.max")])
def test_only_a_push_makes_another_figure_ours(rig, names):
    """Settings that changed after its creation lend it more; the journal has the file from before the push."""
    record = json.loads(recorded(shares=102)) | {"lent": {"shares": 2}}
    rig.container("c", json.dumps(record))
    name = names[rig.version - 1]
    file = rig.file(name, name.partition(".")[0])
    rig.entries = {f"/{file.relative_to(rig.root)}": file.read_text().strip()}
    rig.run()
    assert [changes.shares for _, changes, _ in rig.told] == [102] * ("cpu" in name)


@pytest.mark.parametrize("record", ["", recorded(shares=512)])
def test_a_resized_quota_is_written_over_the_journals(rig, record):
    rig.container("c", record)
    name, text = ("cpu.cfs_quota_us", "20000") if rig.version == 1 else ("cpu.max", "20000 100000")
    file = rig.file(name, "cpu")
    file.write_text(f"{text}\n")
    rig.entries = {f"/{file.relative_to(rig.root)}": text}
    rig.run()
    assert file.read_text().split()[0] == "50000"
    assert rig.told == []


def test_a_cpuset_that_nobody_gave_is_the_pods(rig):
    rig.container("c", recorded(cpus=None))
    rig.run()
    assert [changes for _, changes, _ in rig.told] == [Knobs(cpus="0-7")]
    assert rig.text("cpuset.cpus", "cpuset") == ("0-7" if rig.version == 1 else "")


def test_memory_nodes_without_an_original_are_the_pods(rig):
    rig.container("c", recorded(mems=None)).linux.resources.cpu.mems = "1"
    rig.run()
    assert [changes for _, changes, _ in rig.told] == [Knobs(mems="0")]


@pytest.mark.parametrize(
    ("name", "was", "told"),
    [("cpu.weight", 512, [512]), ("cpu.weight", None, [1024]), ("cpu.max", 512, []), ("", 512, [])],
    ids=["journalled", "nothing before", "another file", "no journal"],
)
def test_on_v2_restored_shares_are_pushed_again(v2, name, was, told):
    v2.container("c", recorded(shares=was))
    if name:
        v2.entries[f"/sys/fs/cgroup/{PATH}/c/{name}"] = "157"
    v2.run()
    assert [changes.shares for _, changes, _ in v2.told] == told


def test_on_v2_the_kernels_shares_are_not_pushed_again(v2):
    v2.container("c", recorded(shares=None)).linux.resources.cpu.shares.value = 1024
    v2.entries[f"/sys/fs/cgroup/{PATH}/c/cpu.weight"] = "100"
    v2.run()
    assert v2.told == []


def test_on_v2_journalled_shares_without_a_record_are_not_told_again(v2):
    v2.container("c")
    v2.entries[f"/sys/fs/cgroup/{PATH}/c/cpu.weight"] = "20"
    v2.run()
    assert [changes for _, changes, _ in v2.told if changes.shares == 512] == []


def test_files_that_no_update_reaches_hold_the_kernels_values_again(v1):
    v1.container("c", recorded(**{"io.weight": None, "shares": 2, "quota": None}))
    v1.run()
    assert v1.text("blkio.bfq.weight", "blkio") == "100"
    assert v1.text("cpu.shares", "cpu") == "2"
    assert v1.text("cpu.cfs_quota_us", "cpu") == "-1"


def test_on_v2_unified_values_of_a_spec_are_restored_too(v2):
    v2.container("c", recorded(**{"memory.high": None, "io.weight": None}))
    done = v2.run()
    assert v2.told == [("c", Knobs(), {"memory.high": "max", "io.weight": "default 100"})]
    assert done.done == ("shop/web/c: memory.high=max, io.weight=default 100",)
    assert (v2.text("memory.high"), v2.text("io.weight")) == ("max", "default 100")


def test_a_second_time_there_is_nothing_to_tell(rig):
    message = rig.container("c", recorded(cpus="0-5", shares=2))
    rig.run()
    message.linux.resources.cpu.cpus, message.linux.resources.cpu.shares.value = "0-5", 2
    rig.told.clear()
    assert rig.run() == SpecsRestored()
    assert rig.told == []


def test_who_ran_before_us_gets_back_what_its_files_had(v1):
    v1.container("c")
    for name, was in (("cpu.shares", "2"), ("cpu.cfs_quota_us", "-1"), ("cpu.cfs_period_us", "100000")):
        v1.entries[f"/sys/fs/cgroup/cpu/{PATH}/c/{name}"] = was
    v1.entries[f"/sys/fs/cgroup/cpuset/{PATH}/c/cpuset.cpus"] = "0-7"
    v1.entries[f"/sys/fs/cgroup/memory/{PATH}/c/memory.limit_in_bytes"] = "9223372036854771712"
    v1.run()
    assert [changes for _, changes, _ in v1.told] == [Knobs(cpus="0-7", shares=2, quota=-1, memory_limit=-1)]


def test_values_set_after_creation_are_restored_from_files(rig):
    rig.container("c", recorded(oom_score_adj=900, shares=4))
    files = {"cpuset": {"cpuset.cpus": "0-7"}, "cpu": {"cpu.shares": "512"}}
    if rig.version == 2:
        files = {"": {"cpuset.cpus": "", "cpu.weight": "20"}}
    for mount, texts in files.items():
        for name, was in texts.items():
            rig.entries["/".join(filter(None, ("/sys/fs/cgroup", mount, PATH, "c", name)))] = was
    rig.run()
    assert [changes for _, changes, _ in rig.told] == [Knobs(cpus="0-7", shares=4)]


def test_who_is_none_of_ours_is_left_alone(rig):
    rig.container("plain")
    rig.container("odd", recorded(shares=2)).linux.cgroups_path = "/../.."
    rig.container("podless", recorded(shares=2)).pod_sandbox_id = "nobody"
    assert rig.run() == SpecsRestored()
    assert rig.told == []


def test_what_nobody_foresaw_of_one_keeps_no_other_from_its_values(v1):
    v1.raises["odd"] = ValueError("an unexpected value")
    for name in ("odd", "c"):
        v1.container(name, recorded(shares=2))
    done = v1.run()
    assert [k for k, _, _ in v1.told] == ["c"]
    assert done.refused == ("shop/web/odd: an error in the program: ValueError('an unexpected value')",)
    assert done.failed == {f"{PATH}/odd"}


def test_an_unforeseen_error_stops_no_other_container(v1, monkeypatch):
    taken = write_back.restore

    def restore(file: str, was: str, version: int) -> bool:
        if "/odd/" in file:
            raise ValueError("an unexpected value")
        return taken(file, was, version)

    monkeypatch.setattr(write_back, "restore", restore)
    for name in ("odd", "c"):
        v1.container(name, recorded(shares=2))
    done = v1.run()
    assert v1.text("cpu.shares", "cpu") == "2"
    assert done.refused == ("shop/web/odd: an error in the program: ValueError('an unexpected value')",)


def test_a_record_that_a_pod_carries_itself_is_not_believed(rig):
    rig.pod.annotations[RECORD_KEY] = "{}"
    rig.container("c", recorded(shares=2))
    rig.run()
    assert rig.told == []


def test_a_container_that_does_not_run_has_its_spec_changed_alone(rig):
    rig.container("c", recorded(cpus=None, oom_score_adj=5), running=False)
    before = rig.text("cpuset.cpus", "cpuset")
    rig.run()
    assert [changes for _, changes, _ in rig.told] == [Knobs(cpus="0-7")]
    assert (rig.text("cpuset.cpus", "cpuset"), rig.score.read_text().strip()) == (before, "1000")


def test_scores_of_processes_are_given_back(rig):
    rig.container("c", recorded(oom_score_adj=900))
    assert rig.run() == SpecsRestored()
    assert rig.score.read_text().strip() == "900"


def test_score_of_the_kubelet_stays(rig):
    rig.container("c", recorded(shares=2))
    rig.run()
    assert rig.score.read_text().strip() == "1000"


def test_missing_controllers_hinder_nothing(v1):
    v1.container("c", recorded(**{"oom_score_adj": 900, "io.weight": None}))
    for controller in ("cpuset", "blkio"):
        shutil.rmtree(v1.base / controller)
    assert v1.run() == SpecsRestored()
    assert v1.score.read_text().strip() == "900"


def test_one_record_shows_an_earlier_daemon(rig):
    rig.container("plain")
    assert not carries_records(rig.listing())
    rig.container("c", recorded(shares=2))
    assert carries_records(rig.listing())


def test_a_refused_score_is_reported_with_its_meaning(rig):
    rig.container("c", recorded(oom_score_adj=-5))
    rig.score.unlink()
    rig.score.symlink_to("/dev/full")
    (refused,) = rig.run().refused
    assert "shop/web/c: cannot write '-5'" in refused
    assert "until it is created again" in refused


def test_what_the_runtime_takes_back_from_nobody_is_told(rig):
    rig.container("c", recorded(blockio_class=None, rdt_class="gold"))
    assert rig.run().refused == (
        "shop/web/c: its blockio_class stays until it is created again: the runtime cannot remove it",
        "shop/web/c: its rdt_class stays until it is created again: the runtime cannot remove it",
    )


def test_one_that_the_runtime_refuses_costs_the_others_nothing(rig):
    for name in ("a", "c"):
        rig.container(name, recorded(shares=2))
    rig.raises["a"] = RuntimeRefused("not today")
    done = rig.run()
    assert [k for k, _, _ in rig.told] == ["c"]
    assert (done.refused, done.failed) == (("shop/web/a: not today",), {f"{PATH}/a"})


def test_a_runtime_that_went_away_is_not_asked_again(rig):
    for name in ("a", "b", "c"):
        rig.container(name, recorded(shares=2))
    rig.raises["b"] = TransportLost("gone")
    done = rig.run()
    assert [k for k, _, _ in rig.told] == ["a"]
    assert done.failed == {f"{PATH}/b", f"{PATH}/c"}
    assert "specs of 2 containers not restored" in done.refused[-1]


def test_without_time_nobody_is_told_and_that_is_said(rig):
    rig.container("c", recorded(shares=2))
    done = rig.run(until=0.0)
    assert rig.told == []
    assert done.refused == ("the time was over: specs of 1 container not restored; run it again",)


def test_a_file_that_the_kernel_refuses_is_told(rig):
    rig.container("c", recorded(quota=None))
    file = rig.file("cpu.cfs_quota_us" if rig.version == 1 else "cpu.max", "cpu")
    file.unlink()
    file.symlink_to("/dev/full")
    (refused,) = rig.run().refused
    assert "No space left" in refused
