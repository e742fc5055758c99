"""Make ids like the runtime's and the kubelet's, the same ids in every run."""

import hashlib
import uuid
from itertools import count


class Identity:
    """Returns a new id at each call."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def runtime_id(self) -> str:
        """Return 64 hexadecimal digits, as in containerd's ids of pods and containers."""
        return hashlib.sha256(f"runtime {next(self._numbers)}".encode()).hexdigest()

    def uid(self) -> str:
        """Return the UID of a new pod."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"pod {next(self._numbers)}"))
