"""containerd's configuration file, for the two layouts that exist: version 2 (1.7) and version 3 (2.x).

Everything that containerd would keep in a place of its own is moved into the rig's folder. Why the
rest: `restrict_oom_score_adj`, because without CAP_SYS_RESOURCE every sandbox fails else (a machine of our own has it);
`disable_apparmor`, because the profile tools may be missing; empty CNI folders, because pods use the
machine's own network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from tests.rig import image

Version = Literal["1.7", "2"]
VERSIONS: Final[tuple[Version, ...]] = ("2", "1.7")
NEWEST: Final = VERSIONS[0]


@dataclass(frozen=True, slots=True)
class Options:
    """Hold the options that a test may change.

    `plugins`: programs that containerd itself launches: name such as `50-nri-coloc` -> the text of a program (a script
    with its `#!` line).
    `plugin_configs`: file name such as `50-nri-coloc.conf` -> its text.
    `blockio_classes`: the text of the file that names the runtime's blockio classes.
    """

    plugin_request_timeout: str = "2s"
    plugin_registration_timeout: str = "5s"
    plugins: Mapping[str, str] = field(default_factory=dict)
    plugin_configs: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: str = ""  # glob of the annotations that containerd copies to a pod's containers
    restrict_oom_score_adj: bool = True
    systemd_cgroup: bool = False
    blockio_classes: str = ""


def render(version: Version, folder: Path, runc: Path, options: Options) -> str:
    """Return the text of the whole configuration file."""
    layout = _VERSION_2 if version == "1.7" else _VERSION_3
    values = {
        "D": folder,
        "RUNC": runc,
        "PAUSE": image.PAUSE,
        "REQUEST_TIMEOUT": options.plugin_request_timeout,
        "POD_ANNOTATIONS": f'"{options.pod_annotations}"' if options.pod_annotations else "",
        "RESTRICT_OOM": str(options.restrict_oom_score_adj).lower(),
        "SYSTEMD": str(options.systemd_cgroup).lower(),
        "REGISTRATION_TIMEOUT": options.plugin_registration_timeout,
    }
    text = layout + _NRI + (_BLOCKIO if options.blockio_classes else "")
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


_VERSION_2: Final = """\
version = 2
root = "@D@/root"
state = "@D@/state"
[grpc]
  address = "@D@/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "@D@/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "@PAUSE@"
  restrict_oom_score_adj = @RESTRICT_OOM@
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "@D@/cni"
    conf_dir = "@D@/cniconf"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    pod_annotations = [@POD_ANNOTATIONS@]
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "@RUNC@"
      Root = "@D@/runc"
      SystemdCgroup = @SYSTEMD@
"""

_VERSION_3: Final = """\
version = 3
root = "@D@/root"
state = "@D@/state"
[grpc]
  address = "@D@/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
  path = "@D@/opt"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "@PAUSE@"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = @RESTRICT_OOM@
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["@D@/cni"]
    conf_dir = "@D@/cniconf"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    pod_annotations = [@POD_ANNOTATIONS@]
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "@RUNC@"
      Root = "@D@/runc"
      SystemdCgroup = @SYSTEMD@
"""

_NRI: Final = """\
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "@D@/nri.sock"
  plugin_path = "@D@/nriplugins"
  plugin_config_path = "@D@/nriconf"
  plugin_request_timeout = "@REQUEST_TIMEOUT@"
  plugin_registration_timeout = "@REGISTRATION_TIMEOUT@"
"""

BLOCKIO_CLASSES: Final = "blockio.yaml"

_BLOCKIO: Final = f"""\
[plugins."io.containerd.service.v1.tasks-service"]
  blockio_config_file = "@D@/{BLOCKIO_CLASSES}"
"""
