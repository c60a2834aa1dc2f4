"""Losses, which some exported training graphs still hold."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Node
from autofusion.ir.operators import shapes
from autofusion.ir.operators.reduction import per_element
from autofusion.ir.operators.schema import OpClass, Operator, attribute, register
from autofusion.ir.types import Shape, Type


def _infer_loss(node: Node) -> Sequence[Type | None]:
    """Scores [N, C, ...] and labels [N, ...] -> a scalar, or one loss for each label; then the log probabilities."""
    scores, labels = shapes.rank_at_least(node, 0, 2), shapes.shape(node, 1)
    if scores is not None:
        labels = shapes.agree_shapes(node, labels, (scores[0], *scores[2:]), "shapes of labels and of scores without C")
    result: Shape | None = labels if attribute(node, "reduction") == "none" else ()
    dtype = shapes.dtype(node, 0)
    return shapes.of(dtype, result), shapes.of(dtype, scores)


def _register() -> None:
    attributes = {"ignore_index": None, "reduction": "mean"}
    register(
        Operator(
            "NegativeLogLikelihoodLoss",
            OpClass.REDUCTION,
            _infer_loss,
            2,
            3,
            attributes=attributes,
            work=per_element(1),
        )
    )
    register(
        Operator(
            "SoftmaxCrossEntropyLoss",
            OpClass.REDUCTION,
            _infer_loss,
            2,
            3,
            max_outputs=2,
            attributes=attributes,
            work=per_element(5, 1),
        )
    )


_register()
