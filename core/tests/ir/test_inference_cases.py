"""Inference against the operator examples of onnx: their actual results, and onnx's own shape inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from autofusion.ir import TensorType, Type
from autofusion.ir import operators as ops
from autofusion.ir.infer import infer_graph
from autofusion.ir.verify import verify
from core.tests.ir.onnx_cases import Case, all_cases, graph_of, leaves, type_of

CASES = all_cases()
SINGLE = {name: case for name, case in CASES.items() if len(case.ops) == 1}

OTHER_VERSION = {
    "test_dft_axis_opset19": "axis as an attribute",
    "test_dft_inverse_opset19": "axis as an attribute",
    "test_dft_irfft_opset19": "axis as an attribute",
    "test_dft_opset19": "axis as an attribute",
    "test_dft_rfft_opset19": "axis as an attribute",
    "test_dropout_random_old": "ratio as an attribute",
    "test_loop11": "axes of Unsqueeze as an attribute",
    "test_scan_sum": "an operand for the lengths",
    "test_scatter_with_axis": "Scatter is ScatterElements by now",
    "test_scatter_without_axis": "Scatter is ScatterElements by now",
    "test_upsample_nearest": "Upsample is Resize by now",
    "test_cast_e8m0_FLOAT16_to_FLOAT8E8M0": "'round_mode' of version 24",
    "test_cast_e8m0_FLOAT_to_FLOAT8E8M0": "'round_mode' of version 24",
    "test_spacetodepth_crd_mode_example": "'mode' of version 28",
    "test_spacetodepth_dcr_mode_example": "'mode' of version 28",
}
"""Cases that are written for another version of the operator set, and how they show it."""

LATER_ATTENTION = {
    name
    for name, case in SINGLE.items()
    if case.ops == ["Attention"]
    and (
        len(case.model.graph.node[0].input) > 6
        or any(a.name in ("left_window_size", "right_window_size") for a in case.model.graph.node[0].attribute)
    )
}
"""Padding lengths (version 24) and windows (version 25) are not in version 23."""

UNKNOWN_BY_NATURE = {
    "Identity": "of a sequence whose element type says no rank",
    "ImageDecoder": "the size of the image is in the stream",
    "Loop": "results may be the initial values, whose shape differs",
    "NonMaxSuppression": "how many boxes stay is data",
    "SequenceInsert": "into a sequence whose element type says no rank",
    "SequenceMap": "elements differ in shape",
    "SplitToSequence": "the parts differ in size",
    "StringNormalizer": "how many strings stay is data",
    "StringSplit": "the greatest number of parts is data",
    "Unique": "how many elements are distinct is data",
}
"""Operators whose result dims need not be known even if all operands are."""

RUNNABLE = sorted(set(SINGLE) - set(OTHER_VERSION) - LATER_ATTENTION)


def _disagreement(type_: Type | None, array: np.ndarray, *, exact: bool) -> str | None:
    """How an inferred type contradicts an actual result (or says less, if it must be exact)."""
    if not isinstance(type_, TensorType):
        return f"{type_} for an array"
    if type_.dtype != array.dtype:
        return f"{type_}, but the result is {array.dtype}"
    if type_.shape is None:
        return "no rank" if exact else None
    if len(type_.shape) != array.ndim:
        return f"{type_}, but the result is {array.shape}"
    for dim, size in zip(type_.shape, array.shape, strict=True):
        if dim is None:
            if exact:
                return f"{type_} leaves open a dim of {array.shape}"
        elif dim not in (size, f"d{size}"):
            return f"{type_}, but the result is {array.shape}"
    return None


def _check(case: Case, *, exact: bool = False, **form: bool) -> None:
    graph = graph_of(case, **form)
    infer_graph(graph, bodies=True)
    verify(graph)
    for value, data in zip(graph.outputs, case.outputs, strict=True):
        for type_, array in leaves(value.type, data):
            if array.dtype == object and array.ndim == 0 and array[()] is None:
                continue  # a list under an unknown type
            problem = _disagreement(type_, array, exact=exact)
            assert problem is None, f"'{value.name}': {problem}"


@pytest.mark.parametrize("name", RUNNABLE)
def test_static_operands(name: str) -> None:
    """With operands of static type nothing that is inferred contradicts the result."""
    _check(SINGLE[name])


@pytest.mark.parametrize("name", RUNNABLE)
def test_symbolic_operands(name: str) -> None:
    """Every symbol that comes out stands for the size that the result has."""
    _check(SINGLE[name], symbols=True)


@pytest.mark.parametrize("name", [n for n in RUNNABLE if SINGLE[n].ops[0] not in UNKNOWN_BY_NATURE])
def test_constant_operands(name: str) -> None:
    """With constant operands every dim of the result is known."""
    _check(SINGLE[name], constants=True, exact=True)


def test_exceptions_are_all_needed() -> None:
    """A case that would pass by now must leave the lists."""
    for name in (*OTHER_VERSION, *LATER_ATTENTION):
        with pytest.raises(Exception):  # noqa: B017  (any way of not fitting will do)
            _check(SINGLE[name])
    for op in UNKNOWN_BY_NATURE:
        with pytest.raises(AssertionError):
            for name in RUNNABLE:
                if SINGLE[name].ops == [op]:
                    _check(SINGLE[name], constants=True, exact=True)


MULTI = sorted(name for name, case in CASES.items() if len(case.ops) > 1)


def test_whole_graphs_of_cases_written_in_several_operators() -> None:
    """The same examples expanded into more basic operators: inference over graphs and their control flow."""
    ran = 0
    for name in MULTI:
        case = CASES[name]
        if _is_current(case):
            _check(case)
            _check(case, symbols=True)
            ran += 1
    assert ran > 100


def _is_current(case: Case) -> bool:
    """True if all attributes and operand counts are those of our version."""
    for node in case.model.graph.node:
        operator = ops.find(node.op_type)
        least, most = operator.input_range if operator else (0, None)
        if operator is None or len(node.input) < least or (most is not None and len(node.input) > most):
            return False
        if any(a.name not in operator.attributes for a in node.attribute):
            return False
    return True


@pytest.mark.parametrize("name", RUNNABLE)
def test_as_much_is_known_as_onnx_knows(name: str) -> None:
    """Where onnx's inference gives a dim, ours gives the same one."""
    case = SINGLE[name]
    graph = graph_of(case)
    infer_graph(graph, bodies=True)
    for value, expected in zip(graph.outputs, _onnx_types(case), strict=True):
        if not isinstance(expected, TensorType) or expected.shape is None:
            continue
        assert isinstance(value.type, TensorType)
        assert value.type.dtype == expected.dtype
        if value.type.shape is None:
            assert all(not isinstance(d, int) for d in expected.shape)
            continue
        assert len(value.type.shape) == len(expected.shape)
        for ours, theirs in zip(value.type.shape, expected.shape, strict=True):
            if isinstance(theirs, int):
                assert ours == theirs


def _onnx_types(case: Case) -> list[Any]:
    """What onnx infers for the outputs once the shapes that the model states for them are taken away."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return [None] * len(model.graph.output)
    return [type_of(o.type) for o in model.graph.output]
