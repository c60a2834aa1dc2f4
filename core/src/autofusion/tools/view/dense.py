"""Regions dense in small operators: where a network spends its time on starting kernels and moving tensors.

An operator is small if it does little with each element that it moves: pointwise arithmetic, a reduction, a copy. Two
are neighbours if one feeds the other directly. A skip connection makes no neighbours: it would tie a whole residual
network into one region, though every convolution in between separates its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LEAST = 4
"""Fewest operators of a region."""
_SMALL = frozenset({"pointwise", "reduction", "movement"})


def regions(nodes: Sequence[Mapping[str, Any]], edges: Sequence[Sequence[int]], least: int = LEAST) -> list[list[int]]:
    """Regions of a drawn graph (see ``drawing``), largest first: positions of their nodes, in order.

    Operators that cost nothing (views) belong to a region, but do not count for its size.
    """
    small = [_is_small(node) for node in nodes]
    fed_by: dict[int, list[int]] = {}
    readers = [0] * len(nodes)
    for source, target in edges:
        readers[source] += 1
        fed_by.setdefault(target, []).append(source)
    parent = list(range(len(nodes)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for target, sources in fed_by.items():
        latest = max(sources)
        for source in sources:
            if small[source] and small[target] and (source == latest or readers[source] == 1):
                parent[root(target)] = root(source)
    members: dict[int, list[int]] = {}
    for i, is_small in enumerate(small):
        if is_small:
            members.setdefault(root(i), []).append(i)

    def size(group: list[int]) -> int:
        return sum("free" not in nodes[i] for i in group)

    counted = [group for group in members.values() if size(group) >= least]
    return sorted(counted, key=lambda group: (-size(group), group[0]))


def _is_small(node: Mapping[str, Any]) -> bool:
    return node["cls"] in _SMALL
