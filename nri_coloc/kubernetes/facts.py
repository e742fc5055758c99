"""Read the facts about one pod that the node cannot know by itself, from a pod object of the API.

A pod's author decides most of the object. So each text has the length that Kubernetes allows at most, the number of
containers is bounded, and only the named fields are read: no annotation, label, environment or condition. A pod without
facts counts with the whole loan of its annotation. So a pod whose containers break a bound has facts without
containers, which confirm no loan. The API server writes or checks all other fields: a pod that breaks their bounds has
no facts.

Lent amounts are read from the pod's spec and never from an annotation: the scheduler counted them there, ResourceQuota
bounds them, and they cannot change after creation.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nri_coloc.core.pod_facts import ContainerFacts, Facts, Kind, Lent, Owner
from nri_coloc.kubernetes import objects, requests
from nri_coloc.kubernetes.presets import Preset
from nri_coloc.kubernetes.requests import CPU, MEMORY
from nri_coloc.pods import quantity

MOST_CONTAINERS: Final = 128
"""Containers and init containers of one pod. Ephemeral containers cannot request resources."""

_LONGEST_UID: Final = 64
_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_LONGEST_TIME: Final = 64
_PRIORITY: Final = 2**31 - 1
_GRACE_S: Final = 2**31 - 1


class ReadFacts(NamedTuple):
    """One pod of this node, as the API has it.

    facts: without `killed_at`, which is a time of the daemon's clock.
    deleting_at: when its containers are killed at the latest, RFC 3339; empty while nothing deletes it.
    grace_s: seconds from the request of its deletion until then.
    """

    facts: Facts
    deleting_at: str
    grace_s: int


def read(pod: Mapping[str, Any], preset: Preset) -> ReadFacts:
    """Return the facts about a pod; raise ValueError, with the field, if a field of the pod breaks a bound."""
    metadata, spec = objects.child(pod, "metadata"), objects.child(pod, "spec")
    found = Facts(
        uid=_required(metadata, "uid", _LONGEST_UID),
        namespace=_required(metadata, "namespace", _LONGEST_LABEL),
        name=_required(metadata, "name", _LONGEST_NAME),
        owner=_owner(metadata),
        priority=objects.integer(spec, "priority", -_PRIORITY - 1, _PRIORITY),
        cpu_milli=requests.effective(pod, CPU),
        memory_bytes=requests.effective(pod, MEMORY),
        containers=_containers(spec, preset),
    )
    return ReadFacts(
        found,
        deleting_at=objects.text(metadata, "deletionTimestamp", _LONGEST_TIME),
        grace_s=objects.integer(metadata, "deletionGracePeriodSeconds", 0, _GRACE_S),
    )


def _required(parent: Mapping[str, Any], key: str, longest: int) -> str:
    found = objects.text(parent, key, longest)
    if not (found and found.isprintable()):
        raise ValueError(f"metadata.{key} is missing, or cannot be printed")
    return found


def _owner(metadata: Mapping[str, Any]) -> Owner:
    """Return the controller; a pod has at most one (apimachinery, ValidateOwnerReferences).

    The API server takes any text from the pod's author here. One that is too long or cannot be printed names no owner.
    """
    for each in objects.children(metadata, "ownerReferences"):
        if each.get("controller") is True:
            return _owner_of(each)
    return Owner()


def _owner_of(owner: Mapping[str, Any]) -> Owner:
    try:
        found = Owner(
            objects.text(owner, "kind", _LONGEST_LABEL),
            objects.text(owner, "name", _LONGEST_NAME),
            objects.text(owner, "uid", _LONGEST_UID),
        )
    except ValueError:
        return Owner()
    return found if all(each.isprintable() for each in found) else Owner()


def _containers(spec: Mapping[str, Any], preset: Preset) -> tuple[ContainerFacts, ...]:
    """Return the facts about a pod's containers; none if there are too many, or if one breaks a bound."""
    main, init = objects.children(spec, "containers"), objects.children(spec, "initContainers")
    if len(main) + len(init) > MOST_CONTAINERS:
        return ()
    try:
        found = [_container(each, Kind.MAIN, preset) for each in main]
        found += [_container(each, _kind(each), preset) for each in init]
    except ValueError:
        return ()
    return tuple(found) if len({each.name for each in found}) == len(found) else ()


def _kind(init_container: Mapping[str, Any]) -> Kind:
    return Kind.SIDECAR if requests.is_sidecar(init_container) else Kind.INIT


def _container(container: Mapping[str, Any], kind: Kind, preset: Preset) -> ContainerFacts:
    return ContainerFacts(
        name=_named(container),
        kind=kind,
        cpu_milli=requests.of_container(container, CPU),
        memory_bytes=requests.of_container(container, MEMORY),
        lent=_lent(container, preset),
    )


def _named(container: Mapping[str, Any]) -> str:
    name = objects.text(container, "name", _LONGEST_LABEL)
    if not (name and name.isprintable()):
        raise ValueError("a container has no name, or one that cannot be printed")
    return name


def _lent(container: Mapping[str, Any], preset: Preset) -> Lent:
    asked = objects.child(container, "resources", "requests")
    limits = objects.child(container, "resources", "limits")
    return Lent(
        cpu_milli=_amount(asked, preset.cpu),
        memory_bytes=_amount(asked, preset.memory),
        cpu_limit_milli=_amount(limits, preset.cpu),
        memory_limit_bytes=_amount(limits, preset.memory),
    )


def _amount(quantities: Mapping[str, Any], name: str) -> int:
    return 0 if quantities.get(name) is None else objects.amount(quantities[name], quantity.whole_bytes)
