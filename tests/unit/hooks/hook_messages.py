"""Hooks as the session gives them, and the runtime's list."""

from collections.abc import Sequence
from typing import Any

from nri_coloc._pb import told_pb2
from nri_coloc.core.settings import Tuning
from nri_coloc.core.state import NodeState
from nri_coloc.hooks.translation import Translator
from nri_coloc.nri.calls import HookKind
from nri_coloc.nri.events import Call, Hook
from tests.rig.told import entry
from tests.unit.parts import listed

TUNING = Tuning()


def hook(kind: HookKind, qos: str = "", resources: told_pb2.LinuxResources | None = None) -> Hook:
    pod = told_pb2.PodSandbox(id="p", name="web", namespace="shop", uid="u")
    if qos:
        pod.annotations.append(entry("coloc.nri.io/qos-class", qos))
    container = told_pb2.Container(id="c", pod_sandbox_id="p", name="app", pid=7)
    container.linux.resources.cpu.shares.value = 2048
    return Hook(Call(1, kind.value, 0), kind, pod, None if kind.about_pod else container, resources)


def synchronized(
    translator: Translator,
    pods: Sequence[Any],
    containers: Sequence[Any],
    state: NodeState,
    tuning: Tuning = TUNING,
) -> Any:
    found = listed(translator, pods, containers)
    return translator.synchronized(found.pods, found.containers, state, tuning)
