"""The cgroups that had all their values at their last check, and the texts of their files then.

A check parses the files, compares them, and looks into the journal. While its inputs and the texts are the same, it
would find the same: so a sweep only reads the files (docs/decisions/0078-sweeps-read-texts.md). A cgroup below a pod's
that left the pod's CPUs is not seen here: so the caller clears all texts now and then.
"""

from itertools import starmap
from typing import NamedTuple

from nri_coloc.core.cpuset import CPUMask
from nri_coloc.core.state import Assignment, PodPlace
from nri_coloc.host import files
from nri_coloc.host.knob_files import Shown, Target

Owner = Assignment | PodPlace | None


class Checked(NamedTuple):
    """A cgroup as its last check found it.

    target: its values.
    owner: the state of its container or pod.
    cpus: the CPUs read back, None if none were read.
    shown: all files that the check read.
    """

    target: Target
    owner: Owner
    cpus: CPUMask | None
    shown: Shown


class InPlace:
    """Cgroups by the id of their pod or container; for any thread.

    Of two threads that note one cgroup the later one may be the slower one: its target or its texts are then old, and a
    check follows.
    """

    def __init__(self) -> None:
        self._checked: dict[str, Checked] = {}

    def note(self, id_: str, target: Target, owner: Owner, cpus: CPUMask | None, shown: Shown | None) -> None:
        """Note a check; `shown`: None if a value was not in place, or if it depends on more than these files."""
        # CPUs beyond the target also depend on the parent's
        if shown is None or target.beyond or (target.cpus and cpus != target.cpus):
            self._checked.pop(id_, None)
        else:
            self._checked[id_] = Checked(target, owner, cpus, shown)

    def still(self, id_: str, target: Target | None, owner: Owner) -> Checked | None:
        """Return the last check of a cgroup if the files show the same now; None if a check is due."""
        known = self._checked.get(id_)
        if known is None or known.owner is not owner or known.target != target:
            return None
        return known if all(starmap(files.shows, known.shown)) else None

    def forget(self, id_: str) -> None:
        """Drop a cgroup that is gone."""
        self._checked.pop(id_, None)

    def clear(self) -> None:
        """Have all cgroups checked."""
        self._checked.clear()
