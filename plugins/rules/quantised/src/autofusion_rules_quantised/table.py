"""Whatever is computed from one tensor of 8-bit integers, element by element, as a table of 256 numbers.

The table is what the same operators make of the 256 integers, so nothing is rounded otherwise. It is computed as the
network runs, which takes no longer than one small tensor does; the tensor itself is only looked up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, find
from autofusion.rules import Builder, Match, Refusal, RewriteRule, Stage, op, var
from autofusion_rules_quantised.scales import SMALL, TABLE_SIZE, has_one_scale

_LIMIT = 48
"""Most nodes that a table stands for."""


def _single(value: Value) -> bool:
    return value.const is not None and value.const.size == 1


def _computable(node: Node) -> bool:
    schema = find(node.op)
    if has_one_scale(node):
        return True
    pointwise = schema is not None and schema.op_class is OpClass.POINTWISE and schema.deterministic
    return pointwise and len(node.outputs) == 1


def _part(end: Node) -> tuple[list[Node], set[Value]] | None:
    """Nodes back from a quantisation to the nearest 8-bit tensors, and these; None if anything else is read."""
    nodes: dict[Node, None] = {end: None}
    sources: set[Value] = set()
    queue = [end.inputs[0]]
    for value in queue:
        assert value is not None
        if _single(value):
            continue
        node = value.producer
        if node is None or not _computable(node) or len(nodes) > _LIMIT:
            return None
        if node in nodes:
            continue
        nodes[node] = None
        if node.op == "DequantizeLinear":
            source = node.inputs[0]
            if source is None or source.const is not None or source.dtype not in SMALL:
                return None
            if source.shape != end.output.shape:
                return None
            sources.add(source)
        else:
            queue += [v for v in node.inputs if v is not None]
    return list(nodes), sources


def _reach(end: Node) -> tuple[list[Node], Value] | None:
    """The most nodes back from a quantisation that read one 8-bit tensor only, and that tensor."""
    part = _part(end)
    if part is None:
        return None
    nodes, sources = part
    best = None
    while sources:
        if len(sources) == 1:
            (source,) = sources
            best = (list(nodes), source)
        # What is made from others goes back another step.
        made = [v for v in sources if v.producer is not None and v.producer.op == "QuantizeLinear"]
        parts = [(v, _part(v.producer)) for v in made if v.producer is not None and has_one_scale(v.producer)]
        value, part = next(((v, p) for v, p in parts if p is not None), (None, None))
        if value is None or part is None or len(nodes) > _LIMIT:
            break
        nodes += [n for n in part[0] if n not in nodes]
        sources = (sources - {value}) | part[1]
    return best


def _is_end(node: Node) -> bool:
    """True for a quantisation of a function of one 8-bit tensor, unless a longer function goes through it."""
    if not has_one_scale(node) or node.output.dtype not in SMALL:
        return False
    found = _reach(node)
    if found is None or len(found[0]) < 3:
        return False
    return not any(node in reach[0] for reach in map(_reach, _next_ends(node)) if reach is not None)


def _next_ends(node: Node) -> list[Node]:
    """The quantisations that read what ``node`` makes, element by element."""
    ends, queue, seen = [], [node.output], {node}
    for value in queue:
        for user in value.consumers:
            if user in seen or len(seen) > _LIMIT or not _computable(user):
                continue
            seen.add(user)
            if user.op == "QuantizeLinear":
                ends.append(user)
            else:
                queue.append(user.output)
    return ends


def _ordered(nodes: Sequence[Node], source: Value) -> list[Node]:
    """Each node after those that it reads."""
    done: set[Value] = {source}
    left, ordered = list(nodes), []
    made = {n.output for n in nodes}
    while left:
        ready = [n for n in left if all(v is None or v in done or v not in made for v in n.inputs)]
        ordered += ready
        done |= {n.output for n in ready}
        left = [n for n in left if n not in ready]
    return ordered


def _rewrite(match: Match, builder: Builder) -> Sequence[Value] | Refusal:
    end = match.root
    found = _reach(end)
    assert found is not None
    nodes, source = found
    assert source.dtype is not None
    # An index below zero counts from the end, as the bits of a signed byte do.
    numbers = np.arange(TABLE_SIZE, dtype=np.uint8).view(source.dtype)
    copies = {source: builder.constant(numbers, name="numbers")}
    for node in _ordered(nodes, source):
        operands = [
            v if v is None else copies[v] if v in copies else builder.constant(v.const.reshape(()), name=v.name)  # type: ignore[union-attr]
            for v in node.inputs
        ]
        copies[node.output] = builder.node(node.op, operands, dict(node.attrs), name=node.name).output
    index = builder.op("Cast", source, to=np.dtype(np.int32))
    return [builder.op("Gather", copies[end.output], index, axis=0, name=end.name)]


RULE = RewriteRule(
    "quantised.table",
    op("QuantizeLinear", var("x"), var("scale"), var("zero", optional=True), where=_is_end),
    _rewrite,
    stage=Stage.FOLD,
    priority=-10,
    doc="""Look up what is computed from one 8-bit tensor in a table of 256 numbers.

    Before: %y = QuantizeLinear(Sigmoid(DequantizeLinear(%x, 0.5, %z)), 0.004, %yz)
    After:  %y = Gather(QuantizeLinear(Sigmoid(DequantizeLinear(0..255, 0.5, %z)), 0.004, %yz), Cast(%x))
    Any pointwise operators, with numbers for further operands, also through other tensors of the same integers.
    """,
    portable=False,
)

RULES = (RULE,)
