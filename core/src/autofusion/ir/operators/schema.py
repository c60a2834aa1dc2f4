"""Operator schemas: what core knows about an operator, and the registry that plugins may extend.

Operator names and semantics are those of the ONNX operator set at version ``OPSET``, whatever version the source
model had: frontends upgrade. An operator without a schema is legal (it is opaque: its results have unknown types and
nothing fuses over it), so that a model with one exotic operator still runs fused around it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autofusion.errors import GraphError, PluginError, nearest
from autofusion.ir.graph import FUSED, Node, Value
from autofusion.ir.types import TensorType, Type

OPSET = 23
"""The one version of the ONNX operator set whose semantics the IR has."""


class OpClass(enum.Enum):
    """How an operator touches memory; region rules and the cost model go by it."""

    POINTWISE = "pointwise"
    """Each output element depends on the operand elements at its (trailing broadcast) position only."""
    REDUCTION = "reduction"
    """Reduces over axes, or normalises along them (ReduceMean, Softmax, LayerNormalization, pooling)."""
    CONTRACTION = "contraction"
    """Sums of products with reuse: Conv, MatMul, Gemm, recurrent layers."""
    MOVEMENT = "movement"
    """Moves elements without arithmetic: Reshape, Transpose, Concat, Slice, Gather, Pad."""
    OPAQUE = "opaque"
    """Everything else; never fused."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one run of a node does, whoever runs it.

    ``flops`` counts a multiply-add as two; ``transcendentals`` counts evaluations of exp, erf, tanh and their like;
    bytes are compulsory traffic (each operand read once, each result written once).
    """

    flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    transcendentals: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.flops + other.flops,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            self.transcendentals + other.transcendentals,
        )


REQUIRED = object()
"""Default of an attribute that a node must state."""

PARAMETER_ELEMENTS = 64
"""Integer constants of at most so many elements are parameters (axes, shapes): they decide what a node does, where
larger constants are data that it works on."""

DTYPE_ATTRIBUTES = frozenset(
    {"dtype", "output_datatype", "output_dtype", "precision", "softmax_precision", "stash_type", "to"}
)
"""Attributes of the default domain that name an element type: their value is a ``numpy.dtype`` (None: unstated)."""

InferFunction = Callable[[Node], Sequence[Type | None]]
WorkFunction = Callable[[Node], Work]


@dataclass(frozen=True, slots=True)
class Operator:
    """Schema of one operator.

    ``infer`` returns one type (or None) for each output from operand types, constants (``value.const``) and attributes;
    types past the outputs that the node has are ignored; it raises ShapeError if the operands do not fit. ``work`` gets
    a node with static types; None means: count the bytes and one operation an element. ``deterministic`` operators may
    be constant-folded and deduplicated. The operands of a ``commutative`` one may be exchanged. The first result of a
    ``view`` is its first operand's elements in the same order: none need move.
    ``outputs`` is the number of results, or their least number if ``max_outputs`` is not 0; None means: any number.
    ``subgraphs`` names the attributes that hold body graphs; see ``operators.control`` for how operands reach them.
    """

    name: str
    op_class: OpClass
    infer: InferFunction
    min_inputs: int = 1
    max_inputs: int | None = 1
    outputs: int | None = 1
    max_outputs: int | None = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    work: WorkFunction | None = None
    deterministic: bool = True
    subgraphs: tuple[str, ...] = ()
    commutative: bool = False
    view: bool = False

    @property
    def input_range(self) -> tuple[int, int | None]:
        """Least and greatest number of operands."""
        return self.min_inputs, self.max_inputs

    @property
    def output_range(self) -> tuple[int, int | None]:
        """Least and greatest number of results."""
        if self.outputs is None:
            return 0, None
        return self.outputs, self.outputs if self.max_outputs == 0 else self.max_outputs


_REGISTRY: dict[str, Operator] = {}
COMMUTATIVE: set[str] = set()
"""The registered operators that are commutative: for the matcher, which asks at every node. Only ``register`` adds."""


def single(value: float) -> float:
    """``value`` rounded to single precision: the operator set states the defaults of its attributes in that."""
    return float(np.float32(value))


def register(operator: Operator) -> Operator:
    """Add a schema; raise PluginError if another one has the name."""
    if _REGISTRY.get(operator.name, operator) != operator:
        raise PluginError(f"operator '{operator.name}' already has another schema; choose a name in your own domain")
    _REGISTRY[operator.name] = operator
    if operator.commutative:
        COMMUTATIVE.add(operator.name)
    return operator


def find(name: str) -> Operator | None:
    """The schema of ``name``, or None if the operator is opaque."""
    return _REGISTRY.get(name)


def known_names() -> list[str]:
    """Every operator name with a schema, sorted."""
    return sorted(_REGISTRY)


def names(where: Callable[[Operator], bool]) -> tuple[str, ...]:
    """The names of the operators for whose schema ``where`` holds, sorted."""
    return tuple(name for name in known_names() if where(_REGISTRY[name]))


def is_commutative(name: str) -> bool:
    """True if the operands of that operator may be exchanged without changing the result."""
    return name in COMMUTATIVE


def is_view(name: str) -> bool:
    """True if the first result of that operator is its first operand's elements in the same order."""
    operator = _REGISTRY.get(name)
    return operator is not None and operator.view


def op_class(node: Node) -> OpClass:
    """The class of the node's operator; OPAQUE without a schema."""
    operator = _REGISTRY.get(node.op)
    return OpClass.OPAQUE if operator is None else operator.op_class


def arity_problem(node: Node, operator: Operator) -> str | None:
    """What is wrong with the number of the node's operands or results, or None."""
    return _outside("operands", len(node.inputs), *operator.input_range) or _outside(
        "results", len(node.outputs), *operator.output_range
    )


def _outside(what: str, count: int, least: int, most: int | None) -> str | None:
    if count >= least and (most is None or count <= most):
        return None
    wanted = f"at least {least}" if most is None else str(least) if least == most else f"{least} to {most}"
    return f"expected {wanted} {what}, found {count}"


def attribute(node: Node, name: str) -> Any:
    """The node's attribute, or the schema's default; raise GraphError if there is neither."""
    if name in node.attrs:
        return node.attrs[name]
    operator = _REGISTRY.get(node.op)
    if operator is None:
        raise GraphError(f"{node.label} has no attribute '{name}', and '{node.op}' has no schema with a default")
    if name not in operator.attributes:
        raise GraphError(f"'{node.op}' has no attribute '{name}'{nearest(name, operator.attributes)}")
    default = operator.attributes[name]
    if default is REQUIRED:
        raise GraphError(f"{node.label} must state attribute '{name}'")
    return default


def traffic(node: Node) -> tuple[float, float]:
    """Compulsory bytes (read, written) of a node with static tensor types; an operand used twice is read once."""
    read = sum(_nbytes(v) for v in dict.fromkeys(node.inputs) if v is not None)
    return float(read), float(sum(_nbytes(v) for v in node.outputs))


def work(node: Node) -> Work:
    """The node's work. For a fused node: the body's arithmetic, but only the traffic of its own operands."""
    read, written = traffic(node)
    if node.op == FUSED:
        inner = sum((work(n) for n in node.body.nodes), Work())
        return Work(inner.flops, read, written, inner.transcendentals)
    operator = _REGISTRY.get(node.op)
    if operator is not None and operator.work is not None:
        return operator.work(node)
    elements = sum(v.tensor.numel for v in node.outputs if _is_static(v))
    return Work(float(elements), read, written)


def _is_static(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.is_static


def _nbytes(value: Value) -> int:
    return value.tensor.nbytes if _is_static(value) else 0
