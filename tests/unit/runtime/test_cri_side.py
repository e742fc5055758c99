"""CRI's list says which containers may still run."""

from nri_coloc.runtime import cri_side
from nri_coloc.runtime.cri import ContainerFacts


def states(*listed: ContainerFacts) -> list[str]:
    return [*cri_side.states_of({str(at): facts for at, facts in enumerate(listed)}).values()]


def test_an_attempt_that_never_started_is_over_when_the_next_exists():
    first, second = ContainerFacts("p", "web", "created", 0), ContainerFacts("p", "web", "created", 1)
    assert states(second, first) == ["created", "exited"]


def test_one_that_runs_is_never_over():
    assert states(ContainerFacts("p", "web", "running", 0), ContainerFacts("p", "web", "created", 1)) == [
        "running",
        "created",
    ]


def test_containers_of_other_names_and_pods_are_no_attempts():
    listed = (
        ContainerFacts("p", "web", "created", 0),
        ContainerFacts("p", "log", "created", 1),
        ContainerFacts("q", "web", "created", 2),
    )
    assert states(*listed) == ["created"] * 3
