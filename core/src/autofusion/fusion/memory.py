"""Estimate of the bytes of live activations, for the memory budget and the ledger: what the planner's choices would
need at least.

Each step (a node, or a chosen region as one) runs where its last node is in topological order; a value lives from its
step to its last use. Results that are their operand's memory live as long as the operand; graph inputs and constants
belong to others. The plan's ``peak_bytes`` is exact, but only known once every kernel and layout is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping

from autofusion.cost.model import is_free
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.types import TensorType


def live_bytes(graph: Graph, group: Mapping[Node, tuple[Node, ...]]) -> dict[Node, int]:
    """Bytes alive while each node's step runs, with the regions of ``group`` (node -> its region) contracted.

    ``graph`` must be sorted.
    """
    place = {node: index for index, node in enumerate(graph.nodes)}
    step = {node: max(place[n] for n in group[node]) if node in group else index for node, index in place.items()}
    memory: dict[Value, Value] = {}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for node, at in step.items():
        for value in node.outputs:
            source = node.operand(0)
            if is_free(node) and source is not None and source in memory:
                memory[value] = memory[source]
            elif is_free(node) and source is not None:
                continue  # an alias of a graph input or a constant
            else:
                memory[value] = value
                if any(step[c] != at for c in value.consumers) or value.is_output:
                    first[value] = last[value] = at
            root = memory[value]
            if root in last:
                uses = [len(place)] if value.is_output else [step[c] for c in value.consumers]
                last[root] = max([last[root], *uses])
    change = [0] * (len(place) + 2)
    for value, begin in first.items():
        size = value.type.nbytes if isinstance(value.type, TensorType) and value.type.is_static else 0
        change[begin] += size
        change[last[value] + 1] -= size
    live, alive = 0, []
    for delta in change:
        live += delta
        alive.append(live)
    return {node: alive[at] for node, at in step.items()}


def peak_bytes(graph: Graph, group: Mapping[Node, tuple[Node, ...]]) -> int:
    """The largest of ``live_bytes``."""
    return max(live_bytes(graph, group).values(), default=0)
