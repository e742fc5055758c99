"""What sharing costs each class, told to the metrics from every whole picture.

Labels are classes and the operator's names of pools, never a pod: their number is bounded whatever runs here.
"""

from nri_coloc.core.readings import Picture
from nri_coloc.core.state import NodeState
from nri_coloc.core.workload import QoSClass
from nri_coloc.daemon.report import Report
from nri_coloc.forecast import sharing_cost


class Tolls:
    """Belongs to the survey's thread."""

    def __init__(self, report: Report) -> None:
        self._metrics = report.metrics
        self._before: Picture | None = None

    def turn(self, picture: Picture, state: NodeState) -> None:
        """Count what rose since the last whole picture."""
        before, self._before = self._before, picture
        # what tells groups of one pool apart may be a pod's label, and becomes none here
        pools = {a.id: (a.qos.value, a.pool.partition("/")[0]) for a in state.containers.values()}
        self._metrics.working_sets(sharing_cost.held(picture.containers, pools))
        if before is None:
            return
        classes = {pod_id: place.wish.qos.value for pod_id, place in state.pods.items()}
        groups = dict.fromkeys(picture.host_groups, QoSClass.RECLAIMED.value)
        for labels, felt in sharing_cost.of_containers(before.containers, picture.containers, pools).items():
            self._metrics.containers_felt(*labels, felt)
        felt_by = sharing_cost.of_pods(
            {**before.pods, **before.host_groups},
            {**picture.pods, **picture.host_groups},
            {**classes, **groups},
        )
        for qos, felt in felt_by.items():
            self._metrics.pods_felt(qos, felt)
