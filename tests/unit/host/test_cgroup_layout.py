"""host/cgroup_layout.py: the hierarchies are found, and the path of each pod and container in them."""

from pathlib import Path

import pytest

from nri_coloc.host import cgroup_layout
from nri_coloc.host.cgroup_layout import CgroupLayout

ID = "0123abcd"
POD = "pod11111111_2222_3333_4444_555555555555"
SCOPE = f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-{POD}.slice/cri-containerd-{ID}.scope"
V2 = CgroupLayout(version=2, cpu="/c", cpuset="/c", memory="/c", blkio="/c", unified="/c")
HYBRID = CgroupLayout(
    version=1, cpu="/c/cpu", cpuset="/c/cpuset", memory="/c/memory", blkio="/c/blkio", unified="/c/unified"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    return tmp_path


def mount(root: Path, *names: str) -> None:
    """Make v1 mounts; "unified" becomes a v2 hierarchy."""
    for name in names:
        (root / "sys/fs/cgroup" / name).mkdir()
        mark = "cgroup.controllers" if name == "unified" else "tasks"
        (root / "sys/fs/cgroup" / name / mark).touch()


class TestDetect:
    def test_this_machines_layout_names_folders_that_exist(self):
        layout = cgroup_layout.detect("/")
        named = {layout.cpu, layout.cpuset, layout.memory, layout.blkio, layout.unified} - {None}
        assert all(Path(folder or "").is_dir() for folder in named)

    def test_no_cgroup_tree_is_a_layout_without_folders(self, tmp_path):
        assert cgroup_layout.detect(str(tmp_path)) == CgroupLayout(2)

    def test_on_version_two_every_controller_shares_the_root(self, root):
        (root / "sys/fs/cgroup/cgroup.controllers").touch()
        folder = f"{root}/sys/fs/cgroup"
        assert cgroup_layout.detect(f"{root}/") == CgroupLayout(2, *(6 * [folder]))

    def test_version_one_has_a_folder_for_each(self, root):
        mount(root, "cpu", "cpuacct", "cpuset", "memory", "blkio", "pids")
        layout = cgroup_layout.detect(str(root))
        assert layout.version == 1
        assert layout.cpuset == f"{root}/sys/fs/cgroup/cpuset"
        assert layout.unified is None

    def test_controllers_that_are_mounted_together_are_found(self, root):
        mount(root, "cpu,cpuacct", "cpuset", "net_cls,net_prio")
        layout = cgroup_layout.detect(str(root))
        assert layout.cpu == f"{root}/sys/fs/cgroup/cpu,cpuacct"
        assert layout.memory is None

    @pytest.mark.parametrize("mounted", ["cpuacct", "cpu,cpuacct"])
    def test_cpu_time_is_counted_where_cpuacct_is_mounted(self, root, mounted):
        mount(root, "memory", mounted)
        assert cgroup_layout.detect(str(root)).cpuacct == f"{root}/sys/fs/cgroup/{mounted}"

    def test_a_link_beside_a_common_mount_is_taken(self, root):
        mount(root, "cpu,cpuacct")
        (root / "sys/fs/cgroup/cpu").symlink_to("cpu,cpuacct")
        assert cgroup_layout.detect(str(root)).cpu == f"{root}/sys/fs/cgroup/cpu"

    def test_a_hybrid_machine_is_version_one_with_a_unified_folder(self, root):
        mount(root, "cpu", "unified")
        layout = cgroup_layout.detect(str(root))
        assert (layout.version, layout.unified) == (1, f"{root}/sys/fs/cgroup/unified")

    def test_a_unified_mount_alone_is_version_two(self, root):
        mount(root, "unified", "systemd")
        layout = cgroup_layout.detect(str(root))
        assert (layout.version, layout.memory) == (2, f"{root}/sys/fs/cgroup/unified")

    def test_a_file_with_a_controllers_name_is_no_mount(self, root):
        mount(root, "memory")
        (root / "sys/fs/cgroup/cpu").touch()
        assert cgroup_layout.detect(str(root)).cpu is None


class TestBeside:
    @pytest.fixture
    def layout(self, root):
        folder = root / "sys/fs/cgroup"
        (folder / "cgroup.controllers").touch()
        for path in (
            "system.slice/sshd.service",
            "user.slice",
            "kubelet.slice/kubelet-kubepods.slice/x",
            "kubelet.slice/own",
        ):
            (folder / path).mkdir(parents=True)
        return cgroup_layout.detect(str(root))

    def test_it_is_the_others_at_the_same_level(self, layout):
        assert cgroup_layout.beside(layout, "kubelet.slice") == ("system.slice", "user.slice")

    def test_and_at_each_level_above(self, layout):
        found = cgroup_layout.beside(layout, "kubelet.slice/kubelet-kubepods.slice")
        assert found == ("system.slice", "user.slice", "kubelet.slice/own")

    def test_without_a_hierarchy_there_is_none(self):
        assert cgroup_layout.beside(CgroupLayout(2), "kubepods") == ()


class TestFolder:
    def test_a_leading_slash_does_not_lose_the_hierarchy(self):
        assert HYBRID.folder("cpu", "/kubepods/podU") == "/c/cpu/kubepods/podU"

    def test_the_root_is_the_hierarchy_itself(self):
        assert HYBRID.folder("memory", "") == "/c/memory"

    def test_an_absent_controller_has_none(self):
        assert CgroupLayout(1, cpu="/c/cpu").folder("unified", "x") is None

    def test_a_path_that_leaves_is_refused(self):
        with pytest.raises(ValueError, match="lead out"):
            V2.folder("cpu", "a/../../b")


class TestCapabilities:
    def test_on_version_two_they_are_the_files_without_the_child_cgroups(self, root):
        base = root / "sys/fs/cgroup"
        (base / "cgroup.controllers").touch()
        (base / "kubepods/pod1.slice").mkdir(parents=True)
        (base / "kubepods/cpu.max").touch()
        layout = cgroup_layout.detect(str(root))
        assert cgroup_layout.capabilities(layout, "/kubepods") == {"cpu.max"}

    def test_on_version_one_they_are_the_union_over_the_controllers(self, root):
        mount(root, "cpu", "memory", "unified")
        for name in ("cpu/kubepods/cpu.shares", "memory/kubepods/tasks", "unified/kubepods/cpu.pressure"):
            (root / "sys/fs/cgroup" / name).parent.mkdir()
            (root / "sys/fs/cgroup" / name).touch()
        layout = cgroup_layout.detect(str(root))
        assert cgroup_layout.capabilities(layout, "kubepods") == {"cpu.shares", "tasks"}

    def test_a_cgroup_that_does_not_exist_has_none(self, root):
        mount(root, "cpu")
        assert cgroup_layout.capabilities(cgroup_layout.detect(str(root)), "gone") == frozenset()

    def test_without_hierarchies_there_are_none(self):
        assert cgroup_layout.capabilities(CgroupLayout(2), "any") == frozenset()


class TestContainerPath:
    @pytest.mark.parametrize(
        ("notation", "path"),
        [
            (f"/kubepods/besteffort/{POD}/{ID}", f"kubepods/besteffort/{POD}/{ID}"),
            (f"kubepods//./{POD}/{ID}/", f"kubepods/{POD}/{ID}"),
            (f"kubepods-besteffort-{POD}.slice:cri-containerd:{ID}", SCOPE),
            (f"system.slice:docker:{ID}", f"system.slice/docker-{ID}.scope"),
            (f":cri-containerd:{ID}", f"system.slice/cri-containerd-{ID}.scope"),
            (f"-.slice:cri-containerd:{ID}", f"cri-containerd-{ID}.scope"),
            ("a.slice:x:a-b.slice", "a.slice/a-b.slice"),
            ("a\\x2db.slice:cri:1", "a\\x2db.slice/cri-1.scope"),
            ("/k8s.io/a:b:c", "k8s.io/a:b:c"),
        ],
        ids=[
            "cgroupfs",
            "untidy",
            "systemd",
            "one-level",
            "no-slice",
            "root-slice",
            "slice-as-unit",
            "escaped",
            "colons-below-a-slash",
        ],
    )  # fmt: skip - one id a line would be longer than the table
    def test_both_drivers_notations_become_a_path(self, notation, path):
        assert cgroup_layout.container_path(notation) == path

    @pytest.mark.parametrize(
        "notation",
        [
            "",
            "/",
            "/.",
            "/kubepods/../etc",
            "..",
            "/a\0b",
            "a.slice:b",
            "a.slice:b:c:d",
            "a.slice:b:",
            "a:b:c",
            ".slice:b:c",
            "-a.slice:b:c",
            "a--b.slice:b:c",
            "a-.slice:b:c",
            "a.slice:b:x/../../y",
            "-:b:c",
            "x" * 256,
            "a/" * 2048,
            "a.slice:b:" + "c" * 255,
            "a.slice:b:c\0",
            "\ud800",
        ],
        ids=range(21),
    )  # fmt: skip - one line each would hide the table
    def test_what_cannot_be_a_containers_cgroup_is_refused(self, notation):
        with pytest.raises(ValueError):
            cgroup_layout.container_path(notation)


class TestPodPath:
    @pytest.mark.parametrize(
        ("parent", "path"),
        [
            (f"/kubepods/besteffort/{POD}", f"kubepods/besteffort/{POD}"),
            (f"kubepods-besteffort-{POD}.slice", SCOPE.rpartition("/")[0]),
            (
                f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-{POD}.slice",
                SCOPE.rpartition("/")[0],
            ),
            ("kubepods.slice", "kubepods.slice"),
            ("-.slice", ""),
            ("/", ""),
            ("", ""),
        ],
        ids=["cgroupfs", "slice", "expanded-by-the-kubelet", "top", "root-slice", "root", "none"],
    )  # fmt: skip - one line each would hide the table
    def test_both_drivers_notations_become_a_path(self, parent, path):
        assert cgroup_layout.pod_path(parent) == path

    @pytest.mark.parametrize("parent", ["a/../b", "a\0", "a--b.slice", ".slice"])
    def test_what_cannot_be_a_pods_cgroup_is_refused(self, parent):
        with pytest.raises(ValueError):
            cgroup_layout.pod_path(parent)


class TestKubepods:
    @staticmethod
    def search(tmp_path: Path, *paths: str) -> tuple[str, ...]:
        for path in paths:
            (tmp_path / path).mkdir(parents=True, exist_ok=True)
        return cgroup_layout.only_kubepods(CgroupLayout(2, cpu=str(tmp_path), cpuset=str(tmp_path)))

    def test_cgroup_within_kubepods_does_not_count(self, tmp_path):
        assert self.search(tmp_path, "kubepods/pod1/kubepods", "kubepods/kubepods") == ("kubepods",)

    @pytest.mark.parametrize("other", ["kubepods.slice", "a/kubepods", "a.slice/a-kubepods.slice"])
    def test_several_kubepods_are_named_and_none_counts(self, tmp_path, other):
        assert self.search(tmp_path, "kubepods/pod1", other) == ()
        words = cgroup_layout.ambiguity(CgroupLayout(2, cpu=str(tmp_path), cpuset=str(tmp_path)))
        assert words.startswith(f"2 cgroups may be the cgroup of all pods (/kubepods, /{other}): ")

    def test_only_kubepods_is_no_ambiguity(self, tmp_path):
        self.search(tmp_path, "a/kubepods")
        assert cgroup_layout.ambiguity(CgroupLayout(2, cpu=str(tmp_path), cpuset=str(tmp_path))) == ""

    def test_a_few_of_many_kubepods_are_named(self, tmp_path):
        self.search(tmp_path, *(f"{number}/kubepods" for number in range(5)))
        words = cgroup_layout.ambiguity(CgroupLayout(2, cpu=str(tmp_path), cpuset=str(tmp_path)))
        assert words.startswith("5 cgroups may be")
        assert "/3/kubepods, …)" in words

    def test_search_ends_at_third_level(self, tmp_path):
        assert self.search(tmp_path, "a/b/kubepods") == ("a/b/kubepods",)
        assert self.search(tmp_path / "deeper", "a/b/c/kubepods") == ()

    def test_services_are_not_searched(self, tmp_path):
        assert self.search(tmp_path, "a.service/kubepods", "system.slice/b.scope/kubepods") == ()

    def test_search_of_one_level_is_bounded(self, tmp_path):
        crowd = [f"{number:02}" for number in range(64)]
        assert self.search(tmp_path, *crowd, "63/kubepods") == ("63/kubepods",)
        assert self.search(tmp_path, "64/x/kubepods") == ("63/kubepods",)
        (tmp_path / "63/kubepods").rmdir()
        (tmp_path / "64/kubepods").mkdir()
        assert self.search(tmp_path) == ()
