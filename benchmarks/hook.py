"""`hook.*`: round trips of hooks against the daemon in its own process (DESIGN §7)."""

from pathlib import Path

from benchmarks import figures, folders
from benchmarks.echo import Echo
from benchmarks.runtime import MeasuredRuntime, container_of, pod_of
from nri_coloc._pb import nri_pb2
from nri_coloc.nri.calls import HookKind
from nri_coloc.sim import machines

ROUNDS = 3000
WARM_UP = 300
PODS = 20


def run() -> dict[str, figures.Figures]:
    """Return the figures of every row, against one simulated machine of 64 CPUs or the nearest there is."""
    results: dict[str, figures.Figures] = {}
    with folders.planted() as root:
        machines.plant(machines.MACHINES["epyc-256"], Path(root))
        for live in (0, 50, 250):
            with MeasuredRuntime(root) as runtime:
                numbers = Numbers()
                _populate(runtime, numbers, live)
                shared = _creations(runtime, numbers, 512, "burstable")
                results |= shared.rows(f"hook.create.shared.{live}")
                if live == 250:
                    reclaimed = _creations(runtime, numbers, 2, "besteffort")
                    results |= reclaimed.rows("hook.create.reclaimed.250")
                    dedicated = _creations(
                        runtime, numbers, 2048, "burstable", rounds=500, qos_class="dedicated"
                    )
                    results |= dedicated.rows("hook.create.dedicated.250")
                    results["hook.start"] = _starts(runtime, numbers)
                    results |= _nothings(runtime, numbers)
                    results["hook.echo"] = _echoes(runtime, numbers)
    return results


class Trips:
    """Hold round trips in nanoseconds, from the last byte sent; `whole`: with the sending."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.whole: list[int] = []

    def add(self, took_ns: int, whole_ns: int) -> None:
        """Add one round trip."""
        self.taken.append(took_ns)
        self.whole.append(whole_ns)

    def rows(self, name: str) -> dict[str, figures.Figures]:
        """Return the figures of both."""
        return {name: figures.of(self.taken), f"{name}.whole": figures.of(self.whole)}


class Numbers:
    """Give every pod and container a number of its own."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


def _populate(runtime: MeasuredRuntime, numbers: Numbers, live: int) -> None:
    for _ in range(live):
        pod, container = new_container(numbers, 512, "burstable")
        runtime.hook(HookKind.RUN_POD_SANDBOX, pod)
        runtime.hook(HookKind.CREATE_CONTAINER, pod, container)


def new_container(
    numbers: Numbers, shares: int, qos: str, **annotations: str
) -> tuple[nri_pb2.PodSandbox, nri_pb2.Container]:
    number = numbers.next()
    pod = pod_of(number, qos, **annotations)
    return pod, container_of(pod, f"{number:064x}", shares)


def _creations(
    runtime: MeasuredRuntime,
    numbers: Numbers,
    shares: int,
    qos: str,
    rounds: int = ROUNDS,
    **annotations: str,
) -> Trips:
    """Return the round trips of creations in running pods; each container is removed before the next is created."""
    pods = pods_of(runtime, numbers, qos, **annotations)
    trips = Trips()
    for turn in range(rounds + WARM_UP):
        pod = pods[turn % len(pods)]
        container = container_of(pod, f"{numbers.next():064x}", shares)
        took, answer = runtime.hook(HookKind.CREATE_CONTAINER, pod, container)
        assert qos == "besteffort" or answer.message.adjust.linux.resources.cpu.cpus
        if turn >= WARM_UP:
            trips.add(took, runtime.whole_ns)
        runtime.hook(HookKind.STOP_CONTAINER, pod, container)
    return trips


def _starts(runtime: MeasuredRuntime, numbers: Numbers) -> figures.Figures:
    pods = pods_of(runtime, numbers, "burstable")
    samples = []
    for turn in range(ROUNDS // 2 + WARM_UP):
        pod = pods[turn % len(pods)]
        container = container_of(pod, f"{numbers.next():064x}", 512)
        runtime.hook(HookKind.CREATE_CONTAINER, pod, container)
        container.pid = 1
        took, _ = runtime.hook(HookKind.START_CONTAINER, pod, container)
        runtime.hook(HookKind.STOP_CONTAINER, pod, container)
        if turn >= WARM_UP:
            samples.append(took)
    return figures.of(samples)


def pods_of(
    runtime: MeasuredRuntime, numbers: Numbers, qos: str, **annotations: str
) -> list[nri_pb2.PodSandbox]:
    pods = [pod_of(numbers.next(), qos, **annotations) for _ in range(PODS)]
    for pod in pods:
        runtime.hook(HookKind.RUN_POD_SANDBOX, pod)
    return pods


def _nothings(runtime: MeasuredRuntime, numbers: Numbers) -> dict[str, figures.Figures]:
    """Return the figures of an event that needs no decision: the cost of the wire alone, in the same run."""
    trips = Trips()
    pod, container = new_container(numbers, 512, "burstable")
    for turn in range(ROUNDS + WARM_UP):
        took, _ = runtime.hook(HookKind.POST_CREATE_CONTAINER, pod, container)
        if turn >= WARM_UP:
            trips.add(took, runtime.whole_ns)
    return trips.rows("hook.nothing")


def _echoes(runtime: MeasuredRuntime, numbers: Numbers) -> figures.Figures:
    """Return the figures of a creation's bytes with a process that only answers: this machine's least time."""
    pod, container = new_container(numbers, 512, "burstable")
    runtime.hook(HookKind.RUN_POD_SANDBOX, pod)
    request = runtime.request(HookKind.CREATE_CONTAINER, pod, container)
    _, answer = runtime.exchange(request)
    runtime.adaptation.receive_data(answer)
    samples = []
    with Echo(request, len(answer)) as echo:
        for turn in range(ROUNDS + WARM_UP):
            # as the other rows do between two measurements, so that both processes sleep as long
            container_of(pod, f"{numbers.next():064x}", 512)
            took = echo.exchange()
            echo.exchange()
            if turn >= WARM_UP:
                samples.append(took)
    return figures.of(samples)
