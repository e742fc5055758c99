"""Steps of which each is taken, whatever the others meet: a turn of the main thread, the daemon's end.

What was foreseen is told as its sentence, with whose it is. What was not is ours, and is told with where it came from.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nri_coloc.errors import ColocError, blame


class Log(Protocol):
    """Structured, for the operator."""

    def error(self, event: str, **fields: Any) -> Any: ...

    def exception(self, event: str, **fields: Any) -> Any: ...


def each(log: Log, whole: str, steps: Mapping[str, Callable[[], object]]) -> bool:
    """Take all steps in their order, each by its name; whether all went well. `whole`: what they are the steps of."""
    taken = [_is_taken(log, f"a step of {whole} failed", name, take) for name, take in steps.items()]
    return all(taken)


def _is_taken(log: Log, failed: str, name: str, take: Callable[[], object]) -> bool:
    try:
        take()
    except ColocError as error:
        log.error(failed, step=name, blame=blame(error), because=str(error))  # noqa: TRY400 - its sentence says all
    except Exception as error:
        log.exception(failed, step=name, blame=blame(error), exc_info=error)
    else:
        return True
    return False
