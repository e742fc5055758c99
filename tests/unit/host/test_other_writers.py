"""host/originals.py: a value that another writer wrote after us is kept, at the next start and by `restore`."""

import json
from pathlib import Path

import pytest

from nri_coloc.core.knobs import Knobs
from nri_coloc.host import files, journal_file, originals
from nri_coloc.host.bandwidth_files import PodBandwidth, Share
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.knob_files import FileValue
from nri_coloc.host.originals import Entry
from tests.rig.journals import load, restored
from tests.unit.host.host import SHARES, WEIGHT, Host

PATH = "kubepods/burstable/pod1"
APP = f"{PATH}/app"


@pytest.mark.parametrize(
    ("shown", "original", "ours", "is_anothers"),
    [
        ("2048", "102", ("2",), True),
        ("2", "102", ("2",), False),
        ("102\n", "102", ("2",), False),
        ("1", "102", ("2", "1"), False),
        ("777", "102", (), False),
        ("default 50", "default 100", ("default 10",), True),
        ("default 100", "100", ("default 10",), False),
        ("default 10\n8:0 50", "default 100\n8:0 50", ("default 10",), False),
        ("400000 100000", "200000 100000", ("250001 100000",), True),
        ("250001  100000", "200000 100000", ("250001 100000",), False),
        ("9223372036854771712", "-1", ("4096",), False),
        ("max", "4096", ("2048",), True),
    ],
)
def test_a_value_is_original_ours_or_anothers(shown, original, ours, is_anothers):
    assert Entry(original, ours=ours).is_anothers(shown) is is_anothers


def test_before_a_write_two_values_are_ours():
    entry = Entry("102", ours=("2",)).before_write("2", ("5",))
    assert entry.ours == ("2", "5")
    assert entry.before_write("5", ("7",)).ours == ("5", "7")


def test_after_an_unknown_write_no_value_is_ours():
    assert Entry("102", ours=("2",)).before_write("2", ()).ours == ()


def test_a_value_found_after_a_loss_may_be_ours():
    entry = originals.unknown("/kubepods/pod1/memory.high", "4096").before_write("4096", ("8192",))
    assert (entry.original, entry.is_anothers("4096"), entry.is_anothers("777")) == ("max", False, True)


def test_a_container_keeps_what_its_spec_may_hold():
    entry = originals.unknown("/kubepods/pod1/app/cpu.weight", "40")
    assert (entry.original, entry.is_known, entry.ours) == ("40", False, ("40",))


class Case:
    """One file of a pod's cgroup: its original value, a value of ours, and two values of the kubelet."""

    def __init__(self, name: str, path: str, *kubelets: str) -> None:
        self.name = name
        self.path = path
        self.original, *self.later = kubelets
        self.own = 0

    def write(self, host: Host) -> None:
        """Write our value, as each process does at its start."""
        match self.name:
            case "memory.min" | "memory.low":
                host.writer.protect(self.path, self.name, 8192)
            case "memory.max" | "memory.limit_in_bytes":
                host.writer.bound(self.path, (FileValue("memory", self.name, "4096"),))
            case "cpu.max" | "cpu.cfs_quota_us":
                shares = {APP: Share(self.own, self.own + 50_000, is_changed=True)}
                for now in (0.0, 5.0):
                    host.writer.bandwidth(PodBandwidth(PATH, shares), now)
            case _:
                value = SHARES if host.version == 1 else WEIGHT
                host.apply("", value, path=self.path, journalled=True)


CASES: dict[str, tuple[tuple[str, str], str, tuple[str, ...]]] = {
    "weight": (("cpu.shares", "cpu.weight"), PATH, ("100", "777")),
    "quota": (("cpu.cfs_quota_us", "cpu.max"), APP, ("100000 100000", "300000 100000", "60000 100000")),
    "limit": (("memory.limit_in_bytes", "memory.max"), PATH, ("8192", "16384", "0")),
    "protection": (("", "memory.min"), PATH, ("4096", "1024", "16384")),
    "class": (("", "memory.low"), "kubepods/burstable", ("4096", "1024", "16384")),
}


@pytest.fixture(
    params=[(version, name) for version in (1, 2) for name in CASES if CASES[name][0][version - 1]],
    ids=lambda param: f"v{param[0]}-{param[1]}",
)
def written(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Host, Case]:
    """Return a host on which the daemon wrote a file and ended."""
    version, name = request.param
    names, path, texts = CASES[name]
    case = Case(names[version - 1], path, *texts)
    host = Host(tmp_path, version)
    for folder in (PATH, APP):
        quota = {"cpu_cfs_quota_us": "100000"} if version == 1 else {"cpu_max": "100000 100000"}
        host.cgroup(
            folder, **quota, **{names[version - 1].replace(".", "_", 1): "0"} if name != "quota" else {}
        )
    show(host, case, case.original)
    case.write(host)
    assert host.text(case.name, path) != shown(case, case.original)
    return host, case


def shown(case: Case, text: str) -> str:
    return text.split(maxsplit=1)[0] if case.name == "cpu.cfs_quota_us" else text


def show(host: Host, case: Case, text: str) -> None:
    """Write a file as the kubelet does."""
    host.cgroup(case.path, **{case.name.replace(".", "_", 1): shown(case, text)})
    case.own = int(text.split(maxsplit=1)[0])


def start(host: Host) -> None:
    """Begin the next process."""
    host.journal = Journal(str(host.journal_path), str(host.root))
    host.writer = CgroupWriter(host.writer._layout, host.journal, str(host.root), lambda _: None)


def of(host: Host, case: Case) -> str | None:
    return load(str(host.journal_path)).get(str(host.file(case.name, case.path)).removeprefix(str(host.root)))


def test_restore_writes_the_original_over_ours(written):
    host, case = written
    assert restored(host.journal_path, str(host.root), host.version).anothers == ()
    assert host.text(case.name, case.path) == shown(case, case.original)


@pytest.mark.parametrize("is_adopted", [False, True], ids=["at restore", "at the next start"])
def test_a_later_value_is_kept(written, is_adopted):
    host, case = written
    for text in case.later:
        later = shown(case, text)
        show(host, case, text)
        if is_adopted:
            start(host)
            case.write(host)
            assert of(host, case) in (None, later)
        done = restored(host.journal_path, str(host.root), host.version)
        kept = [(file.rpartition("/")[2], now) for file, now in done.anothers]
        assert kept == ([] if is_adopted else [(case.name, later)])
        assert host.text(case.name, case.path) == later
        start(host)
        show(host, case, case.original)
        case.write(host)


def test_the_next_process_knows_our_value(written):
    host, case = written
    start(host)
    case.write(host)
    restored(host.journal_path, str(host.root), host.version)
    assert host.text(case.name, case.path) == shown(case, case.original)


@pytest.mark.parametrize("is_written", [False, True], ids=["before the write", "after it"])
def test_a_killed_process_leaves_no_value_of_others(tmp_path, monkeypatch, is_written):
    host = Host(tmp_path, 2)
    host.cgroup(PATH, memory_max="16384")
    limits = [FileValue("memory", "memory.max", text) for text in ("8192", "4096")]
    host.writer.bound(PATH, (limits[0],))
    write = files.write

    def killed(path: str, text: str) -> bool:
        if is_written:
            write(path, text)
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        host.writer.bound(PATH, (limits[1],))
    monkeypatch.undo()
    assert restored(host.journal_path, str(host.root), 2).anothers == ()
    assert host.text("memory.max", PATH) == "16384"


def test_a_file_of_an_older_journal_holds_ours(tmp_path):
    host = Host(tmp_path, 2)
    host.cgroup(PATH, memory_max="2048")
    host.journal_path.write_text(f'{{"file":"/sys/fs/cgroup/{PATH}/memory.max","was":"4096"}}\n')
    start(host)
    host.writer.bound(PATH, (FileValue("memory", "memory.max", "2048"),))
    assert journal_file.read(str(host.journal_path)).entries[f"/sys/fs/cgroup/{PATH}/memory.max"].ours == (
        "2048",
    )
    host.cgroup(PATH, memory_max="1024")
    assert restored(host.journal_path, str(host.root), 2).anothers[0][1] == "1024"


def test_an_older_version_reads_every_line(written):
    host, _ = written
    lines = [json.loads(line) for line in host.journal_path.read_text().splitlines()]
    assert all("was" in line for line in lines[1:])


def test_a_torn_journal_tells_no_value_of_ours(tmp_path):
    path = tmp_path / "journal"
    Journal(str(path)).note("/f", "1", "2")
    with path.open("a") as file:
        file.write('{"file":"/f","was":"1","ours":["3')
    assert Journal(str(path)).entries() == {"/f": Entry("1")}


def test_a_pushed_weight_is_ours(v1):
    v1.cgroup(cpu_shares="1024")
    v1.writer.remember("pod", Knobs(shares=2))
    for text, expected in (("2", "1024"), ("512", "512")):
        v1.cgroup(cpu_shares=text)
        restored(v1.journal_path, str(v1.root), 1)
        assert v1.text("cpu.shares") == expected
        v1.cgroup(cpu_shares="1024")
        v1.journal.keep(())
        v1.writer.remember("pod", Knobs(shares=2))


def test_a_reset_beside_a_running_daemon_is_repaired(v1):
    v1.cgroup(cpu_shares="100")
    v1.apply("", SHARES, journalled=True)
    v1.cgroup(cpu_shares="777")
    v1.apply("", SHARES, journalled=True)
    assert (v1.text("cpu.shares"), v1.noted()["cpu.shares"]) == ("2", "100")


def test_values_of_ours_cost_no_line_beside_marks(tmp_path, monkeypatch):
    journal = Journal(str(tmp_path / "journal"))
    journal.note("/f", "1", "2")
    before = (tmp_path / "journal").read_bytes()
    monkeypatch.setattr(type(journal._marks), "work", True)
    journal.note("/f", "2", "3")
    assert (tmp_path / "journal").read_bytes() == before
    assert journal.entries()["/f"].ours == ("2", "3")


def test_an_equal_value_of_ours_costs_no_line(tmp_path):
    journal = Journal(str(tmp_path / "journal"))
    journal.note("/f", "1", "2")
    journal.note("/f", "2", "2")
    before = (tmp_path / "journal").read_bytes()
    journal.note("/f", "2", "2")
    assert (tmp_path / "journal").read_bytes() == before
