"""A pod's labels and annotations as they are kept: only names that are read, up to a bound, in little memory.

A pod's author decides how much metadata there is. Kubernetes allows 256 KiB of annotations a pod.
"""

from collections.abc import Iterator, KeysView, Mapping
from typing import Final

from nri_coloc.core.value import value

PREFIX: Final = "coloc.nri.io/"
"""The prefix of all our annotations."""

MAX_BYTES: Final = 64 * 1024
"""The most bytes of all known names and values of one pod, as UTF-8. Beyond it no annotation counts, except those that
the operator's rules select (docs/annotations.md).

Labels count up to the same bound of their own: the API server bounds each value to 63 characters.
"""


@value
class KnownKeys:
    """Names of annotations and labels that a vocabulary or a rule of the operator reads.

    Every annotation that begins with `PREFIX` is read, too.

    pairs: names and values of annotations that the operator's rules select. These count beyond the bound as well.
    """

    annotations: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()

    def with_also(self, other: "KnownKeys") -> "KnownKeys":
        """Return the names and pairs of both."""
        return KnownKeys(
            annotations=self.annotations | other.annotations,
            labels=self.labels | other.labels,
            pairs=self.pairs | other.pairs,
        )


class Texts(Mapping[str, str]):
    """Texts by name, which never change. They are kept as UTF-8: Python's own text takes four bytes for each character
    as soon as one of them is an emoji."""

    __slots__ = ("_encoded",)

    def __init__(self, encoded: Mapping[str, bytes]) -> None:
        self._encoded = dict(encoded)

    def __getitem__(self, name: str) -> str:
        return self._encoded[name].decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)

    def keys(self) -> KeysView[str]:
        """Return the names as the dict's own view, because sets meet it ten times faster than a Mapping's."""
        return self._encoded.keys()

    def __contains__(self, name: object) -> bool:
        return name in self._encoded

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Texts):
            return self._encoded == other._encoded
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as a dict, and as every Mapping that compares by content

    def __repr__(self) -> str:
        return repr(dict(self))
