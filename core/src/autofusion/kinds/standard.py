"""The kinds that come with the project. One object is all there is to a kind."""

from __future__ import annotations

from autofusion.ir.operators import OpClass
from autofusion.kinds.attention import ATTENTION
from autofusion.kinds.kind import FusedKind

CONV = FusedKind(
    "conv",
    anchors=("Conv", "ConvTranspose"),
    body="a convolution, then any pointwise operators",
    operands="weights; by channel, by channel and image, or of the result's shape",
)
MATMUL = FusedKind(
    "matmul",
    version="1.1",
    anchors=("Gemm", "MatMul"),
    inner=("Transpose",),
    body="a matrix product, then any pointwise operators; its factors may be transposed and multiplied by a number",
    operands="the factors, and whatever broadcasts to the result",
)
_QUANTISERS = ("DequantizeLinear", "Gather", "QuantizeLinear")
"""A Gather looks 8-bit integers up in a table of 256."""
INTEGER_CONV = FusedKind(
    "integer_conv",
    anchors=("ConvInteger",),
    inner=_QUANTISERS,
    body="a convolution of integers, then any pointwise operators, QuantizeLinear and DequantizeLinear with one scale "
    "and lookups (Gather) in tables of 256 among them; operands may be dequantised",
    operands="weights; by channel, by channel and image, or of the result's shape",
)
INTEGER_MATMUL = FusedKind(
    "integer_matmul",
    version="1.1",
    anchors=("MatMulInteger",),
    inner=_QUANTISERS,
    body="a product of integers, then any pointwise operators, QuantizeLinear and DequantizeLinear with one scale "
    "and lookups (Gather) in tables of 256 among them; operands may be dequantised",
    operands="whatever broadcasts to the result",
)
SOFTMAX = FusedKind(
    "softmax",
    anchors=("LogSoftmax", "Softmax"),
    body="a softmax, with pointwise operators before and behind it",
    operands="whatever broadcasts to the result",
)
LAYER_NORM = FusedKind(
    "layer_norm",
    anchors=(
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "LpNormalization",
        "MeanVarianceNormalization",
        "RMSNormalization",
    ),
    body="a normalisation, with pointwise operators before and behind it; what is normalised may be a result too",
    operands="whatever broadcasts to the result",
)
REDUCTION = FusedKind(
    "reduction",
    version="1.1",
    anchors=(
        "ArgMax",
        "ArgMin",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    ),
    body="a reduction, with pointwise operators before and behind it; behind these, pointwise operators of the "
    "operand's shape again, which read the reduced values (a division by the sum)",
    operands="whatever broadcasts to the operand; behind the reduction, to its result",
)
POINTWISE = FusedKind(
    "pointwise",
    version="1.1",
    inner=_QUANTISERS,
    classes=frozenset({OpClass.POINTWISE}),
    body="pointwise operators over one shape, QuantizeLinear and DequantizeLinear with one scale and "
    "lookups (Gather) in tables of 256 among them",
    operands="whatever broadcasts to that shape",
)

STANDARD = (ATTENTION, CONV, INTEGER_CONV, INTEGER_MATMUL, LAYER_NORM, MATMUL, POINTWISE, REDUCTION, SOFTMAX)
