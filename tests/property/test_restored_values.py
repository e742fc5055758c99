"""DESIGN 3, invariant 9: after any events, `restore` ends at the kubelet's values, or names unknown ones.

A state machine writes everything that the daemon writes to pods, containers and the cgroups above them, on a simulated
tree. In between the process is killed, the state folder is deleted, its journal damaged, and pods are resized. Pods end
and come again at the same paths, and the machine restarts.
"""

import shutil
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from nri_coloc.core import cpuset
from nri_coloc.core.knobs import Capability, Controller, Knobs
from nri_coloc.host import cgroup_layout, files, knob_files, restoration
from nri_coloc.host.bandwidth_files import SHOWN_S, PodBandwidth, Share
from nri_coloc.host.cgroups import CgroupWriter
from nri_coloc.host.journal import Journal
from nri_coloc.host.journal_file import BOOT
from nri_coloc.host.knob_files import Target
from nri_coloc.host.marks import Marks
from nri_coloc.sim.cgroup_tree import CgroupTree
from tests.rig import attributes, examples

QOS = ("kubepods/burstable", "kubepods/besteffort")
PODS = ("kubepods/burstable/podweb", "kubepods/besteffort/podbatch")
APPS = tuple(f"{pod}/app" for pod in PODS)
LIMITED = PODS[0]
"""The pod with a quota of the kubelet's."""

OWN_QUOTA, KUBELETS_SCORE = 50_000, 900
MIB = 1 << 20

PLACES = st.sampled_from((*PODS, *APPS))
CPUS = st.sampled_from(("0", "2-5", "6-7", "0-7"))
AMOUNTS = st.sampled_from((1 * MIB, 64 * MIB, 512 * MIB))
SHARES = st.sampled_from((2, 512, 1024, 4096))


class NoMarks(Marks):
    """Replace the marks of a kernel before 5.7, which has none."""

    def _set(self, _folder: str, _name: str, _text: bytes) -> bool:
        self.refusal = "Operation not supported"
        return True

    def _remove(self, _folder: str, _name: str) -> None:
        self.refusal = "Operation not supported"


class Killed(BaseException):
    """The end of the process."""


class RestoreMachine(RuleBasedStateMachine):
    """Run one node, and one daemon process after another."""

    marks: type[Marks] = Marks

    @initialize(version=st.sampled_from((1, 2)), shares=SHARES)
    def boot(self, version: int, shares: int) -> None:
        self.folder = ExitStack()
        self.root = self.folder.enter_context(attributes.folder())
        self.state = self.root / "state"
        self.version = version
        self.boots = 0
        self._come_up(shares)
        self.start()

    def _come_up(self, shares: int) -> None:
        """Let the machine start: its cgroups are new, and the boot has another id."""
        self.boots += 1
        for folder in ("sys", "proc"):
            shutil.rmtree(self.root / folder, ignore_errors=True)
        boot = Path(f"{self.root}{BOOT}")
        boot.parent.mkdir(parents=True)
        boot.write_text(f"{self.boots}\n")
        self.tree = CgroupTree(self.root, self.version, 0xFF, 1)
        self.tree.plant()
        for path in (*PODS, *APPS):
            self.tree.make(path)
        for pod in PODS:
            self.tree.write(pod, *self.tree.weight(shares))
        self.quotas = dict.fromkeys(APPS, OWN_QUOTA)
        self.tree.write(LIMITED, *self._quota(OWN_QUOTA))
        for number, app in enumerate(APPS, 7):
            self.tree.write(app, *self._quota(OWN_QUOTA))
            self._process(app, number)
        self.layout = cgroup_layout.detect(str(self.root))
        self.can = Capability(cgroup=self.version, files=cgroup_layout.capabilities(self.layout, PODS[0]))
        self.kubelets = self.shown()
        self.resized: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.restore()
            self.folder.close()

    def _process(self, path: str, pid: int) -> None:
        for name in ("cgroup.procs", "tasks" if self.version == 1 else "cgroup.threads"):
            for mount in self.layout_mounts():
                (mount / path / name).write_text(f"{pid}\n")
        folder = self.root / f"proc/{pid}"
        folder.mkdir(parents=True)
        (folder / "oom_score_adj").write_text(f"{KUBELETS_SCORE}\n")

    def layout_mounts(self) -> Iterable[Path]:
        return map(Path, cgroup_layout.detect(str(self.root)).mounts)

    def _quota(self, quota: int) -> tuple[str, str]:
        return ("cpu.cfs_quota_us", str(quota)) if self.version == 1 else ("cpu.max", f"{quota} 100000")

    def shown(self) -> dict[str, str]:
        """Return the text of every file that we ever write, by its name on the host."""
        found = {}
        for mount in self.layout_mounts():
            for path in (*QOS, *PODS, *APPS):
                for name in knob_files._READERS.keys() | {"cpuset.cpus", "cpuset.mems"}:
                    file = mount / path / name
                    if file.exists():
                        found[str(file.resolve())] = file.read_text().strip()
        for score in self.root.glob("proc/*/oom_score_adj"):
            found[str(score)] = score.read_text().strip()
        return found

    # ---- the daemon's process ----

    @rule()
    def start(self) -> None:
        """Start again, as after a kill: only the files of the previous process are left."""
        earlier = hasattr(self, "journal")
        self.state.mkdir(exist_ok=True)
        self.journal = Journal(
            str(self.state / "restore.jsonl"), str(self.root), self.marks(self.layout.mounts)
        )
        self.journal.begin()
        self.writer = CgroupWriter(self.layout, self.journal, str(self.root), lambda _: None)
        if earlier:
            self.writer.know_earlier()

    @rule()
    def delete_the_state_folder(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)

    @rule()
    def keep_the_state_folder(self) -> None:
        """Do the housekeeping that the daemon does every few seconds."""
        self.state.mkdir(exist_ok=True)
        self.journal.look()
        self.writer.tidy()

    @rule(by=st.integers(1, 200))
    def cut_the_journal_off(self, by: int) -> None:
        """Cut the journal off within a line, as a full disk does."""
        path = self.state / "restore.jsonl"
        rest = path.read_bytes()[:-by].rstrip(b"\n") if path.exists() else b""
        if rest:
            path.write_bytes(rest[:-1])

    @rule()
    def write_into_the_journal(self) -> None:
        if self.state.exists():
            with (self.state / "restore.jsonl").open("ab") as file:
                file.write(b"\nhello\n")

    # ---- the daemon's writes ----

    @rule(path=PLACES, cpus=CPUS, shares=SHARES, weight=st.sampled_from((None, 10, 100, 500)))
    def place(self, path: str, cpus: str, shares: int, weight: int | None) -> None:
        shares = 2 if path in PODS else shares
        orders = Knobs(shares=shares, io_weight=weight, memory_limit=512 * MIB if path in APPS else None)
        values = knob_files.all_but_cpuset(orders, self.can)
        target = Target(path, cpuset.parse(cpus), values, journalled=True, inherited=path in PODS)
        assert self.writer.apply(target).failures == ()

    @rule(path=PLACES, kept=st.sampled_from(((), ("cpuset.cpus",))))
    def give_back(self, path: str, kept: tuple[str, ...]) -> None:
        keep = frozenset(kept)
        self.writer.put_back(path, keep, () if path in PODS else None)

    @rule(pod=st.sampled_from(PODS), amount=AMOUNTS)
    def bound_memory(self, pod: str, amount: int) -> None:
        self.writer.bound(pod, knob_files.memory_bounds(amount // 2, amount, self.version))

    @rule(pod=st.sampled_from(PODS))
    def unbound_memory(self, pod: str) -> None:
        self.writer.unbound(pod)

    @precondition(lambda self: self.version == 2)
    @rule(path=st.sampled_from((*QOS, *PODS)), amount=st.sampled_from((0, MIB, 64 * MIB)))
    def protect_memory(self, path: str, amount: int) -> None:
        self.writer.protect(path, "memory.low", amount)
        self.writer.protect(path, "memory.min", amount // 2)

    @rule(which=st.sampled_from((0, 1)), raised=st.sampled_from((None, 100, 150, 300)))
    def raise_a_quota(self, which: int, raised: int | None) -> None:
        """Raise a container's quota to a percentage of its own; None ends the raise."""
        own = self.quotas[APPS[which]]
        quota = None if raised is None else own * raised // 100
        share = Share(own, quota, None if quota is None else quota // 2, is_changed=True)
        for now in (0.0, SHOWN_S):  # on cgroup v1 the pod's quota rises first
            self.writer.bandwidth(PodBandwidth(PODS[which], {APPS[which]: share}), now)

    @rule(which=st.sampled_from((0, 1)), score=st.sampled_from((-500, 0, 1000)))
    def score(self, which: int, score: int) -> None:
        self.writer.score(APPS[which], [7 + which], score, KUBELETS_SCORE)

    @rule(path=st.sampled_from(APPS), shares=SHARES)
    def push(self, path: str, shares: int) -> None:
        """Have the runtime write a container's file, as after a push of ours."""
        self.writer.remember(path, Knobs(shares=shares))
        self.tree.write(path, *self.tree.weight(shares))
        self.writer.arrived()

    # ---- the kubelet ----

    @rule(pod=st.sampled_from(PODS), shares=SHARES)
    def resize(self, pod: str, shares: int) -> None:
        """Resize a pod whose weight is ours, and update the runtime, as the kubelet does."""
        self.place(pod, "2-5", 2, None)
        self._kubelet_writes(pod, *self.tree.weight(shares))
        self.writer.resized(pod, Knobs(shares=shares))
        self.writer.look_again()

    @rule(pod=st.sampled_from(PODS), milli=st.sampled_from((500, 1000, 4000)), starts=st.booleans())
    def resize_while_stopped(self, pod: str, milli: int, *, starts: bool) -> None:
        """Resize a pod and its container between two processes, or the pod before `restore` and its container after.

        The quota of a container is restored from the runtime's spec (`restore.spec_restoration`).
        """
        quota, app = milli * 100, APPS[PODS.index(pod)]
        self._kubelet_writes(pod, *self.tree.weight(milli * 1024 // 1000))
        if pod == LIMITED:
            self._kubelet_writes(pod, *self._quota(quota))
        if not starts:
            self.restore()
        self._kubelet_writes(app, *self._quota(quota))
        self.quotas[app] = quota
        if starts:
            self.start()
            self.raise_a_quota(PODS.index(pod), None)

    @rule(
        pod=st.sampled_from(PODS),
        amount=st.sampled_from((3 * MIB, 96 * MIB, 768 * MIB)),
        starts=st.booleans(),
    )
    def write_memory_while_stopped(self, pod: str, amount: int, *, starts: bool) -> None:
        """Change a pod's memory limit and protections between two processes, or before `restore`.

        No amount is one of ours.
        """
        for name in (
            ("memory.low", "memory.min", "memory.max") if self.version == 2 else ("memory.limit_in_bytes",)
        ):
            self._kubelet_writes(pod, name, str(amount), "memory")
        if starts:
            self.start()
            self.bound_memory(pod, 2 * amount)
            if self.version == 2:
                self.protect_memory(pod, MIB)
                self.protect_memory(pod, 0)
        else:
            self.restore()

    @rule(pod=st.sampled_from(PODS), amount=AMOUNTS, writes=st.integers(0, 3), last=st.booleans())
    def die_in_a_write(self, pod: str, amount: int, writes: int, *, last: bool) -> None:
        """Kill the process before a write to a file, or right after it."""
        write, left = files.write, writes

        def mortal(path: str, text: str) -> bool:
            nonlocal left
            if not left:
                if last:
                    write(path, text)
                raise Killed
            left -= 1
            return write(path, text)

        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(files, "write", mortal)
            self.bound_memory(pod, amount)
            if self.version == 2:
                self.protect_memory(pod, amount)
            self.raise_a_quota(PODS.index(pod), 150)
            self.place(pod, "2-5", 2, 10)
        self.start()

    def _kubelet_writes(self, path: str, name: str, text: str, controller: Controller = "cpu") -> None:
        self.tree.write(path, name, text)
        file = str((Path(self.layout.folder(controller, path) or "") / name).resolve())
        self.kubelets[file] = text
        self.resized.add(file)

    @rule(pod=st.sampled_from(PODS), running=st.booleans())
    def come_again(self, pod: str, *, running: bool) -> None:
        """Run a static pod again, beside the daemon or without it: its path and its values are the same as before."""
        app = APPS[PODS.index(pod)]
        for path in (app, pod):
            self.tree.remove(path)
        if running:
            self.writer.tidy()
        for path in (pod, app):
            self.tree.make(path)
        number = 7 + APPS.index(app)
        process = self.root / f"proc/{number}"
        shutil.rmtree(process)
        self._process(app, number)
        self.kubelets[str(process / "oom_score_adj")] = str(KUBELETS_SCORE)
        for file, text in self.kubelets.items():
            if f"/{pod}/" in file:
                Path(file).write_text(f"{text}\n")
        if not running:
            self.start()

    @rule(shares=SHARES)
    def reboot(self, shares: int) -> None:
        """Restart the machine: the pods have the same paths, and no entry of the journal counts."""
        self._come_up(shares)
        self.start()

    # ---- invariants ----

    @rule()
    def restore(self) -> None:
        """Restore everything with the daemon stopped, and start it again."""
        self.state.mkdir(exist_ok=True)
        path = str(self.state / "restore.jsonl")
        journal = Journal(path, str(self.root), self.marks(self.layout.mounts))
        journal.load()
        lacking = journal.lacking or ("it was lost" if journal.may_lack else "")
        done = restoration.restore(journal, str(self.root), self.version)
        assert done.refused == ()
        wrong = {file for file, text in self.shown().items() if not self.is_kubelets(file, text)}
        assert wrong <= self.unknown(done, lacking)
        self.after_restore(wrong)
        self.start()

    def is_kubelets(self, file: str, text: str) -> bool:
        return text.removeprefix("default ") == self.kubelets[file].removeprefix("default ")

    def unknown(self, _done: restoration.Restored, _lacking: str) -> set[str]:
        return set()

    def after_restore(self, wrong: set[str]) -> None:
        assert not wrong


class OldKernelMachine(RestoreMachine):
    """Run the same without marks.

    `restore` names each value that is not the kubelet's, or the journal says that it lacks some.
    """

    marks = NoMarks

    def unknown(self, done: restoration.Restored, lacking: str) -> set[str]:
        if not lacking:
            return {str(self.root) + file for file, _ in done.unknown}
        restored = {str(Path(f"{self.root}{file}").resolve()) for file in done.done}
        lost = self.shown().keys() - restored
        # a pod without an entry keeps our CPUs, and they bound its containers' CPUs
        bounded = {
            str(cpus)
            for cpus in map(Path, restored)
            if cpus.name == "cpuset.cpus" and str(cpus.parents[1] / cpus.name) in lost
        }
        # a journal that lost its end may hold the value before a resize
        return lost | bounded | self.resized

    def is_kubelets(self, file: str, text: str) -> bool:
        """Return whether a value is the kubelet's, or a container's own quota, which its spec has in any case."""
        own = {
            str((Path(self.layout.folder("cpu", app) or "") / name).resolve()): quota
            for app in APPS
            for name, quota in [self._quota(self.quotas[app])]
        }
        return super().is_kubelets(file, text) or own.get(file) == text

    def after_restore(self, wrong: set[str]) -> None:
        """Take unknown values for the kubelet's from here on."""
        shown = self.shown()
        self.kubelets |= {file: shown[file] for file in wrong}


TestRestore = RestoreMachine.TestCase
TestRestore.settings = settings(max_examples=examples.times(0.4), stateful_step_count=20)
TestOldKernel = OldKernelMachine.TestCase
TestOldKernel.settings = settings(max_examples=examples.times(0.4), stateful_step_count=20)
