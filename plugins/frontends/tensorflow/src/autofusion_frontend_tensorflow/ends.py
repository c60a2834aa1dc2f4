"""Finds the ends of a bare graph: nodes that nobody reads are outputs, placeholders before them are inputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autofusion.frontends import ModelError
from autofusion_frontend_tensorflow.library import OutputNames
from autofusion_frontend_tensorflow.source import Body, Ref, SourceNode

_NO_OUTPUTS = frozenset(
    "Assert Const ControlTrigger Enter Exit HostConst LoopCond Merge NextIteration NoOp Placeholder PlaceholderV2 "
    "Print PrintV2 RefEnter RefExit RefMerge RefNextIteration RefSwitch Switch VarHandleOp Variable VariableV2".split()
)
"""Operators without results, and those whose results mean nothing outside: remains of control flow and of training."""
_FIRST_ONLY = ("BatchNorm",)
"""Operators of such names have further results that only training reads."""
_COUNTS = {"Split": "num_split", "SplitV": "num_split", "Unpack": "num", "Unstack": "num", "ShapeN": "N"}
_LISTS = {"IdentityN": "T", "If": "Tout", "StatelessIf": "Tout", "While": "T", "StatelessWhile": "T", "Case": "Tout"}
_LISTS |= {"StatelessCase": "Tout", "PartitionedCall": "Tout", "StatefulPartitionedCall": "Tout"}


def unread(body: Body, output_names: OutputNames) -> list[Ref]:
    """The results of the nodes that no node reads, in the order of the file; raise ModelError if there are none.

    What depends on no input is left out, and so are what only control edges read (pivots of control flow, reads of
    weights) and what only one branch computes, as long as something is left.
    """
    read = {ref[0] for node in body.nodes.values() for ref in node.inputs}
    ends = [n for n in body.nodes.values() if n.name not in read and n.op not in _NO_OUTPUTS]
    controls = {name for node in body.nodes.values() for name in node.controls}
    computed = _downstream(body, [n for n in body.nodes.values() if n.op.startswith("Placeholder")])
    switches = [n for n in body.nodes.values() if n.op in ("Switch", "RefSwitch")]
    branches = _downstream(body, switches, until=("Merge", "RefMerge", "Exit", "RefExit"))
    for unwanted in (body.nodes.keys() - computed, controls, branches):
        ends = [n for n in ends if n.name not in unwanted] or ends
    if not ends:
        raise ModelError("every result of the graph is read inside it: name the outputs that you want")
    return [(node.name, port) for node in ends for port in range(_result_count(node, output_names))]


def _downstream(body: Body, first: Sequence[SourceNode], until: Collection[str] = ()) -> set[str]:
    """The nodes ``first`` and all that depend on them, but for operators ``until`` and what follows those."""
    readers: dict[str, list[str]] = {}
    for node in body.nodes.values():
        if node.op not in until:
            for ref in node.inputs:
                readers.setdefault(ref[0], []).append(node.name)
    found: set[str] = set()
    stack = [n.name for n in first]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(readers.get(name, ()))
    return found


def placeholders(body: Body, outputs: Sequence[str]) -> list[str]:
    """The placeholders that TensorFlow needs to be fed for ``outputs``, in the order of the file.

    Also where only the shape counts, or where folding the shape has left no more than a control edge: whoever runs the
    model feeds them.
    """
    found: set[str] = set()
    stack = list(outputs)
    while stack:
        node = body.nodes.get(stack.pop())
        if node is not None and node.name not in found:
            found.add(node.name)
            stack += [*(ref[0] for ref in node.inputs), *node.controls]
    return [n.name for n in body.nodes.values() if n.name in found and n.op in ("Placeholder", "PlaceholderV2")]


def name_of(ref: Ref) -> str:
    """How an output is called: as its node, with the number of the result if it is not the first."""
    return ref[0] if ref[1] == 0 else f"{ref[0]}:{ref[1]}"


def _result_count(node: SourceNode, output_names: OutputNames) -> int:
    if any(part in node.op for part in _FIRST_ONLY):
        return 1
    if node.op in _COUNTS:
        return int(node.attr(_COUNTS[node.op], 1))
    if node.op in _LISTS:
        return len(node.attr(_LISTS[node.op], [None]))
    names = output_names(node.op)
    return len(names) if names else 1
