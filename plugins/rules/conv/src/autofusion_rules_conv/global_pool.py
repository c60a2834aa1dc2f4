"""The mean over all spatial axes, which some frameworks write as a reduction, as the pooling that it is.

Pooling works on feature maps in whatever layout the convolutions leave them; a reduction over named axes need not.
"""

from __future__ import annotations

from autofusion.ir.graph import Node, Value
from autofusion.ir.operators import attribute
from autofusion.rules import Builder, Match, RewriteRule, Stage, ints, is_float, normal_axis, op, var


def _over_space(node: Node) -> bool:
    """True if exactly the axes behind batch and channels are averaged, and there are at least two of them."""
    x, axes = node.inputs[0], ints(node.operand(1))
    if not is_float(x) or x is None or x.shape is None or axes is None or len(x.shape) < 4:
        return False
    rank = len(x.shape)
    return sorted(normal_axis(a, rank) for a in axes) == list(range(2, rank))


def _pool(match: Match, builder: Builder) -> list[Value]:
    node = match.root
    pooled = builder.op("GlobalAveragePool", match["x"], name=node.name)
    if attribute(node, "keepdims"):
        return [pooled]
    return [builder.op("Flatten", pooled, name=node.name, axis=1)]


GLOBAL_AVERAGE_POOL = RewriteRule(
    "conv.global_average_pool",
    op("ReduceMean", var("x"), open_inputs=True, where=_over_space),
    _pool,
    stage=Stage.FOLD,
    # onnxruntime adds up a pooling one by one, and loses a digit that it keeps in a reduction.
    portable=False,
    doc="""Write the mean of each feature map as a pooling.

    Before: %y = ReduceMean(%x, [2, 3]) {keepdims = 0}             %x: [N, C, H, W]
    After:  %y = Flatten(GlobalAveragePool(%x))
    Without the Flatten where the axes are kept.
    Refuses when: other axes are averaged; there are less than two spatial axes; the axes are computed.
    """,
)

RULES = (GLOBAL_AVERAGE_POOL,)
