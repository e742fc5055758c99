"""The companion's socket, Events and drains."""

from nri_coloc.core.seams import After
from nri_coloc.kubernetes.serving import CompanionServer
from nri_coloc.service.companion_state import ClusterSide
from nri_coloc.service.drain import Drain
from nri_coloc.service.new_pods import NewPods
from nri_coloc.service.offer_view import OfferView
from nri_coloc.service.parts.forecast import ForecastParts
from nri_coloc.service.parts.ground import GroundParts
from nri_coloc.service.parts.lending import LendingParts


class ClusterParts:
    """The node as the cluster sees it; `offer` is the capacity that schedulers read."""

    def __init__(
        self, ground: GroundParts, forecast: ForecastParts, lending: LendingParts, *, after: After
    ) -> None:
        node, clock = ground.node, ground.clock
        new_pods = NewPods(lending.evictor, lending.disks)
        self.offer = OfferView(
            node,
            clock=clock,
            lending=lending.loop,
            survey=forecast.survey,
            memory=forecast.box_memory,
            new_pods=new_pods,
        )
        self.state = ClusterSide(
            node,
            self.offer,
            clock=clock,
            survey=forecast.survey,
            new_pods=new_pods,
            after=after,
        )
        self.companion = CompanionServer(
            ground.options.cluster_socket,
            self.state,
            orders=ground.evictions,
            events=ground.events,
            version=ground.version,
            log=ground.report.log,
        )
        self.drain = Drain(node, ground.evictions)
