"""Specs get the kubelet's values back, from the container's record or from the journal of its files."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nri_coloc._pb import nri_pb2
from nri_coloc.core.knobs import NO_KNOBS, Knobs
from nri_coloc.core.workload import RECORD_KEY, KnownKeys
from nri_coloc.errors import RuntimeRefused, TransportLost
from nri_coloc.host import cgroup_layout, write_back
from nri_coloc.host.marks import Marks
from nri_coloc.nri import codec
from nri_coloc.nri.events import Call, Synchronize
from nri_coloc.restore import restoration
from nri_coloc.restore.restoration import RuntimeAt
from nri_coloc.restore.spec_restoration import SpecRestoration, SpecsRestored, carries_records
from nri_coloc.runtime.listing import Listing
from nri_coloc.runtime.pusher import PAUSE_S
from tests.rig import told
from tests.rig.journals import lines, load, place

PATH = "kubepods/podu"
V1 = {
    "cpuset": {"cpuset.cpus": "2-3", "cpuset.mems": "0"},
    "cpu": {"cpu.shares": "512", "cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"},
    "memory": {"memory.limit_in_bytes": "4096", "cgroup.procs": "7\n"},
    "blkio": {"blkio.bfq.weight": "10"},
}
V2 = {
    "cpuset.cpus": "2-3", "cpuset.cpus.effective": "2-3", "cpuset.mems": "0", "cpuset.mems.effective": "0",
    "cpu.weight": "20", "cpu.max": "50000 100000", "memory.max": "4096", "memory.high": "2048",
    "io.weight": "default 10", "cgroup.procs": "7\n",
}  # fmt: skip


def recorded(**original: Any) -> str:
    return json.dumps({"v": 1, "class": "reclaimed", "pool": "reclaim", "original": original})


class Rig:
    """A machine with one pod, and a fake runtime that keeps each update."""

    def __init__(self, root: Path, version: int) -> None:
        self.root, self.version = root, version
        self.told: list[tuple[str, Knobs, dict[str, str]]] = []
        self.pauses: list[float] = []
        self.raises: dict[str, Exception] = {}
        self.entries: dict[str, str] = {}
        self.containers: list[Any] = []
        self.pod = nri_pb2.PodSandbox(id="p", uid="u", name="web", namespace="shop")
        self.base = root / "sys/fs/cgroup"
        self._make(PATH, cpus="0-7")
        (root / "proc/7").mkdir(parents=True)
        self.score = root / "proc/7/oom_score_adj"
        self.score.write_text("1000\n")

    def _make(self, path: str, cpus: str = "2-3") -> None:
        if self.version == 2:
            self.base.mkdir(parents=True, exist_ok=True)
            (self.base / "cgroup.controllers").write_text("cpu")
        for mount, content in V1.items() if self.version == 1 else (("", V2),):
            folder = self.base / mount / path
            folder.mkdir(parents=True)
            for name, text in content.items():
                (folder / name).write_text(f"{cpus if name.startswith('cpuset.cpus') else text}\n")

    def container(self, name: str, record: str = "", *, running: bool = True, **annotations: str) -> Any:
        """Put a container into the list, and its cgroup on the machine."""
        self._make(f"{PATH}/{name}")
        state = nri_pb2.CONTAINER_RUNNING if running else nri_pb2.CONTAINER_CREATED
        message = nri_pb2.Container(id=name, pod_sandbox_id="p", name=name, state=state, pid=7)
        message.annotations.update(({RECORD_KEY: record} if record else {}) | annotations)
        message.linux.cgroups_path = f"/{PATH}/{name}"
        message.linux.oom_score_adj.value = 1000
        resources = message.linux.resources
        resources.cpu.cpus, resources.cpu.shares.value = "2-3", 512
        resources.cpu.quota.value, resources.cpu.period.value = 50_000, 100_000
        resources.memory.limit.value = 4096
        self.containers.append(message)
        return message

    def put_back(self, container_id: str, changes: Knobs, unified: Mapping[str, str]) -> None:
        if container_id in self.raises:
            raise self.raises[container_id]
        self.told.append((container_id, changes, dict(unified)))

    def run(self, **options: Any) -> SpecsRestored:
        layout = cgroup_layout.detect(str(self.root))
        work = SpecRestoration(layout, str(self.root), self, self.entries, self.pauses.append)
        return work.run(self.listing(), **options)

    def listing(self) -> Listing:
        listing = Listing(codec.Reader(KnownKeys()))
        containers = [told.container(each) for each in self.containers]
        listing.add(Synchronize(Call(1, "Synchronize", 0), [told.pod(self.pod)], containers, more=False))
        return listing

    def file(self, name: str, controller: str = "", container: str = "c") -> Path:
        return self.base / (controller if self.version == 1 else "") / PATH / container / name

    def text(self, *where: str) -> str:
        return self.file(*where).read_text().strip()


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rig(tmp_path: Path, request: pytest.FixtureRequest) -> Rig:
    return Rig(tmp_path, request.param)


@pytest.fixture
def v1(tmp_path: Path) -> Rig:
    return Rig(tmp_path, 1)


@pytest.fixture
def v2(tmp_path: Path) -> Rig:
    return Rig(tmp_path, 2)


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
    assert "2 containers keep the values of their specs" in done.refused[-1]


def test_without_time_nobody_is_told_and_that_is_said(rig):
    rig.container("c", recorded(shares=2))
    done = rig.run(until=0.0)
    assert rig.told == []
    assert done.refused == ("the time was over: 1 containers keep the values of their specs; run it again",)


def test_a_file_that_the_kernel_refuses_is_told(rig):
    rig.container("c", recorded(quota=None))
    file = rig.file("cpu.cfs_quota_us" if rig.version == 1 else "cpu.max", "cpu")
    file.unlink()
    file.symlink_to("/dev/full")
    (refused,) = rig.run().refused
    assert "No space left" in refused


def test_without_a_runtime_the_containers_entries_are_kept_for_another_try(rig, tmp_path):
    rig.container("c")
    state = tmp_path / "state"
    state.mkdir()
    mount = "cpuset/" if rig.version == 1 else ""
    of_container = f"/sys/fs/cgroup/{mount}{PATH}/c/cpuset.cpus"
    of_pod = f"/sys/fs/cgroup/{mount}{PATH}/cpuset.cpus"
    path = state / "restore.jsonl"
    path.write_text(lines({of_container: "0-7", of_pod: "0-7"}))
    nowhere = RuntimeAt(str(tmp_path / "nri"), str(tmp_path / "cri"), "nri-coloc")
    undone = restoration.restore(place(state, rig.root), nowhere)
    assert set(undone.files.done) == {of_container, of_pod}
    assert "No such file" in undone.unreachable
    assert load(path) == {of_container: "0-7"}


def test_files_alone_leave_no_entry(rig, tmp_path):
    rig.container("c")
    mount = "cpuset/" if rig.version == 1 else ""
    entry = {f"/sys/fs/cgroup/{mount}{PATH}/c/cpuset.cpus": "0-7"}
    (tmp_path / "restore.jsonl").write_text(lines(entry))
    undone = restoration.restore(place(tmp_path, rig.root), None)
    assert (undone.files.done, undone.unreachable) == (tuple(entry), "")
    assert load(tmp_path / "restore.jsonl") == {}


# ---- with the runtime's list ----


class Asked:
    """A node on v2 whose runtime lists its containers, and takes no update."""

    def __init__(self, rig: Rig, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig, self.state = rig, state
        monkeypatch.setattr(restoration, "take", lambda *_: rig.listing())

    def journal(self, container: str, name: str, was: str, **known: bool) -> str:
        """Add an entry of a container's file, and return the file."""
        file = f"/sys/fs/cgroup/{PATH}/{container}/{name}"
        with (self.state / "restore.jsonl").open("a") as journal:
            journal.write(json.dumps({"file": file, "was": was} | known) + "\n")
        return file

    def restore(self) -> restoration.Undone:
        at = RuntimeAt(str(self.state / "nri"), str(self.state / "cri"), "nri-coloc")
        return restoration.restore(place(self.state, self.rig.root), at, seconds=60.0)

    @property
    def journalled(self) -> set[str]:
        return {*load(self.state / "restore.jsonl")}


@pytest.fixture
def asked(v2: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    state = tmp_path / "state"
    state.mkdir()
    return Asked(v2, state, monkeypatch)


def test_only_entries_of_refused_specs_stay_journalled(asked):
    for name in ("a", "c"):
        asked.rig.container(name)
    asked.journal("a", "memory.max", "4096")
    refused = asked.journal("c", "cpu.weight", "100")
    assert asked.restore().specs.failed == {f"{PATH}/c"}
    assert asked.journalled == {refused}


@pytest.mark.parametrize(
    ("name", "told"), [("cpuset.cpus", True), ("cpu.weight", False)], ids=["a set", "a weight"]
)
def test_of_unknown_originals_a_spec_gets_sets_alone(asked, name, told):
    asked.rig.container("c")
    file = asked.journal("c", name, "" if name == "cpuset.cpus" else "100", unknown=True)
    asked.restore()
    assert asked.journalled == ({file} if told else set())


def test_without_entries_no_journal_is_made(asked):
    asked.rig.container("c", recorded(shares=512))
    assert asked.restore().unwritten == ""
    assert not (asked.state / "restore.jsonl").exists()


@pytest.mark.parametrize("record", ["", recorded(shares=512)], ids=["no record", "a record"])
@pytest.mark.parametrize("is_there", [False, True], ids=["no journal", "a journal"])
def test_a_record_without_journal_and_marks_is_told(asked, monkeypatch, record, is_there):
    monkeypatch.setattr(Marks, "work", False)
    asked.rig.container("c", record)
    if is_there:
        asked.journal("c", "cpu.weight", "20")
    assert ("was lost" in asked.restore().lacking) == (record != "" and not is_there)


# ---- at the daemon's end ----


class Ends:
    """Fake thread that has ended, or has not."""

    def __init__(self, *, done: bool = True) -> None:
        self._done = done

    def ended(self, _seconds: float) -> bool:
        return self._done


class Heard:
    """Fake log that keeps events and fields as text."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def info(self, event: str, **fields: Any) -> None:
        self.said.append(f"{event} {fields}")

    warning = info


def at_exit(rig: Rig, state: Path, *, writes: bool = False, pushes: bool = False) -> list[str]:
    entry = f"/sys/fs/cgroup/{'cpuset/' if rig.version == 1 else ''}{PATH}/cpuset.cpus"
    (state / "restore.jsonl").write_text(lines({entry: "0-5"}))
    nowhere, heard = RuntimeAt(str(state / "nri"), str(state / "cri"), "nri-coloc"), Heard()
    restoration.at_exit(
        place(state, rig.root), nowhere, [Ends(), Ends(done=not writes)], Ends(done=not pushes), heard
    )
    return heard.said


def test_the_end_restores_files_and_reports_failures(rig, tmp_path):
    said = at_exit(rig, tmp_path)
    assert said[0] == "restored {'files': 1, 'specs': 0}"
    assert "No such file" in said[1]
    assert rig.text("cpuset.cpus", "cpuset", "") == "0-5"


def test_at_the_end_a_push_in_flight_keeps_the_specs(rig, tmp_path):
    assert "a push is in flight" in at_exit(rig, tmp_path, pushes=True)[1]
    assert rig.text("cpuset.cpus", "cpuset", "") == "0-5"


def test_the_end_restores_nothing_beside_another_writer(rig, tmp_path):
    assert "a thread is still writing" in at_exit(rig, tmp_path, writes=True)[0]
    assert rig.text("cpuset.cpus", "cpuset", "") == "0-7"
