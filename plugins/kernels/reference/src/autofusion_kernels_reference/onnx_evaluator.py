"""The long tail of operators, run one node at a time by the evaluator that ships with ``onnx``.

Only what is not written out in the families goes here: signal processing, text, sampling grids, losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autofusion.ir.graph import Graph, Node
from autofusion.ir.operators.schema import OPSET
from autofusion.kernels import KernelError
from autofusion_kernels_reference.support import Inputs

TAIL = frozenset(
    {
        "AffineGrid",
        "BlackmanWindow",
        "Col2Im",
        "DFT",
        "DeformConv",
        "GridSample",
        "HammingWindow",
        "HannWindow",
        "ImageDecoder",
        "MelWeightMatrix",
        "NegativeLogLikelihoodLoss",
        "RegexFullMatch",
        "RoiAlign",
        "STFT",
        "SoftmaxCrossEntropyLoss",
        "StringConcat",
        "StringNormalizer",
        "StringSplit",
        "TfIdfVectorizer",
    }
)


def _attribute(node: Node, name: str, value: Any) -> Any:
    import onnx

    if isinstance(value, Graph):
        raise KernelError(f"{node.label} has a body, which the onnx evaluator cannot run")
    if isinstance(value, np.dtype):
        value = onnx.helper.np_dtype_to_tensor_dtype(value)
    elif isinstance(value, np.ndarray):
        value = onnx.numpy_helper.from_array(value)
    return onnx.helper.make_attribute(name, value)


def _evaluator(node: Node, inputs: Inputs) -> Any:
    """An evaluator of a one-node model; operator bodies that depend on types are chosen by the actual operands."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    results = [f"y{i}" for i in range(len(node.outputs))]
    proto = onnx.helper.make_node(node.op, names, results)
    proto.attribute.extend(_attribute(node, k, v) for k, v in node.attrs.items())
    operands = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    graph = onnx.helper.make_graph([proto], "node", operands, [onnx.ValueInfoProto(name=r) for r in results])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    return ReferenceEvaluator(model)


def tail_function(node: Node) -> Callable[[Inputs], list[Any]]:
    """A function that runs ``node``; the evaluator is made at the first run and kept while the operand types stay."""
    made: dict[Any, Any] = {}

    def run(inputs: Inputs) -> list[Any]:
        key = tuple(None if x is None else (x.dtype, x.ndim) for x in inputs)
        if key not in made:
            made[key] = _evaluator(node, inputs)
        feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
        return [np.asarray(y) for y in made[key].run(None, feeds)]

    return run
