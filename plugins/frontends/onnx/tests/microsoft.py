"""Operands and one-node models of onnxruntime's own operators, compared with its own kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from plugins.frontends.onnx.tests.onnx_models import check_against_ort, model

RNG = np.random.default_rng(0)


def f32(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def scalar(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def single(
    op: str, inputs: dict[str, np.ndarray | None], outputs: int = 1, *, atol: float = 1e-5, **attrs: Any
) -> None:
    """One node of the domain; operands that are None are absent. Constants are marked by a name in capitals."""
    names = [n if v is not None else "" for n, v in inputs.items()]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], "the_node", domain="com.microsoft", **attrs)
    constants = {n: v for n, v in inputs.items() if n.isupper()}
    fed = {n: v for n, v in inputs.items() if not n.isupper()}
    source = model([node], fed, node.output, constants=constants, domains={"com.microsoft": 1})
    graph = check_against_ort(source, fed, rtol=1e-4, atol=atol)
    assert {name.split("/")[0] for n in graph.nodes for name in n.origin} == {"the_node"}
