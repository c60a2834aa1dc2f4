"""Estimate of the bytes of live activations, for the memory budget and the ledger: what the planner's choices would
need at least.

Each step (a node, or a chosen region as one) runs where its last node is in topological order; a value lives from its
step to its last use. Results that are their operand's memory live as long as the operand; graph inputs and constants
belong to others. The plan's ``peak_bytes`` is exact, but only known once every kernel and layout is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from autofusion.cost.model import is_free
from autofusion.ir.graph import Graph, Node, Value
from autofusion.ir.types import TensorType


def live_bytes(graph: Graph, group: Mapping[Node, tuple[Node, ...]]) -> dict[Node, int]:
    """Bytes alive while each node's step runs, with the regions of ``group`` (node -> its region) contracted.

    ``graph`` must be sorted.
    """
    step = {node: index for index, node in enumerate(graph.nodes)}
    for region in dict.fromkeys(group.values()):
        at = max([step[node] for node in region])
        for node in region:
            step[node] = at
    memory: dict[Value, Value] = {}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for node, at in step.items():
        source = node.operand(0) if is_free(node) else None
        if source is not None and source not in memory:
            continue  # an alias of a graph input or a constant
        for value in node.outputs:
            root = memory[value] = value if source is None else memory[source]
            used, end = value.is_output, len(step) if value.is_output else at
            for consumer, _ in value._uses:
                when = step[consumer]
                if when != at:
                    used = True
                    if when > end:
                        end = when
            if root is not value and root in last:
                last[root] = max(last[root], end)
            elif used and root is value:
                first[value], last[value] = at, end
    change = [0] * (len(step) + 2)
    for value, begin in first.items():
        size = value.type.nbytes if isinstance(value.type, TensorType) and value.type.is_static else 0
        change[begin] += size
        change[last[value] + 1] -= size
    alive = list(accumulate(change))
    return {node: alive[at] for node, at in step.items()}


def peak_bytes(graph: Graph, group: Mapping[Node, tuple[Node, ...]]) -> int:
    """The largest of ``live_bytes``."""
    return max(live_bytes(graph, group).values(), default=0)
