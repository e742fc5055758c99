"""host/bandwidth_files.py: quotas and bursts of pods are written, on files that refuse as the kernel does."""

from pathlib import Path

import pytest

from nri_coloc.core import kubepods
from nri_coloc.errors import KernelInterfaceError
from nri_coloc.host import files
from nri_coloc.host.bandwidth_files import SHOWN_S, Bandwidths, PodBandwidth, Share, Write, Written
from nri_coloc.host.journal import Journal
from tests.rig import resizing
from tests.rig.journals import load, restored

MS = 1000


class Kernel:
    """Cgroups in a folder that refuse as the kernel does; `written` keeps every write."""

    def __init__(self, root: Path, version: int) -> None:
        self.version = version
        self.root = root / "cpu"
        self.journal_path = root / "journal"
        self.written: list[str] = []
        self.now = 0.0
        self.start()

    def start(self) -> None:
        """Start a new process on the same files."""
        journal = Journal(str(self.journal_path))
        self.bandwidths = Bandwidths(lambda path: str(self.root / path), self.version, journal)

    def make(self, path: str, quota: int, burst: int | None = 0) -> None:
        (self.root / path).mkdir(parents=True)
        text = str(quota) if self.version == 1 else f"{'max' if quota < 0 else quota} 100000"
        self.file(path, "quota").write_text(f"{text}\n")
        if burst is not None:
            self.file(path, "burst").write_text(f"{burst}\n")

    def file(self, path: str, knob: str) -> Path:
        names = {"quota": ("cpu.cfs_quota_us", "cpu.max"), "burst": ("cpu.cfs_burst_us", "cpu.max.burst")}
        return self.root / path / names[knob][self.version - 1]

    def set(self, path: str, knob: str, value: int) -> None:
        """Write a value as the kubelet or runc does, µs."""
        text = f"{value} 100000" if self.version == 2 and knob == "quota" else str(value)
        self.file(path, knob).write_text(f"{text}\n")

    def get(self, path: str, knob: str) -> int:
        first = self.file(path, knob).read_text().split()[0]
        return -1 if first == "max" else int(first)

    def write(self, path: str, text: str) -> bool:
        folder, _, name = path.rpartition("/")
        here = str(Path(folder).relative_to(self.root))
        value = -1 if text.startswith("max") else int(text.split(maxsplit=1)[0])
        knob = "burst" if "burst" in name else "quota"
        quota = value if knob == "quota" else self.get(here, "quota")
        has_burst = self.file(here, "burst").exists()
        burst = value if knob == "burst" else (self.get(here, "burst") if has_burst else 0)
        if quota >= 0 and burst > quota:
            raise KernelInterfaceError(path, f"write {text!r} to", "Invalid argument")
        if self.version == 1 and knob == "quota":
            self.check_tree(here, value, path)
        self.written.append(f"{here} {knob} {value}")
        Path(path).write_text(f"{text}\n")
        return True

    def check_tree(self, here: str, value: int, path: str) -> None:
        children = [str(p.relative_to(self.root)) for p in (self.root / here).iterdir() if p.is_dir()]
        inner = max((self.get(child, "quota") for child in children), default=-1)
        outer = self.get("pod", "quota") if here != "pod" else -1
        if (0 <= value < inner) or (0 <= outer < value):
            raise KernelInterfaceError(path, "write", "Invalid argument")

    def apply(self, **shares: Share) -> tuple[str, ...]:
        """Apply shares of the pod's containers until nothing waits; nothing may be refused. Return the writes in order.

        Container b has its own quota if it is not given.
        """
        if shares and (self.root / "pod/b").exists():
            shares = {"b": Share(100 * MS), **shares}
        self.written.clear()
        done: list[Write] = []
        is_waiting = True
        while is_waiting:
            found = self.apply_once(**shares)
            done += found.done
            is_waiting = found.is_waiting
            self.now += SHOWN_S
        assert [self.shown(one) for one in done] == self.written
        return tuple(self.written)

    def apply_once(self, **shares: Share) -> Written:
        """Apply shares of the pod's containers now."""
        found = self.bandwidths.apply(
            PodBandwidth("pod", {f"pod/{k}": s for k, s in shares.items()}), self.now
        )
        assert found.failures == ()
        return found

    def shown(self, one: Write) -> str:
        """Return a reported write in the form of `written`."""
        knob = "burst" if "burst" in one.file.name else "quota"
        value = one.file.now.split()[0].replace("max", "-1")
        return f"{one.target or 'pod'} {knob} {value}"

    def noted(self) -> dict[str, str]:
        return {str(Path(k).relative_to(self.root)): v for k, v in load(str(self.journal_path)).items()}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def kernel(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel(tmp_path, request.param)
    made.make("pod", 200 * MS)
    made.make("pod/a", 100 * MS)
    made.make("pod/b", 100 * MS)
    monkeypatch.setattr(files, "write", made.write)
    return made


def test_a_burst_is_set_on_the_container_and_on_its_pod(kernel):
    kernel.apply(a=Share(100 * MS, burst=50 * MS), b=Share(100 * MS, burst=20 * MS))
    assert [kernel.get(path, "burst") for path in ("pod/a", "pod/b", "pod")] == [50 * MS, 20 * MS, 70 * MS]
    assert kernel.apply(a=Share(100 * MS, burst=50 * MS), b=Share(100 * MS, burst=20 * MS)) == ()


def test_a_burst_is_never_above_the_quota_that_the_file_holds(kernel):
    kernel.set("pod/a", "quota", 30 * MS)
    kernel.apply(a=Share(100 * MS, burst=50 * MS))
    assert (kernel.get("pod/a", "burst"), kernel.get("pod", "burst")) == (30 * MS, 30 * MS)


def test_before_a_quota_falls_its_burst_and_its_pods_have_fallen(kernel):
    kernel.apply(a=Share(100 * MS, burst=100 * MS))
    assert kernel.apply(a=Share(50 * MS, burst=50 * MS)) == ("pod/a burst 50000", "pod burst 50000")
    assert kernel.write(
        str(kernel.file("pod/a", "quota")), "50000 100000" if kernel.version == 2 else "50000"
    )


def test_raised_quotas_raise_the_pods_first_and_go_back_after_it(kernel):
    up = kernel.apply(a=Share(100 * MS, 150 * MS), b=Share(100 * MS, 100 * MS))
    assert up == ("pod quota 250001", "pod/a quota 150000")
    down = kernel.apply(a=Share(100 * MS, 100 * MS), b=Share(100 * MS, 100 * MS))
    assert down == ("pod/a quota 100000", "pod quota 200000")
    assert kernel.noted() == {}


def test_a_pod_without_a_quota_keeps_none(kernel):
    kernel.set("pod", "quota", -1)
    kernel.file("pod", "quota").write_text("-1\n" if kernel.version == 1 else "max 100000\n")
    assert kernel.apply(a=Share(100 * MS, 150 * MS, 100 * MS)) == (
        "pod/a quota 150000", "pod burst 100000", "pod/a burst 100000",
    )  # fmt: skip


def test_a_pods_new_quota_is_the_kubelets_own(kernel):
    kernel.apply(a=Share(100 * MS, 150 * MS))
    kernel.set("pod", "quota", 400 * MS)
    kernel.set("pod/b", "quota", 300 * MS)
    b = Share(300 * MS)
    assert kernel.apply(a=Share(100 * MS, 150 * MS), b=b) == ("pod quota 450001",)
    kernel.apply(a=Share(100 * MS, 100 * MS), b=b)
    assert kernel.get("pod", "quota") == 400 * MS


def test_after_a_restart_a_raised_quota_is_known_to_be_ours(kernel):
    kernel.apply(a=Share(100 * MS, 150 * MS))
    kernel.start()
    assert kernel.apply(a=Share(100 * MS, 150 * MS)) == ()
    kernel.apply(a=Share(100 * MS, 100 * MS))
    assert (kernel.get("pod", "quota"), kernel.noted()) == (200 * MS, {})


def test_values_noted_but_never_written_are_the_kubelets(kernel):
    kernel.apply(a=Share(100 * MS, 150 * MS))
    for path in ("pod", "pod/a"):  # the cgroups are made again, as by a reboot
        kernel.set(path, "quota", 200 * MS if path == "pod" else 100 * MS)
    kernel.start()
    kernel.apply(a=Share(100 * MS, 100 * MS))
    assert kernel.noted() == {}
    kernel.set("pod/a", "quota", 50 * MS)
    kernel.set("pod", "quota", 150 * MS)
    kernel.apply(a=Share(50 * MS, 75 * MS))
    kernel.apply(a=Share(50 * MS, 50 * MS))
    assert (kernel.get("pod", "quota"), kernel.get("pod/a", "quota")) == (150 * MS, 50 * MS)


def test_a_quota_of_before_a_resize_is_not_put_back(kernel):
    kernel.apply(a=Share(100 * MS, 150 * MS))
    kernel.apply(a=Share(180 * MS, 180 * MS))
    assert "pod/a" not in {str(Path(file).parent) for file in kernel.noted()}
    kernel.start()
    kernel.apply(a=Share(180 * MS, 200 * MS))
    kernel.apply(a=Share(180 * MS, 180 * MS))
    assert kernel.get("pod/a", "quota") == 180 * MS


@pytest.mark.parametrize("raised", [150, 180])
def test_quotas_of_a_resize_while_stopped_are_original(kernel, monkeypatch, raised):
    monkeypatch.setattr(kubepods, "is_a_pods", lambda folder: folder.endswith("/pod"))
    kernel.apply(a=Share(100 * MS, 150 * MS))
    kernel.set("pod", "quota", 220 * MS)
    kernel.set("pod/a", "quota", 120 * MS)
    kernel.start()
    kernel.apply(a=Share(120 * MS, raised * MS))
    assert kernel.get("pod", "quota") == (100 + raised) * MS + 1
    restored(kernel.journal_path, "", kernel.version)
    assert (kernel.get("pod", "quota"), kernel.get("pod/a", "quota")) == (220 * MS, 120 * MS)


def test_pods_quota_bears_containers_own_in_a_resize(kernel):
    kernel.apply(a=Share(100 * MS, 400 * MS), b=Share(100 * MS))
    kernel.apply(a=Share(100 * MS, 100 * MS), b=Share(350 * MS))
    assert kernel.get("pod", "quota") == 350 * MS
    kernel.write(str(kernel.file("pod/b", "quota")), "350000 100000" if kernel.version == 2 else "350000")
    assert kernel.noted() == {}


def test_pods_new_quota_is_no_original_value_to_restore(kernel):
    kernel.apply(a=Share(100 * MS, 400 * MS))
    kernel.apply(a=Share(300 * MS, 300 * MS))
    kernel.apply(a=Share(300 * MS, 500 * MS))
    kernel.apply(a=Share(300 * MS, 300 * MS))
    assert (kernel.get("pod", "quota"), kernel.noted()) == (300 * MS, {})


def test_raise_of_a_pod_without_containers_ends(kernel):
    kernel.apply(a=Share(100 * MS, 400 * MS))
    kernel.set("pod/a", "quota", 100 * MS)
    assert kernel.apply() == ("pod quota 200000",)


class TestKubeletsWrite:
    """The kubelet reads a pod's quota, and writes a larger one before the containers' quotas."""

    def test_pods_quota_is_shown_before_containers_rise(self, kernel):
        raised = {"a": Share(100 * MS, 300 * MS), "b": Share(100 * MS)}
        kernel.apply_once(**raised)
        assert kernel.get("pod", "quota") == 400 * MS + 1
        assert kernel.get("pod/a", "quota") == (200 if kernel.version == 1 else 300) * MS
        kernel.now += SHOWN_S
        kernel.apply_once(**raised)
        assert kernel.get("pod/a", "quota") == 300 * MS

    def test_second_raise_waits_too(self, kernel):
        kernel.apply(a=Share(100 * MS, 150 * MS))
        raised = {"a": Share(100 * MS, 300 * MS), "b": Share(100 * MS)}
        kernel.apply_once(**raised)
        kernel.now += SHOWN_S / 2
        kernel.apply_once(**raised)
        assert kernel.get("pod/a", "quota") == (250 * MS + 1 if kernel.version == 1 else 300 * MS)

    def test_no_raise_where_pods_quota_is_no_sum(self, kernel):
        kernel.set("pod", "quota", 170 * MS)
        kernel.apply(a=Share(100 * MS, 150 * MS))
        assert kernel.get("pod/a", "quota") == (100 if kernel.version == 1 else 150) * MS

    def test_no_raise_while_a_container_may_get_its_first_limit(self, kernel):
        kernel.file("pod", "quota").write_text("-1\n" if kernel.version == 1 else "max 100000\n")
        kernel.apply(a=Share(100 * MS, 150 * MS), b=Share(0))
        assert kernel.get("pod/a", "quota") == (100 if kernel.version == 1 else 150) * MS

    def test_burst_leaves_room_where_pods_quota_is_no_sum(self, kernel):
        kernel.set("pod", "quota", 170 * MS)
        kernel.apply(a=Share(100 * MS, burst=100 * MS), b=Share(100 * MS, burst=50 * MS))
        assert kernel.get("pod", "burst") == 100 * MS

    @pytest.mark.parametrize("quota", [300 * MS, 150 * MS, 110_100])
    def test_raised_pod_has_a_quota_that_no_kubelet_writes(self, kernel, quota):
        kernel.apply(a=Share(100 * MS, quota))
        assert kernel.get("pod", "quota") % 10 != 0


class Quotas:
    """The quotas of the imitated kernel as the kubelet and the runtime write them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def get(self, path: str) -> int:
        return self._kernel.get(path, "quota")

    def set(self, path: str, quota: int) -> None:
        text = str(quota) if self._kernel.version == 1 else f"{quota} 100000"
        self._kernel.write(str(self._kernel.file(path, "quota")), text)


LATER = pytest.mark.tier("test")


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=LATER) for seed in range(3, 12))])
def test_kubelets_resize_is_never_refused_beside_raises(kernel, seed):
    owns = {"pod/a": 100 * MS, "pod/b": 100 * MS}
    resizing.play(resizing.Pod("pod", Quotas(kernel), kernel.bandwidths, owns), seed)


def test_what_somebody_resets_is_put_right(kernel):
    kernel.apply(a=Share(100 * MS, burst=50 * MS))
    kernel.set("pod/a", "burst", 0)
    assert kernel.apply(a=Share(100 * MS, burst=50 * MS)) == ("pod/a burst 50000",)


def test_an_unwanted_burst_leaves_the_pod_as_before(kernel):
    kernel.apply(a=Share(100 * MS, burst=50 * MS))
    kernel.apply(b=Share(100 * MS))
    assert kernel.get("pod", "burst") == 0


def test_an_unwanted_burst_is_restored_on_the_container(kernel):
    kernel.set("pod/b", "burst", 10 * MS)
    kernel.apply(a=Share(100 * MS, burst=50 * MS), b=Share(100 * MS, burst=50 * MS))
    kernel.start()
    assert kernel.apply(a=Share(100 * MS), b=Share(100 * MS)) != ()
    assert [kernel.get(path, "burst") for path in ("pod/a", "pod/b", "pod")] == [0, 10 * MS, 0]
    assert kernel.noted() == {}


def test_a_kernel_without_bursts_has_only_quotas(tmp_path, monkeypatch):
    old = Kernel(tmp_path, 1)
    old.make("pod", 100 * MS, None)
    old.make("pod/a", 100 * MS, None)
    monkeypatch.setattr(files, "write", old.write)
    assert old.apply(a=Share(100 * MS, 120 * MS, 50 * MS)) == ("pod quota 120001", "pod/a quota 120000")


def test_what_is_gone_is_left_out(kernel):
    assert kernel.apply(gone=Share(100 * MS, burst=50 * MS)) == ()
    assert kernel.bandwidths.apply(PodBandwidth("nowhere", {"nowhere/a": Share()}), 0.0).done == ()


def test_a_refusal_is_returned_and_the_rest_is_written(kernel, monkeypatch):
    def refuse(path: str, text: str) -> bool:
        if "pod/a" in path:
            raise KernelInterfaceError(path, f"write {text!r} to", "Permission denied")
        return bool(kernel.write(path, text))

    monkeypatch.setattr(files, "write", refuse)
    shares = {"pod/a": Share(100 * MS, burst=50 * MS), "pod/b": Share(100 * MS, burst=10 * MS)}
    found = kernel.bandwidths.apply(PodBandwidth("pod", shares), 0.0)
    assert [failure.path for failure in found.failures] == [str(kernel.file("pod/a", "burst"))]
    assert kernel.get("pod/b", "burst") == 10 * MS
    assert str(kernel.file("pod/a", "burst")) not in kernel.noted()


def test_a_file_that_cannot_be_read_is_a_refusal(kernel, monkeypatch):
    def unreadable(path: str) -> str:
        raise KernelInterfaceError(path, "read", "Input/output error")

    monkeypatch.setattr(files, "read", unreadable)
    assert len(kernel.bandwidths.apply(PodBandwidth("pod", {"pod/a": Share()}), 0.0).failures) == 2


@pytest.mark.parametrize("survives", range(6))
def test_killed_before_a_write_restore_changes_no_file(kernel, monkeypatch, survives):
    before = {file: file.read_text() for file in sorted(kernel.root.rglob("cpu.*"))}
    left = [survives]

    def write(path: str, text: str) -> bool:
        if not left[0]:
            raise KeyboardInterrupt  # the journal has the entry, the file not yet the value
        left[0] -= 1
        return bool(kernel.write(path, text))

    monkeypatch.setattr(files, "write", write)
    shares = {"pod/a": Share(100 * MS, 150 * MS, 50 * MS), "pod/b": Share(100 * MS, 300 * MS, 100 * MS)}
    with pytest.raises(KeyboardInterrupt):
        kernel.bandwidths.apply(PodBandwidth("pod", shares), 0.0)
    monkeypatch.setattr(files, "write", kernel.write)
    done = restored(kernel.journal_path, "/", kernel.version)
    assert done.refused == ()
    assert {file: file.read_text() for file in before} == before
    assert kernel.noted() == {}


class TestVirtualMachines:
    """A VM lives in the pod's cgroup; no cgroup of its containers is written."""

    def test_a_quota_holds_where_the_kubelet_sets_none(self, kernel):
        kernel.make("vm", -1)
        kernel.bandwidths.apply(PodBandwidth("vm", quota=200 * MS, burst=50 * MS), 0.0)
        assert kernel.file("vm", "quota").read_text().split()[0] == "200000"
        assert kernel.file("vm", "burst").read_text().strip() == "50000"
        kernel.bandwidths.apply(PodBandwidth("vm"), 0.0)
        assert kernel.file("vm", "quota").read_text().split()[0] in ("max", "-1")
        assert kernel.file("vm", "burst").read_text().strip() == "0"

    def test_the_kubelets_own_quota_is_left_and_bounds_the_burst(self, kernel):
        kernel.make("vm", 100 * MS)
        kernel.bandwidths.apply(PodBandwidth("vm", quota=200 * MS, burst=150 * MS), 0.0)
        assert kernel.file("vm", "quota").read_text().split()[0] == "100000"
        assert kernel.file("vm", "burst").read_text().strip() == "100000"


def unlimited(kernel: Kernel, path: str) -> None:
    kernel.file(path, "quota").write_text("-1\n" if kernel.version == 1 else "max 100000\n")


def test_a_first_quota_is_set_and_removed(kernel):
    unlimited(kernel, "pod")
    unlimited(kernel, "pod/a")
    kernel.apply(a=Share(quota=50 * MS, is_changed=True))
    assert [kernel.get(path, "quota") for path in ("pod/a", "pod")] == [50 * MS, -1]
    kernel.apply(a=Share(is_changed=True))
    assert kernel.get("pod/a", "quota") == -1
    assert kernel.noted() == {}


def test_a_lowered_quota_changes_no_pods_quota(kernel):
    kernel.apply(a=Share(100 * MS, 50 * MS, is_changed=True))
    assert [kernel.get(path, "quota") for path in ("pod/a", "pod")] == [50 * MS, 200 * MS]


def test_on_v1_a_first_quota_needs_an_unlimited_pod(kernel):
    unlimited(kernel, "pod/a")
    kernel.apply(a=Share(quota=50 * MS, is_changed=True))
    assert kernel.get("pod/a", "quota") == (-1 if kernel.version == 1 else 50 * MS)
