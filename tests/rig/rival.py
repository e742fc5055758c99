"""Another NRI plugin on the same containerd: slow, or with its own CPUs for a container.

It is a plain loop over the project's own session; it shares the wire with the product and nothing else.
"""

from pathlib import Path
from threading import Event
from typing import Final

from nri_coloc._pb import nri_pb2
from nri_coloc.nri import events
from nri_coloc.nri.calls import HookKind
from tests.rig.bystander import Bystander
from tests.rig.told import texts

PIN: Final = "rig.test/rival-pins"
"""The annotation by which a pod asks the rival for CPUs; it keeps its hands off all others."""

SLOW: Final = "rig.test/rival-thinks"
"""The annotation by which a pod makes the rival think so many seconds about each of its containers."""


class Rival(Bystander):
    """Run one plugin in a `with` block."""

    def __init__(self, path: Path, index: str, name: str = "rival") -> None:
        super().__init__(path, index, name)

    def answer(self, hook: events.Hook) -> nri_pb2.CreateContainerResponse | None:
        """Return the CPUs that a pod's annotation asks for, after the delay that the annotation asks for."""
        if hook.kind is not HookKind.CREATE_CONTAINER:
            return None
        annotations = texts(hook.pod.annotations)
        Event().wait(float(annotations.get(SLOW, "0")))
        if PIN not in annotations:
            return None
        answer = nri_pb2.CreateContainerResponse()
        answer.adjust.linux.resources.cpu.cpus = annotations[PIN]
        return answer
