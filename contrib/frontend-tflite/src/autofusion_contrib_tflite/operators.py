"""One converter for each TensorFlow Lite operator: the operators of the IR that say the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tflite

from autofusion.frontends import UnsupportedOperatorError
from autofusion.ir.graph import Value
from autofusion.ir.infer import infer_node
from autofusion_contrib_tflite.reader import DTYPES, Reader

_TO_NCHW, _TO_NHWC = [0, 3, 1, 2], [0, 2, 3, 1]


class Call:
    """One operator of the file: its operands, options, and a way to make nodes that stand for it."""

    def __init__(self, reader: Reader, name: str, operands: list[int], results: list[int], options: Any) -> None:
        self._reader, self._name, self._operands = reader, name, operands
        self.results, self._options = results, options

    def options(self, kind: str) -> Any:
        """The operator's options, of that class of the schema."""
        made = getattr(tflite, kind)()
        if self._options is not None:
            made.Init(self._options.Bytes, self._options.Pos)
            return made
        raise UnsupportedOperatorError("it has no options, which it needs")

    def has(self, index: int) -> bool:
        """True if the operand is there."""
        return index < len(self._operands) and self._operands[index] >= 0

    def x(self, index: int = 0) -> Value:
        """Operand ``index``."""
        if not self.has(index):
            raise UnsupportedOperatorError(f"its operand {index} is missing")
        return self._reader.value(self._operands[index])

    @property
    def all(self) -> list[Value]:
        """Every operand."""
        return [self.x(i) for i in range(len(self._operands))]

    def data(self, index: int) -> np.ndarray:
        """The data of a constant operand."""
        value = self.x(index)
        if value.const is None:
            raise UnsupportedOperatorError(f"its operand {index} ('{value.name}') is computed, expected a constant")
        return value.const

    def node(self, op: str, *operands: Value | None, outputs: int = 1, **attrs: Any) -> Any:
        """A new node; its result, or a list of several. Types are inferred at once, since converters look at ranks."""
        node = self._reader.graph_.node(op, operands, attrs, outputs=outputs, name=self._name, origin=[self._name])
        infer_node(node)
        return node.output if outputs == 1 else list(node.outputs)

    def constant(self, data: Any, dtype: Any = np.int64) -> Value:
        """A new constant."""
        return self._reader.graph_.constant(np.asarray(data, dtype), f"{self._name}.const")

    def integers(self, index: int) -> Value:
        """Operand ``index`` as the 64-bit integers that shapes and axes are."""
        value = self.x(index)
        if value.const is not None:
            return self.constant(value.const)
        return self.node("Cast", value, to=np.dtype(np.int64))

    def activated(self, value: Value, code: int) -> Value:
        """``value`` behind the activation that is fused into its operator."""
        kinds = tflite.ActivationFunctionType
        if code == kinds.NONE:
            return value
        if code == kinds.RELU:
            return self.node("Relu", value)
        if code in (kinds.RELU6, kinds.RELU_N1_TO_1):
            return self.clipped(value, *((0, 6) if code == kinds.RELU6 else (-1, 1)))
        if code == kinds.TANH:
            return self.node("Tanh", value)
        raise UnsupportedOperatorError(f"its fused activation {code} is not read")

    def clipped(self, value: Value, low: float, high: float) -> Value:
        """``value`` between two numbers."""
        return self.node("Clip", value, self.constant(low, value.dtype), self.constant(high, value.dtype))

    def rank(self, index: int = 0) -> int:
        """Number of axes of an operand."""
        shape = self.x(index).shape
        if shape is None:
            raise UnsupportedOperatorError(f"the rank of its operand {index} is not known")
        return len(shape)


Converter = Callable[[Call], Any]


def _same(op: str, call: Call) -> Value:
    return call.node(op, *call.all)


def _arithmetic(op: str, options: str, call: Call) -> Value:
    return call.activated(call.node(op, call.x(0), call.x(1)), call.options(options).FusedActivationFunction())


# ---- images ---------------------------------------------------------------------------------------------------------


def _window(options: Any) -> dict[str, Any]:
    same = options.Padding() == tflite.Padding.SAME
    strides = [options.StrideH(), options.StrideW()]
    return {"strides": strides, "auto_pad": "SAME_UPPER" if same else "VALID"}


def _weights(call: Call, index: int, perm: Sequence[int]) -> Value:
    value = call.x(index)
    if value.const is not None:
        return call.constant(np.ascontiguousarray(value.const.transpose(perm)), value.dtype)
    return call.node("Transpose", value, perm=list(perm))


def _conv(call: Call, depthwise: bool = False) -> Value:
    options = call.options("DepthwiseConv2DOptions" if depthwise else "Conv2DOptions")
    attrs = _window(options) | {"dilations": [options.DilationHFactor(), options.DilationWFactor()]}
    x = call.node("Transpose", call.x(0), perm=_TO_NCHW)
    channels, kernel = x.shape[1], call.x(1).shape
    if not isinstance(channels, int) or kernel is None:
        raise UnsupportedOperatorError("the number of channels is not known")
    if depthwise:
        weights, attrs["group"] = _weights(call, 1, (3, 0, 1, 2)), channels
    else:
        weights, attrs["group"] = _weights(call, 1, (0, 3, 1, 2)), channels // int(kernel[3])  # type: ignore[arg-type]
    y = call.node("Conv", x, weights, call.x(2) if call.has(2) else None, **attrs)
    return call.activated(call.node("Transpose", y, perm=_TO_NHWC), options.FusedActivationFunction())


def _transpose_conv(call: Call) -> Value:
    options = call.options("TransposeConvOptions")
    wanted = [int(d) for d in call.data(0)]
    x = call.node("Transpose", call.x(2), perm=_TO_NCHW)
    weights = _weights(call, 1, (3, 0, 1, 2))
    strides = [options.StrideH(), options.StrideW()]
    sizes = zip(wanted[1:3], x.shape[2:], weights.shape[2:], strides, strict=True)
    total = [(n - 1) * s + k - out for out, n, k, s in sizes]
    pads = [max(t, 0) for t in total]
    y = call.node(
        "ConvTranspose",
        x,
        weights,
        call.x(3) if call.has(3) else None,
        strides=strides,
        pads=[p // 2 for p in pads] + [p - p // 2 for p in pads],
        output_padding=[max(-t, 0) for t in total],
    )
    return call.activated(call.node("Transpose", y, perm=_TO_NHWC), options.FusedActivationFunction())


def _pool(op: str, call: Call) -> Value:
    options = call.options("Pool2DOptions")
    x = call.node("Transpose", call.x(0), perm=_TO_NCHW)
    y = call.node(op, x, kernel_shape=[options.FilterHeight(), options.FilterWidth()], **_window(options))
    return call.activated(call.node("Transpose", y, perm=_TO_NHWC), options.FusedActivationFunction())


def _resize(mode: str, call: Call) -> Value:
    options = call.options("ResizeBilinearOptions" if mode == "linear" else "ResizeNearestNeighborOptions")
    x = call.node("Transpose", call.x(0), perm=_TO_NCHW)
    height, width = (int(n) for n in call.data(1))
    batch, channels = x.shape[:2]
    if not isinstance(batch, int) or not isinstance(channels, int):
        raise UnsupportedOperatorError("the batch and channels of its operand are not known")
    place = "asymmetric"
    if options.AlignCorners():
        place = "align_corners"
    elif options.HalfPixelCenters():
        place = "half_pixel" if mode == "linear" else "tf_half_pixel_for_nn"
    nearest = "round_prefer_ceil" if options.AlignCorners() else "floor"
    attrs = {"mode": mode, "coordinate_transformation_mode": place, "nearest_mode": nearest}
    y = call.node("Resize", x, None, None, call.constant([batch, channels, height, width]), **attrs)
    return call.node("Transpose", y, perm=_TO_NHWC)


# ---- products -------------------------------------------------------------------------------------------------------


def _fully_connected(call: Call) -> Value:
    options = call.options("FullyConnectedOptions")
    x, weights = call.x(0), _weights(call, 1, (1, 0))
    if not options.KeepNumDims():
        assert weights.shape is not None
        x = call.node("Reshape", x, call.constant([-1, weights.shape[0]]))
    y = call.node("MatMul", x, weights)
    y = call.node("Add", y, call.x(2)) if call.has(2) else y
    return call.activated(y, options.FusedActivationFunction())


def _batch_matmul(call: Call) -> Value:
    options = call.options("BatchMatMulOptions")
    operands = []
    for index, turned in ((0, options.AdjX()), (1, options.AdjY())):
        rank = call.rank(index)
        perm = [*range(rank - 2), rank - 1, rank - 2]
        operands.append(call.node("Transpose", call.x(index), perm=perm) if turned else call.x(index))
    return call.node("MatMul", *operands)


# ---- along axes -----------------------------------------------------------------------------------------------------


def _reduce(op: str, call: Call) -> Value:
    keep = int(call.options("ReducerOptions").KeepDims())
    axes = [int(a) for a in np.atleast_1d(call.data(1))]
    return call.node(op, call.x(0), call.constant(axes), keepdims=keep)


def _arg(op: str, options: str, call: Call) -> Value:
    axis = int(np.atleast_1d(call.data(1))[0])
    y = call.node(op, call.x(0), axis=axis, keepdims=0)
    return call.node("Cast", y, to=DTYPES[call.options(options).OutputType()])


def _softmax(call: Call) -> Value:
    beta = float(call.options("SoftmaxOptions").Beta())
    x = call.x(0) if beta == 1.0 else call.node("Mul", call.x(0), call.constant(beta, call.x(0).dtype))
    return call.node("Softmax", x, axis=-1)


# ---- shapes ---------------------------------------------------------------------------------------------------------


def _reshape(call: Call) -> Value:
    if call.has(1):
        return call.node("Reshape", call.x(0), call.integers(1))
    options = call.options("ReshapeOptions")
    return call.node(
        "Reshape", call.x(0), call.constant([options.NewShape(i) for i in range(options.NewShapeLength())])
    )


def _squeeze(call: Call) -> Value:
    options = call.options("SqueezeOptions")
    axes = [options.SqueezeDims(i) for i in range(options.SqueezeDimsLength())]
    return call.node("Squeeze", call.x(0), call.constant(axes) if axes else None)


def _expand_dims(call: Call) -> Value:
    return call.node("Unsqueeze", call.x(0), call.constant(np.atleast_1d(call.data(1))))


def _transpose(call: Call) -> Value:
    return call.node("Transpose", call.x(0), perm=[int(a) for a in call.data(1)])


def _concatenation(call: Call) -> Value:
    options = call.options("ConcatenationOptions")
    return call.activated(call.node("Concat", *call.all, axis=options.Axis()), options.FusedActivationFunction())


def _pack(call: Call) -> Value:
    axis = call.options("PackOptions").Axis()
    axis = axis if axis >= 0 else axis + call.rank() + 1
    return call.node("Concat", *(call.node("Unsqueeze", x, call.constant([axis])) for x in call.all), axis=axis)


def _unpack(call: Call) -> list[Value]:
    options = call.options("UnpackOptions")
    count, axes = len(call.results), call.constant([options.Axis()])
    parts = [call.x(0)]
    if count > 1:
        parts = call.node("Split", call.x(0), None, outputs=count, axis=options.Axis(), num_outputs=count)
    return [call.node("Squeeze", part, axes) for part in parts]


def _split(call: Call) -> list[Value]:
    count, axis = len(call.results), int(np.atleast_1d(call.data(0))[0])
    if count == 1:
        return [call.node("Identity", call.x(1))]
    parts: list[Value] = call.node("Split", call.x(1), None, outputs=count, axis=axis, num_outputs=count)
    return parts


def _strided_slice(call: Call) -> Value:
    options = call.options("StridedSliceOptions")
    if options.EllipsisMask() or options.NewAxisMask():
        raise UnsupportedOperatorError("masks for an ellipsis or a new axis are not read")
    starts, ends, steps, squeezed = [], [], [], []
    for axis, (begin, end, step) in enumerate(zip(*(call.data(i).tolist() for i in (1, 2, 3)), strict=True)):
        if options.ShrinkAxisMask() >> axis & 1:
            squeezed.append(axis)
            begin, end, step = begin, begin + 1 if begin != -1 else np.iinfo(np.int64).max, 1
        else:
            last = np.iinfo(np.int64).max if step > 0 else np.iinfo(np.int64).min
            begin = (0 if step > 0 else np.iinfo(np.int64).max) if options.BeginMask() >> axis & 1 else begin
            end = last if options.EndMask() >> axis & 1 else end
        starts.append(begin)
        ends.append(end)
        steps.append(step)
    parameters = (starts, ends, list(range(len(starts))), steps)
    y = call.node("Slice", call.x(0), *(call.constant(p) for p in parameters))
    return call.node("Squeeze", y, call.constant(squeezed)) if squeezed else y


def _slice(call: Call) -> Value:
    begin, size = call.data(1).astype(np.int64), call.data(2).astype(np.int64)
    ends = np.where(size < 0, np.iinfo(np.int64).max, begin + size)
    return call.node("Slice", call.x(0), call.constant(begin), call.constant(ends))


def _gather(call: Call) -> Value:
    options = call.options("GatherOptions")
    if options.BatchDims():
        raise UnsupportedOperatorError("batch dims are not read")
    return call.node("Gather", call.x(0), call.x(1), axis=options.Axis())


def _pad(call: Call, mode: str = "constant") -> Value:
    pads = call.constant(call.data(1).astype(np.int64).T.reshape(-1))
    number = call.x(2) if call.has(2) else None
    return call.node("Pad", call.x(0), pads, number, mode=mode)


def _mirror_pad(call: Call) -> Value:
    if call.options("MirrorPadOptions").Mode() != tflite.MirrorPadMode.REFLECT:
        raise UnsupportedOperatorError("symmetric padding is not read")
    return _pad(call, "reflect")


def _shape(call: Call) -> Value:
    return call.node("Cast", call.node("Shape", call.x(0)), to=DTYPES[call.options("ShapeOptions").OutType()])


# ---- types ----------------------------------------------------------------------------------------------------------


def _cast(call: Call) -> Value:
    return call.node("Cast", call.x(0), to=call._reader.type(call.results[0]).dtype)


def _dequantize(call: Call) -> Value:
    if call.x(0).dtype != np.float16:
        raise UnsupportedOperatorError("only half-precision weights are read, not quantised ones")
    return _cast(call)


CONVERTERS: Mapping[str, Converter] = {
    **{
        name: partial(_same, op)
        for name, op in {
            "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "ELU": "Elu", "EQUAL": "Equal", "EXP": "Exp", "FLOOR": "Floor",
            "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual", "HARD_SWISH": "HardSwish", "LESS": "Less",
            "LESS_EQUAL": "LessOrEqual", "LOG": "Log", "LOGICAL_AND": "And", "LOGICAL_NOT": "Not", "LOGICAL_OR": "Or",
            "LOGISTIC": "Sigmoid", "MAXIMUM": "Max", "MINIMUM": "Min", "NEG": "Neg", "POW": "Pow", "PRELU": "PRelu",
            "RELU": "Relu", "ROUND": "Round", "SELECT": "Where", "SELECT_V2": "Where", "SIN": "Sin", "SQRT": "Sqrt",
            "TANH": "Tanh",
        }.items()
    },
    "ADD": partial(_arithmetic, "Add", "AddOptions"),
    "ARG_MAX": partial(_arg, "ArgMax", "ArgMaxOptions"),
    "ARG_MIN": partial(_arg, "ArgMin", "ArgMinOptions"),
    "AVERAGE_POOL_2D": partial(_pool, "AveragePool"),
    "BATCH_MATMUL": _batch_matmul,
    "BROADCAST_TO": lambda call: call.node("Expand", call.x(0), call.integers(1)),
    "CAST": _cast,
    "CONCATENATION": _concatenation,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": partial(_conv, depthwise=True),
    "DEQUANTIZE": _dequantize,
    "DIV": partial(_arithmetic, "Div", "DivOptions"),
    "EXPAND_DIMS": _expand_dims,
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _gather,
    "GELU": lambda call: call.node(
        "Gelu", call.x(0), approximate="tanh" if call.options("GeluOptions").Approximate() else "none"
    ),
    "LEAKY_RELU": lambda call: call.node("LeakyRelu", call.x(0), alpha=float(call.options("LeakyReluOptions").Alpha())),
    "LOG_SOFTMAX": lambda call: call.node("LogSoftmax", call.x(0), axis=-1),
    "MAX_POOL_2D": partial(_pool, "MaxPool"),
    "MEAN": partial(_reduce, "ReduceMean"),
    "MIRROR_PAD": _mirror_pad,
    "MUL": partial(_arithmetic, "Mul", "MulOptions"),
    "NOT_EQUAL": lambda call: call.node("Not", call.node("Equal", call.x(0), call.x(1))),
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "REDUCE_MAX": partial(_reduce, "ReduceMax"),
    "REDUCE_MIN": partial(_reduce, "ReduceMin"),
    "REDUCE_PROD": partial(_reduce, "ReduceProd"),
    "RELU6": lambda call: call.clipped(call.x(0), 0, 6),
    "RELU_N1_TO_1": lambda call: call.clipped(call.x(0), -1, 1),
    "RESHAPE": _reshape,
    "RESIZE_BILINEAR": partial(_resize, "linear"),
    "RESIZE_NEAREST_NEIGHBOR": partial(_resize, "nearest"),
    "RSQRT": lambda call: call.node("Reciprocal", call.node("Sqrt", call.x(0))),
    "SHAPE": _shape,
    "SLICE": _slice,
    "SOFTMAX": _softmax,
    "SPLIT": _split,
    "SQUARE": lambda call: call.node("Mul", call.x(0), call.x(0)),
    "SQUARED_DIFFERENCE": lambda call: (lambda d: call.node("Mul", d, d))(call.node("Sub", call.x(0), call.x(1))),
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "SUB": partial(_arithmetic, "Sub", "SubOptions"),
    "SUM": partial(_reduce, "ReduceSum"),
    "TILE": lambda call: call.node("Tile", call.x(0), call.integers(1)),
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": _transpose_conv,
    "UNPACK": _unpack,
}  # fmt: skip
