"""All that `restore` puts back, in the one order that works: kernel files by the journal, then the runtime's specs.

Pods' cgroups come first because on cgroup v1 a container's set must lie within its pod's. The journal keeps the
entries of containers whose specs could not be told, for another try.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from nri_coloc.actuation import journal
from nri_coloc.actuation import restoration as files
from nri_coloc.actuation.restoration import Restored
from nri_coloc.daemon import census
from nri_coloc.daemon.cri_side import CriSide
from nri_coloc.daemon.spec_restoration import SpecRestoration, SpecsRestored
from nri_coloc.errors import ColocError
from nri_coloc.knobs.originals import SPEC_FILES
from nri_coloc.sampling import cgroup_layout

JOURNAL: Final = "restore.jsonl"
"""In the state folder."""


@dataclass(frozen=True, slots=True)
class RuntimeAt:
    """Where the runtime is asked and told; `patience_s` for each answer of the first."""

    nri_socket: str
    cri_socket: str
    plugin_name: str
    patience_s: float = census.PATIENCE_S


class Undone(NamedTuple):
    """What came of it. `unreachable`: why the runtime's specs could not be looked at, "" if they were."""

    files: Restored
    specs: SpecsRestored
    unreachable: str = ""


def restore(
    state_dir: str, host_root: str, runtime: RuntimeAt | None, seconds: float = float("inf")
) -> Undone:
    """Put everything back; without a runtime files alone. No further spec is begun after so many seconds."""
    until = time.monotonic() + seconds
    layout = cgroup_layout.detect(host_root)
    path = str(Path(state_dir) / JOURNAL)
    entries = journal.load(path)
    put_back = files.restore(path, host_root, layout.version)
    if runtime is None:
        return Undone(put_back, SpecsRestored())
    try:
        listed = census.take(runtime.nri_socket, runtime.plugin_name, runtime.patience_s)
    except (OSError, ColocError) as error:
        files.keep(path, {file: was for file, was in entries.items() if _is_of_a_container(file)})
        return Undone(put_back, SpecsRestored(), f"{runtime.nri_socket}: {error}")
    cri = CriSide(runtime.cri_socket)
    specs = SpecRestoration(layout, host_root, cri, entries).run(listed, until)
    cri.close()
    files.keep(path, _of(specs.failed, entries))
    return Undone(put_back, specs)


def _is_of_a_container(file: str) -> bool:
    """Whether a journalled file is one of a container's that its runtime's spec speaks of too."""
    folder, _, name = file.rpartition("/")
    pod = folder.rpartition("/")[0].rpartition("/")[2]
    return name in SPEC_FILES and (pod.startswith("pod") or "-pod" in pod)


def _of(paths: frozenset[str], entries: Mapping[str, str]) -> dict[str, str]:
    """Return the entries of some containers' files, by the containers' cgroups."""
    return {
        file: was
        for file, was in entries.items()
        if _is_of_a_container(file) and any(file.rpartition("/")[0].endswith(f"/{path}") for path in paths)
    }
