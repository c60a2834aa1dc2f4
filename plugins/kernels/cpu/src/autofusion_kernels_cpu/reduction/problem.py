"""What a reduction, a normalisation or a fused node around one reads and writes, and which axes it reduces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.ir.operators.reduction import reduced_axes
from autofusion.kernels import LAYER_NORM, REDUCTION, SOFTMAX, Refusal
from autofusion_kernels_cpu.codegen.epilogue import constant_text
from autofusion_kernels_cpu.codegen.region import Leaf, Region, body_of, make_region, signature
from autofusion_kernels_cpu.reduction.programs import REDUCTIONS

KINDS = (REDUCTION, SOFTMAX, LAYER_NORM)
GLOBAL_POOLS = ("GlobalAveragePool", "GlobalMaxPool")
TO_ROWS = frozenset(REDUCTION.anchors)
"""Anchors whose result has one element for each row; the others keep the shape."""
# Attributes that change the code of an anchor; the others (axes) change what it runs over.
_ATTRIBUTES = ("epsilon", "p", "select_last_index")
_INTEGERS = ("ReduceL1", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin")


NOTHING = Region((), (), ())


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """``before`` makes the reduced value, ``after`` follows the anchor, ``spread`` brings rows back to the elements.

    ``full`` and ``row`` are the leaves that move with the elements, or once a row; ``full_results`` and ``row_results``
    are (result number, value). ``axes`` are the reduced ones of ``space``. ``groups`` splits the channels, or is 0.
    """

    anchor: Node
    before: Region
    after: Region
    full: tuple[Leaf, ...]
    row: tuple[Leaf, ...]
    full_results: tuple[tuple[int, Value], ...]
    row_results: tuple[tuple[int, Value], ...]
    space: tuple[int, ...]
    axes: tuple[int, ...]
    spread: Region = NOTHING
    groups: int = 0

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of the anchor's row results."""
        kept = tuple(1 if i in self.axes else d for i, d in enumerate(self.space))
        if self.anchor.op in TO_ROWS and not _keeps(self.anchor):
            return tuple(d for i, d in enumerate(self.space) if i not in self.axes)
        return kept

    @property
    def keeps_axes(self) -> bool:
        """True if reduced axes stay, with size 1."""
        return len(self.row_shape) == len(self.space)

    def in_blocks(self, leaf: Leaf) -> bool:
        """True if the leaf differs from channel to channel, so that blocked tensors need it in blocks."""
        axis = 1 - (len(self.space) - len(leaf.shape))
        channels = leaf.shape[axis] if axis >= 0 else 1
        return channels > 1 or (axis == 1 and self.space[1] == 1)

    @property
    def is_blockable(self) -> bool:
        """True if a vector can be a block of channels: they are kept, and what differs by channel can be had in
        blocks.
        """
        if len(self.space) < 3 or self.groups or any(a < 2 for a in self.axes):
            return False
        if any(v.tensor.dtype != np.float32 for _, v in (*self.full_results, *self.row_results)):
            return False
        return all(
            leaf.dtype == np.float32
            and leaf.value.tensor.static_shape == leaf.shape
            and len(leaf.shape) == len(self.space)
            for leaf in (*self.full, *self.row)
            if leaf.constant is None and self.in_blocks(leaf)
        )

    def signature(self) -> str:
        """Text that is equal for problems that make the same code, apart from the kinds of their operands."""
        names = {leaf.value: f"f{i}" for i, leaf in enumerate(self.full)}
        before = signature(self.before.nodes, names, self.before.results)
        names |= {node.output: f"b{i}" for i, node in enumerate(self.before.nodes)}
        names |= {leaf.value: f"r{i}" for i, leaf in enumerate(self.row)}
        names |= {value: f"a{i}" for i, value in enumerate(self.anchor.outputs)}
        others = () if self.anchor.op in REDUCTIONS else self.anchor.inputs[1:]
        parameters = ["-" if v is None else names.get(v) or constant_text(v) for v in others]
        attrs = [f"{n}={self.anchor.attrs[n]!r}" for n in _ATTRIBUTES if n in self.anchor.attrs]
        if not self.spread.nodes:
            after = signature(self.after.nodes, names, [v for _, v in (*self.full_results, *self.row_results)])
            return f"{before}|{self.anchor.op}{attrs}{parameters}|{after}"
        after = signature(self.after.nodes, names, [v for _, v in self.row_results])
        names |= {node.output: f"c{i}" for i, node in enumerate(self.after.nodes)}
        spread = signature(self.spread.nodes, names, [v for _, v in self.full_results])
        return f"{before}|{self.anchor.op}{attrs}{parameters}|{after}|{spread}"


def problem_of(node: Node) -> Problem | Refusal:
    """The problem in a node, or why there is none that these kernels solve."""
    nodes, operands, results = body_of(node)
    kind = next((each for each in KINDS if each.is_of(node) or node.op in each.anchors), None)
    if kind is None:
        return Refusal(f"{node.label} is neither a reduction nor a normalisation")
    anchor = kind.anchor(node)
    if isinstance(anchor, Refusal):
        return anchor
    x = anchor.inputs[0]
    assert x is not None
    no = _unsupported(anchor, x)
    if no is not None:
        return no
    space = x.tensor.static_shape
    axes = _axes(anchor, space)
    if axes is None:
        return Refusal("the axes are not constant")
    ancestors = _ancestors(anchor, nodes)
    earlier = [n for n in nodes if n in ancestors]
    later = [n for n in nodes if n is not anchor and n not in ancestors]
    to_rows = anchor.op in TO_ROWS
    parameters = [] if anchor.op in REDUCTIONS else [v for v in anchor.inputs[1:] if v is not None]
    shapes = [(v, _parameter_shape(anchor, v, len(space))) for v in parameters]
    kept = tuple(1 if i in axes else d for i, d in enumerate(space))
    spread_nodes: list[Node] = []
    if to_rows and _keeps(anchor) and kept != space and not anchor.op.startswith("Arg"):
        spread_nodes = [n for n in later if n.output.tensor.static_shape == space]
        later = [n for n in later if n not in spread_nodes]
    spread_made = {n.output for n in spread_nodes}
    before = make_region(node, earlier, operands, [x], reads=shapes)
    if isinstance(before, Refusal):
        return before
    made = [n.output for n in earlier]
    row_values = [v for v in results if v not in spread_made]
    after = make_region(node, later, operands, row_values, given=[*anchor.outputs, *(() if to_rows else made)])
    if isinstance(after, Refusal):
        return after
    rows = [*anchor.outputs, *(n.output for n in later)]
    full_values = [v for v in results if v in spread_made]
    spread = make_region(node, spread_nodes, operands, full_values, given=[*made, *rows])
    if isinstance(spread, Refusal):
        return spread
    full = {leaf.value: leaf for leaf in (*before.leaves, *spread.leaves)}
    row: dict[Value, Leaf] = {}
    for leaf in after.leaves:
        (row if to_rows else full).setdefault(leaf.value, leaf)
    for leaf in (*full.values(), *row.values()):
        if leaf.operand is None and leaf.constant is None:
            return Refusal(f"'{leaf.value.name}' is needed before and behind the reduction")
    groups = int(attribute(anchor, "num_groups")) if anchor.op == "GroupNormalization" else 0
    draft = Problem(
        anchor, before, after, tuple(full.values()), tuple(row.values()), (), (), space, axes, spread, groups
    )
    return _with_results(draft, results)


def _keeps(anchor: Node) -> bool:
    """True if the anchor leaves the axes that it reduces, with one element."""
    return anchor.op in GLOBAL_POOLS or bool(attribute(anchor, "keepdims"))


def _with_results(draft: Problem, results: Sequence[Value]) -> Problem | Refusal:
    full_results, row_results = [], []
    statistics = draft.anchor.outputs[1:]
    for i, value in enumerate(results):
        spread = any(n.output is value for n in draft.spread.nodes)
        to_row = (draft.anchor.op in TO_ROWS and not spread) or value in statistics
        wanted = draft.row_shape if to_row else draft.space
        if value.tensor.static_shape != wanted:
            return Refusal(f"result '{value.name}' is {list(value.tensor.static_shape)}, expected {list(wanted)}")
        (row_results if to_row else full_results).append((i, value))
    for leaf, target in ((leaf, draft.space) for leaf in draft.full):
        if np.broadcast_shapes(leaf.shape, target) != target:
            return Refusal(f"operand '{leaf.value.name}' {list(leaf.shape)} is larger than {list(target)}")
    for leaf in draft.row:
        if np.broadcast_shapes(leaf.shape, draft.row_shape) != draft.row_shape:
            return Refusal(f"operand '{leaf.value.name}' {list(leaf.shape)} is larger than {list(draft.row_shape)}")
    if not full_results and draft.anchor.op not in TO_ROWS:
        return Refusal("nobody reads what it normalises")
    return Problem(
        draft.anchor,
        draft.before,
        draft.after,
        draft.full,
        draft.row,
        tuple(full_results),
        tuple(row_results),
        draft.space,
        draft.axes,
        draft.spread,
        draft.groups,
    )


def _unsupported(anchor: Node, x: Value) -> Refusal | None:
    dtype = x.tensor.dtype
    name = dtype_name(dtype)
    if anchor.op in GLOBAL_POOLS and name != "f32":
        return Refusal(f"operator '{anchor.op}' has no vector kernel for element type {name}")
    if name in ("f32", "f16", "bf16"):
        return None
    if dtype.kind in "iu" and anchor.op in _INTEGERS and not (dtype.kind == "u" and anchor.op in ("ArgMax", "ArgMin")):
        if dtype.kind == "i" or anchor.op in ("ReduceSum", "ReduceProd", "ReduceSumSquare"):
            return None
    if name == "f64" and anchor.op in REDUCTIONS and not anchor.op.startswith("ReduceLog"):
        return None
    return Refusal(f"operator '{anchor.op}' has no vector kernel for element type {name}")


def _axes(anchor: Node, space: tuple[int, ...]) -> tuple[int, ...] | None:
    rank = len(space)
    if anchor.op in GLOBAL_POOLS:
        return tuple(range(2, rank))
    if anchor.op in REDUCTIONS:
        axes = reduced_axes(anchor)
        return None if axes is None else tuple(axes)
    if anchor.op in ("LayerNormalization", "RMSNormalization"):
        return tuple(range(attribute(anchor, "axis") % rank, rank))
    if anchor.op in ("InstanceNormalization", "GroupNormalization"):
        return tuple(range(2, rank))
    if anchor.op == "MeanVarianceNormalization":
        return tuple(sorted(a % rank for a in attribute(anchor, "axes")))
    return (attribute(anchor, "axis") % rank,)


def _parameter_shape(anchor: Node, value: Value, rank: int) -> tuple[int, ...] | None:
    if anchor.op in ("InstanceNormalization", "GroupNormalization"):
        return (value.tensor.static_shape[0],) + (1,) * (rank - 2)
    return None


def _ancestors(anchor: Node, nodes: Sequence[Node]) -> set[Node]:
    inside, found = set(nodes), set()
    stack = [v.producer for v in anchor.inputs if v is not None]
    while stack:
        node = stack.pop()
        if node is None or node not in inside or node in found:
            continue
        found.add(node)
        stack.extend(v.producer for v in node.inputs if v is not None)
    return found
