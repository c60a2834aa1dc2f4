"""Random generators and samplers. None is deterministic: neither folded nor deduplicated, even with a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofusion.ir.dtypes import F32
from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.schema import REQUIRED, OpClass, Operator, attribute, register
from autofusion.ir.types import TensorType, Type


def _infer_random(node: Node) -> Sequence[Type | None]:
    return shapes.only(shapes.of(shapes.dtype_attribute(node, "dtype") or F32, attribute(node, "shape")))


def _infer_like(node: Node) -> Sequence[Type | None]:
    dtype = shapes.dtype_attribute(node, "dtype") or shapes.dtype(node, 0)
    return shapes.only(shapes.of(dtype, shapes.shape(node, 0)))


def _infer_multinomial(node: Node) -> Sequence[Type | None]:
    dims = shapes.rank_is(node, 0, 2)
    dtype = shapes.dtype_attribute(node, "dtype") or np.dtype(np.int32)
    return shapes.only(TensorType(dtype, (dims[0] if dims else None, attribute(node, "sample_size"))))


def _register() -> None:
    opaque = OpClass.OPAQUE
    for name, own in (("Normal", {"mean": 0.0, "scale": 1.0}), ("Uniform", {"high": 1.0, "low": 0.0})):
        register(
            Operator(
                f"Random{name}",
                opaque,
                _infer_random,
                0,
                0,
                attributes={"dtype": F32, "seed": None, "shape": REQUIRED, **own},
                deterministic=False,
            )
        )
        register(
            Operator(
                f"Random{name}Like",
                opaque,
                _infer_like,
                attributes={"dtype": None, "seed": None, **own},
                deterministic=False,
            )
        )
    register(Operator("Bernoulli", opaque, _infer_like, attributes={"dtype": None, "seed": None}, deterministic=False))
    register(
        Operator(
            "Multinomial",
            opaque,
            _infer_multinomial,
            attributes={"dtype": np.dtype(np.int32), "sample_size": 1, "seed": None},
            deterministic=False,
        )
    )


_register()
