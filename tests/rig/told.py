"""A runtime's messages as this plugin reads them, for tests that begin behind the wire."""

from collections.abc import Iterable

from nri_coloc._pb import nri_pb2, told_pb2


def pod(message: nri_pb2.PodSandbox) -> told_pb2.PodSandbox:
    """Return a pod as it is read."""
    return told_pb2.PodSandbox.FromString(message.SerializeToString())


def container(message: nri_pb2.Container) -> told_pb2.Container:
    """Return a container as it is read."""
    return told_pb2.Container.FromString(message.SerializeToString())


def resources(message: nri_pb2.LinuxResources) -> told_pb2.LinuxResources:
    """Return resources as they are read."""
    return told_pb2.LinuxResources.FromString(message.SerializeToString())


def entry(name: str, text: str) -> bytes:
    """Return one entry of a map of texts, such as annotations, as it is read."""
    return told_pb2.Entry(key=name.encode(), value=text.encode()).SerializeToString()


def texts(entries: Iterable[bytes]) -> dict[str, str]:
    """Return a map of texts that is read as its entries."""
    found = map(told_pb2.Entry.FromString, entries)
    return {each.key.decode(): each.value.decode() for each in found}
