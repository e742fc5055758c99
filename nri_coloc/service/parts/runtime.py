"""The connection to the runtime, and the specs that it stores."""

from nri_coloc.runtime.connection import Connection
from nri_coloc.runtime.cri_side import CriSide
from nri_coloc.runtime.pusher import Pusher, SpecUpdates
from nri_coloc.runtime.verification import Verification
from nri_coloc.service.parts.files import FileParts
from nri_coloc.service.parts.forecast import ForecastParts
from nri_coloc.service.parts.ground import GroundParts


class RuntimeParts:
    """The runtime's side; `cri` is used beside NRI."""

    def __init__(self, ground: GroundParts, files: FileParts, forecast: ForecastParts) -> None:
        self.connection = Connection(ground.report, once=ground.options.launched is not None)
        self.cri = CriSide(lambda: ground.in_force.settings.cri_socket)
        self.pusher = Pusher(
            ground.node,
            ground.report,
            updates=SpecUpdates(self.cri, self.connection),
            loans=forecast.loans,
            files=Verification(files.writer, ground.layout.version),
            place=files.actuator,
        )
