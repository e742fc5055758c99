"""Ids that look like the runtime's and the kubelet's, and are the same in every run."""

import hashlib
import uuid
from itertools import count


class Identity:
    """Hands out ids; no two are alike."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def runtime_id(self) -> str:
        """Return 64 hexadecimal digits, as containerd gives pods and containers."""
        return hashlib.sha256(f"runtime {next(self._numbers)}".encode()).hexdigest()

    def uid(self) -> str:
        """Return a pod's UID."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"pod {next(self._numbers)}"))
