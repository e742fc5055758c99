"""Read the owners of CPUs from `/v1/state`, for the drawing of `nri-coloc topology --http`."""

from collections.abc import Mapping
from typing import Any

from nri_coloc.cli.asking import DaemonSilent
from nri_coloc.core import cpuset
from nri_coloc.core.cpuset import CPUMask

State = Mapping[str, Any]


def owners(state: State) -> dict[str, CPUMask]:
    """Return CPUs by owner's name, pools first; raise DaemonSilent if the state is not valid."""
    try:
        return {name: cpuset.parse(cpus) for name, cpus in _named(state).items() if cpus}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DaemonSilent(f"the daemon's state cannot be read: {error}") from error


def _named(state: State) -> dict[str, str]:
    """Return CPU lists by name. Pools with equal CPUs share a line, and so do a main container and its sidecars."""
    pools = {
        name: pool["cpus"] for name, pool in state["pools"].items() if name not in ("reserved", "dedicated")
    }
    named = {" = ".join(names): cpus for cpus, names in _by_cpus(pools).items()}
    if state["pools"]["reserved"]["cpus"]:
        named = {"reserved": state["pools"]["reserved"]["cpus"], **named}
    if state["node"].get("kept_by_kubelet"):
        named["the kubelet's own"] = state["node"]["kept_by_kubelet"]
    placed = {
        f"{c['namespace']}/{c['pod']}/{c['container']}": c["cpus"]
        for c in state["containers"]
        if c["pool"] == "dedicated"
    }
    return named | {", ".join(names): cpus for cpus, names in _by_cpus(placed).items()}


def _by_cpus(named: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, cpus in named.items():
        found.setdefault(cpus, []).append(name)
    return found
