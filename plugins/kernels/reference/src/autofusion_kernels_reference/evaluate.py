"""Run one node, or a whole graph, with the reference kernels: ``evaluate`` and ``run_graph``.

Everything that holds for every operator is done here, once: the results are fresh arrays in row-major order, of the
declared type, and an error names the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import FUSED, Graph, Node, Value
from autofusion.ir.types import Shape, TensorType
from autofusion.kernels import AutofusionError, InputError, KernelError, nearest, require_own
from autofusion_kernels_reference import (
    attention,
    cast,
    columns,
    contraction,
    control,
    convolution,
    deformable,
    detection,
    indexing,
    losses,
    movement,
    normalization,
    pointwise,
    pooling,
    quantize,
    random,
    recurrent,
    reduction,
    regions,
    resize,
    sampling,
    sequence,
    signal,
    strings,
)
from autofusion_kernels_reference.support import Inputs, OpFunction

_FAMILIES = (
    attention,
    cast,
    columns,
    contraction,
    convolution,
    deformable,
    detection,
    indexing,
    losses,
    movement,
    normalization,
    pointwise,
    pooling,
    quantize,
    random,
    recurrent,
    reduction,
    regions,
    resize,
    sampling,
    sequence,
    signal,
    strings,
)


def _collect() -> dict[str, OpFunction]:
    merged: dict[str, OpFunction] = {}
    for family in _FAMILIES:
        for name, function in family.OPS.items():
            assert name not in merged, f"operator '{name}' is in two families"
            merged[name] = function
    return merged


OPS: dict[str, OpFunction] = _collect()


def is_known(op: str) -> bool:
    """True if a node of that operator can be evaluated (its own body aside)."""
    return op in OPS or op in control.OPS or op == FUSED


def function_of(node: Node) -> Callable[[Inputs], list[Any]]:
    """What runs ``node``: a function of its operands (None where absent), to call as often as wanted."""
    if node.op == FUSED:
        body = node.body
        run: Callable[[Inputs], Sequence[Any]] = lambda inputs: run_graph(body, inputs)  # noqa: E731
    elif node.op in OPS:
        function = OPS[node.op]
        run = lambda inputs: function(node, inputs)  # noqa: E731
    elif node.op in control.OPS:
        controlled = control.OPS[node.op]
        run = lambda inputs: controlled(node, inputs, run_graph)  # noqa: E731
    else:
        hint = nearest(node.op, OPS)
        raise KernelError(f"{node.label} cannot be evaluated: the reference kernels have no '{node.op}'{hint}")

    def checked(inputs: Inputs) -> list[Any]:
        try:
            with np.errstate(all="ignore"):
                results = run(inputs)
        except AutofusionError:
            raise
        except Exception as error:
            require_own(error)
            what = f"{type(error).__name__}: {error}"
            raise KernelError(f"{node.label} with operands {_describe(inputs)}: {what}") from error
        if len(results) < len(node.outputs):
            raise KernelError(f"{node.label} has {len(node.outputs)} results, but its operator makes {len(results)}")
        return [_result(node, value, y, inputs) for value, y in zip(node.outputs, results, strict=False)]

    return checked


def evaluate(node: Node, inputs: Inputs) -> list[Any]:
    """The results of ``node`` for operand values ``inputs`` (arrays, lists for sequences, None where absent).

    Results are fresh C-contiguous arrays of the declared element type. Raise KernelError if the operator is unknown, if
    the operands do not fit it, or if a result does not have the type that the graph declares.
    """
    return function_of(node)(inputs)


def run_graph(graph: Graph, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    """The outputs of ``graph``, in order. ``inputs`` are by name, or by position (None takes the input's default)."""
    values: dict[Value, Any] = {}
    given = inputs if isinstance(inputs, Mapping) else dict(zip((v.name for v in graph.inputs), inputs, strict=True))
    unknown = set(given) - {v.name for v in graph.inputs}
    if unknown:
        name = sorted(unknown)[0]
        raise InputError(f"graph '{graph.name}' has no input '{name}'{nearest(name, [v.name for v in graph.inputs])}")
    for value in graph.inputs:
        fed = given.get(value.name)
        if fed is None and value.default is None and value.name not in given:
            raise InputError(f"input '{value.name}' of graph '{graph.name}' is missing")
        values[value] = value.default if fed is None else fed
    remaining = {v: v.use_count for v in graph.values()}
    for node in graph.nodes:
        operands = [None if v is None else v.const if v.const is not None else values[v] for v in node.inputs]
        for value, result in zip(node.outputs, evaluate(node, operands), strict=False):
            values[value] = result
        for value in node.inputs:
            if value is not None and value.const is None:
                remaining[value] -= 1
                if not remaining[value]:  # whole networks run here: free what nobody reads any more
                    del values[value]
    return [v.const if v.const is not None else values[v] for v in graph.outputs]


def _describe(inputs: Inputs) -> str:
    return ", ".join(_type_text(x) if isinstance(x, np.ndarray) else type(x).__name__ for x in inputs)


def _type_text(x: np.ndarray) -> str:
    return f"{x.dtype.name}{list(x.shape)}"


def _fresh(y: Any, inputs: Inputs) -> np.ndarray:
    array = np.asarray(y, order="C")
    if array.dtype.kind in "US":
        array = array.astype(object)
    owned = array.base is None and array.flags.writeable and all(array is not x for x in inputs)
    return array if owned else array.copy()


def _result(node: Node, value: Value, y: Any, inputs: Inputs) -> Any:
    if y is None:
        return None
    if isinstance(y, list):
        return [_fresh(item, inputs) for item in y]
    array = _fresh(y, inputs)
    declared = value.type
    if isinstance(declared, TensorType) and not (array.dtype == declared.dtype and _fits(array.shape, declared.shape)):
        raise KernelError(
            f"{node.label} gives '{value.name}' as {_type_text(array)}, but the graph declares {declared}: "
            "either the operator's inference or its reference kernel is wrong"
        )
    return array


def _fits(shape: tuple[int, ...], declared: Shape | None) -> bool:
    if declared is None:
        return True
    return len(shape) == len(declared) and all(
        not isinstance(d, int) or d == n for d, n in zip(declared, shape, strict=True)
    )
