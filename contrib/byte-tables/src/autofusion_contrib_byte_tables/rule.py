"""Find what is a function of one 8-bit number: element by element, with single constants for everything else."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import OpClass, find, op_class
from autofusion.ir.types import TensorType
from autofusion.rules import FusedKind, FuseRule, Refusal, Region, RulePack

FUNCTION_KIND = FusedKind(
    "byte-tables.function",
    anchors=(),
    inner=("Cast", "DequantizeLinear", "QuantizeLinear"),
    body="a function of one 8-bit tensor, element by element",
    operands="the tensor, and constants of one number",
)
LIMIT = 32
"""Most nodes of a chain."""
_QUANTISING = frozenset({"DequantizeLinear", "QuantizeLinear"})


def is_byte(value: Value) -> bool:
    """True for a tensor of static shape whose elements have 8 bits."""
    type_ = value.type
    return isinstance(type_, TensorType) and type_.is_static and type_.dtype.name in ("int8", "uint8")


def _is_number(value: Value) -> bool:
    return value.const is not None and value.const.size == 1


def _joins(node: Node) -> bool:
    """True for an operator with one result that looks at one element at a time."""
    schema = find(node.op)
    pointwise = op_class(node) is OpClass.POINTWISE and schema is not None and schema.deterministic
    return len(node.outputs) == 1 and (pointwise or node.op in _QUANTISING)


def _chain(end: Node, source: Value) -> list[Node] | Refusal | None:
    """The nodes between ``source`` and the result of ``end``; None if something else goes in as well."""
    nodes = [end]
    for node in nodes:  # grows on the way
        for value in node.inputs:
            if value is None or value is source or _is_number(value):
                continue
            if value.producer in nodes:
                continue
            if value.producer is None or not _joins(value.producer) or len(nodes) == LIMIT:
                return None
            nodes.append(value.producer)
    for node in nodes:
        if node is not end and (node.output.is_output or any(user not in nodes for user in node.output.consumers)):
            return Refusal(f"'{node.output.name}' is also used elsewhere", node.output)
    return nodes[::-1]


def _sources(end: Node) -> list[Value]:
    """8-bit values that the result of ``end`` may be a function of, the farthest first."""
    found: dict[Value, None] = {}
    seen = [end]
    for node in seen:  # grows on the way
        for value in node.inputs:
            if value is None or _is_number(value):
                continue
            if is_byte(value):
                found[value] = None
            producer = value.producer
            if producer is not None and producer not in seen and _joins(producer) and len(seen) < LIMIT:
                seen.append(producer)
    return list(found)[::-1]


def _grow(end: Node) -> Iterator[Region | Refusal]:
    type_ = end.output.type
    if not _joins(end) or not isinstance(type_, TensorType) or not type_.is_static:
        return
    for source in _sources(end):
        if source.shape != end.output.shape:
            continue
        chain = _chain(end, source)
        if isinstance(chain, Refusal):
            yield chain
        elif chain is not None and len(chain) > 1:
            yield Region(tuple(chain), end)


FUNCTION = FuseRule(
    "byte-tables.function",
    FUNCTION_KIND,
    _grow,
    roots=_QUANTISING,
    root_classes=frozenset({OpClass.POINTWISE}),
    doc="""Look up in a table what a chain makes of an 8-bit number.

    Before: %y = QuantizeLinear(HardSwish(DequantizeLinear(%x, 0.05, 7)), 0.02, 3)       %x: u8
    After:  %y = Fused(%x) {kind = "byte-tables.function"}
    Any operators that work element by element, in any arrangement, with single constants for their other operands; the
    result may be of any type.
    Refuses when: something between is used elsewhere, or is a graph output.
    """,
)

PACK = RulePack("byte-tables", version("autofusion-contrib-byte-tables"), (FUNCTION,))
