"""The answers to the runtime, and the comparison with its list."""

import os
import socket
from collections.abc import Callable

from nri_coloc.hooks.common_steps import Consequences, Seams
from nri_coloc.hooks.requests_again import RequestsAgain
from nri_coloc.hooks.second_chances import SecondChances
from nri_coloc.hooks.translation import Translator
from nri_coloc.hooks.trunk import Hooks, Trunk
from nri_coloc.runtime.comparison import Comparison
from nri_coloc.runtime.connection import connect_to
from nri_coloc.runtime.departed_pods import DepartedPods
from nri_coloc.service.options import Options
from nri_coloc.service.parts.files import FileParts
from nri_coloc.service.parts.ground import GroundParts
from nri_coloc.service.parts.runtime import RuntimeParts
from nri_coloc.service.retuning import InForce
from nri_coloc.service.runtime_claim import RuntimeClaim
from nri_coloc.service.steering import Steering


class HookParts:
    """The runtime's thread and its hooks. `claim` keeps a second daemon from the same runtime."""

    def __init__(
        self,
        ground: GroundParts,
        files: FileParts,
        runtime: RuntimeParts,
        *,
        steering: Steering,
        translator: Translator,
        seams: Seams,
    ) -> None:
        node, report, settings = ground.node, ground.report, ground.in_force.settings
        consequences = Consequences(node, runtime.pusher, report, seams)
        self.hooks = Hooks(node, files.actuator, translator, consequences, kubelet=steering)
        self.claim = RuntimeClaim()
        self.trunk = Trunk(
            runtime.connection,
            _connector(ground.options, ground.in_force, self.claim),
            (settings.plugin_name, settings.plugin_index),
            self.hooks,
            report,
        )
        self.comparison = comparison = Comparison(
            node, runtime.connection, report, listing=runtime.cri, after=seams.after
        )
        self.departed_pods = DepartedPods(node, files.actuator.is_there, seams.after)
        self.requests_again = RequestsAgain(node, translator, seams.after)
        self.second_chances = SecondChances(
            node,
            files.actuator,
            report,
            after=seams.after,
            knows_all=lambda: comparison.complete,
        )


def _connector(options: Options, in_force: InForce, claim: RuntimeClaim) -> Callable[[], socket.socket]:
    """Return a function that connects to the runtime.

    A launched plugin uses the socket that it was given; any other daemon claims the runtime first.
    """
    launched = options.launched
    if launched is not None:
        return lambda: socket.socket(fileno=os.dup(launched.fd))

    def connect() -> socket.socket:
        claim.take(in_force.settings.nri_socket)
        return connect_to(in_force.settings.nri_socket)

    return connect
