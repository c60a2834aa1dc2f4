"""Names of source nodes, made unique: a function that is called twice gives its nodes to the graph twice."""

from __future__ import annotations


class Origins:
    """The names given so far."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._last: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """``name``, or the first of ``name#2``, ``name#3``... that was not given yet; it is from now on."""
        found, count = name, self._last.get(name, 1)
        while found in self._given:
            count += 1
            found = f"{name}#{count}"
        self._last[name] = count
        self._given.add(found)
        return found

    def copy(self) -> Origins:
        """The same names, to go back to."""
        other = Origins()
        other.restore(self)
        return other

    def restore(self, other: Origins) -> None:
        """Forget all names that ``other`` does not have."""
        self._given, self._last = set(other._given), dict(other._last)
