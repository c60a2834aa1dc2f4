"""One model for each operator of the default domain at a usual size, as data for `bench_operators`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

OPSET = 22
"""Operators that are newer name their own."""


@dataclass(frozen=True, slots=True)
class Case:
    """`operands` are arrays that are fed, `Fixed` ones that are part of the model, or None where absent."""

    op: str
    operands: tuple[Any, ...]
    attributes: dict[str, Any]
    outputs: int = 1
    opset: int = OPSET
    text: str = ""

    def model(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The model and its inputs."""
        if self.text:
            model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {self.opset}]> {self.op} {self.text}')
            names = [value.name for value in model.graph.input]
            return model, dict(zip(names, self.operands, strict=True))
        names, feeds, inputs, constants = [], {}, [], []
        for i, operand in enumerate(self.operands):
            names.append("" if operand is None else f"x{i}")
            if isinstance(operand, Fixed):
                constants.append(numpy_helper.from_array(operand.array, f"x{i}"))
            elif operand is not None:
                kind = helper.np_dtype_to_tensor_dtype(operand.dtype)
                inputs.append(helper.make_tensor_value_info(f"x{i}", kind, operand.shape))
                feeds[f"x{i}"] = operand
        results = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, results, **self.attributes)
        outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in results]
        graph = helper.make_graph([node], self.op, inputs, outputs, constants)
        for value in graph.output:
            value.ClearField("type")
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


@dataclass(frozen=True, slots=True)
class Fixed:
    """An operand that is part of the model."""

    array: np.ndarray


_RNG = np.random.default_rng(0)


def f(*shape: int, low: float = -1.0, high: float = 1.0, dtype: Any = np.float32) -> np.ndarray:
    """Uniform numbers."""
    return _RNG.uniform(low, high, shape).astype(dtype)


def n(*shape: int, low: int = 0, high: int = 100, dtype: Any = np.int64) -> np.ndarray:
    """Uniform integers of [low, high)."""
    return _RNG.integers(low, high, shape).astype(dtype)


def b(*shape: int) -> np.ndarray:
    """Truth values."""
    return _RNG.random(shape) < 0.5


def c(value: Any, dtype: Any = None) -> Fixed:
    """A part of the model; Python integers are int64, Python floats float32."""
    array = np.asarray(value)
    if dtype is None and not isinstance(value, np.ndarray):
        dtype = np.float32 if array.dtype.kind == "f" else np.int64
    return Fixed(array if dtype is None else array.astype(dtype))


_MAP = (1, 64, 56, 56)
_ROWS = (128, 768)
_UNARY = (
    "Abs Acos Asin Asinh Atan Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu:20 HardSigmoid HardSwish Identity "
    "IsInf IsNaN LeakyRelu Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign "
    "Swish:24 Tan Tanh ThresholdedRelu"
)
_POSITIVE = "Acosh Log Sqrt"
_BINARY = "Add Div Mul Sub Pow PRelu Max Min Mean Sum Equal Greater GreaterOrEqual Less LessOrEqual"
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_WINDOWS = "Blackman Hamming Hann"
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def cases() -> Iterator[Case]:
    """All of them, in no particular order."""
    yield from _pointwise()
    yield from _matrices()
    yield from _images()
    yield from _movement()
    yield from _indexed()
    yield from _others()
    yield from _control()


def _case(op: str, *operands: Any, outputs: int = 1, opset: int = OPSET, **attributes: Any) -> Case:
    return Case(op, operands, attributes, outputs, opset)


def _pointwise() -> Iterator[Case]:
    for name in _UNARY.split():
        op, _, opset = name.partition(":")
        yield _case(op, f(*_MAP, low=-0.9, high=0.9), opset=int(opset or OPSET))
    for op in _POSITIVE.split():
        yield _case(op, f(*_MAP, low=1.0, high=2.0))
    yield _case("Atanh", f(*_MAP, low=-0.9, high=0.9))
    for op in _BINARY.split():
        yield _case(op, f(*_MAP, low=0.1), f(*_MAP, low=0.5))
    yield _case("Clip", f(*_MAP), c(-0.5), c(0.5))
    for op in ("And", "Or", "Xor"):
        yield _case(op, b(*_MAP), b(*_MAP))
    yield _case("Not", b(*_MAP))
    yield _case("Where", b(*_MAP), f(*_MAP), f(*_MAP))
    yield _case("Cast", f(*_MAP, high=100.0), to=TensorProto.INT64)
    yield _case("CastLike", f(*_MAP), c(np.zeros(1, np.float16)))
    yield _case("BitCast", f(*_MAP), to=TensorProto.INT32, opset=26)
    yield _case("Mod", n(*_MAP, low=-100), n(*_MAP, low=1))
    yield _case("BitShift", n(*_MAP, dtype=np.uint32), n(*_MAP, high=8, dtype=np.uint32), direction="LEFT")
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield _case(op, n(*_MAP, dtype=np.int32), n(*_MAP, dtype=np.int32))
    yield _case("BitwiseNot", n(*_MAP, dtype=np.int32))
    yield _case("Dropout", f(*_MAP))
    scale, zero = c(0.02), c(0, np.uint8)
    yield _case("QuantizeLinear", f(*_MAP), scale, zero)
    yield _case("DequantizeLinear", n(*_MAP, high=255, dtype=np.uint8), scale, zero)
    yield _case("DynamicQuantizeLinear", f(*_MAP), outputs=3)


def _matrices() -> Iterator[Case]:
    yield _case("MatMul", f(*_ROWS), c(f(768, 768)))
    yield _case("Gemm", f(*_ROWS), c(f(768, 768)), c(f(768)), transB=1)
    yield _case("MatMulInteger", n(*_ROWS, high=255, dtype=np.uint8), c(n(768, 768, low=-127, dtype=np.int8)))
    one, zero = c(0.02), c(0, np.uint8)
    weights = c(n(768, 768, high=255, dtype=np.uint8))
    yield _case("QLinearMatMul", n(*_ROWS, high=255, dtype=np.uint8), one, zero, weights, one, zero, one, zero)
    yield _case("Einsum", f(1, 128, 12, 64), f(1, 128, 12, 64), equation="bihd,bjhd->bhij")
    yield _case("Det", f(64, 16, 16))
    q = f(1, 12, 128, 64)
    yield _case("Attention", q, q, q, opset=23)
    yield _case("RotaryEmbedding", f(1, 8, 512, 64), f(512, 32), f(512, 32), n(1, 512, high=512), opset=23)
    for op, gates in _GATES.items():
        w, r, bias = c(f(1, gates * 256, 128) / 8), c(f(1, gates * 256, 256) / 8), c(f(1, 2 * gates * 256))
        yield _case(op, f(64, 1, 128), w, r, bias, hidden_size=256)


def _images() -> Iterator[Case]:
    x = f(*_MAP)
    yield _case("Conv", x, c(f(64, 64, 3, 3)), c(f(64)), pads=[1] * 4)
    yield _case("ConvTranspose", f(1, 64, 28, 28), c(f(64, 32, 2, 2)), c(f(32)), strides=[2, 2])
    bytes_ = n(*_MAP, high=255, dtype=np.uint8)
    yield _case("ConvInteger", bytes_, c(n(64, 64, 3, 3, high=255, dtype=np.uint8)), pads=[1] * 4)
    one, zero = c(0.02), c(0, np.uint8)
    weights = c(n(64, 64, 3, 3, low=-127, dtype=np.int8))
    yield _case("QLinearConv", bytes_, one, zero, weights, one, c(0, np.int8), one, zero, pads=[1] * 4)
    yield _case("DeformConv", f(1, 64, 28, 28), c(f(64, 64, 3, 3)), f(1, 18, 28, 28), pads=[1] * 4)
    for op in ("AveragePool", "MaxPool", "LpPool"):
        yield _case(op, x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield _case(op, x)
    yield _case("GlobalLpPool", x, opset=2)
    pooled, places = f(1, 64, 28, 28), n(1, 64, 28, 28)
    places[...] = np.arange(places.size).reshape(places.shape) * 4
    yield _case("MaxUnpool", pooled, places, kernel_shape=[2, 2], strides=[2, 2])
    rois = np.concatenate([np.zeros((32, 1)), n(32, 2, high=300), n(32, 2, low=310, high=800)], 1).astype(np.float32)
    yield _case("MaxRoiPool", x, rois, pooled_shape=[7, 7], spatial_scale=0.0625, opset=1)
    pool = {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.0625}
    yield _case("RoiAlign", x, np.ascontiguousarray(rois[:, 1:]), np.zeros(32, np.int64), **pool, opset=16)
    yield _case("GridSample", x, f(1, 56, 56, 2), mode="linear")
    yield _case("AffineGrid", f(1, 2, 3), c([1, 3, 224, 224]))
    yield _case("Resize", x, None, c([1.0, 1.0, 2.0, 2.0]), mode="linear")
    yield _case("Upsample", x, c([1.0, 1.0, 2.0, 2.0]), mode="nearest", opset=9)
    yield _case("BatchNormalization", x, c(f(64)), c(f(64)), c(f(64)), c(f(64, low=0.5)))
    yield _case("InstanceNormalization", x, c(f(64)), c(f(64)))
    yield _case("GroupNormalization", x, c(f(64)), c(f(64)), num_groups=8)
    yield _case("LRN", x, size=5)
    yield _case("MeanVarianceNormalization", x)
    yield _case("LpNormalization", x, axis=1)
    yield _case("DepthToSpace", x, blocksize=2)
    yield _case("SpaceToDepth", x, blocksize=2)
    yield _case("Col2Im", f(1, 16 * 9, 56 * 56), c([56, 56]), c([3, 3]), pads=[1] * 4)
    yield _case("LayerNormalization", f(*_ROWS), c(f(768)), c(f(768)))
    yield _case("RMSNormalization", f(*_ROWS), c(f(768)), opset=23)


def _movement() -> Iterator[Case]:
    x = f(*_MAP)
    yield _case("Concat", x, x, axis=1)
    yield _case("Split", x, c([32, 32]), axis=1, outputs=2)
    yield _case("Slice", x, c([0, 3]), c([32, 40]), c([1, 2]))
    yield _case("Transpose", x, perm=[0, 2, 3, 1])
    yield _case("Pad", x, c([0, 0, 1, 1, 0, 0, 1, 1]))
    yield _case("Expand", f(1, 64, 1, 1), c(list(_MAP)))
    yield _case("Tile", x, c([1, 1, 2, 2]))
    yield _case("Flatten", x)
    yield _case("Reshape", x, c([64, -1]))
    yield _case("Squeeze", x, c([0]))
    yield _case("Unsqueeze", x, c([0]))
    yield _case("Shape", x)
    yield _case("Size", x)
    yield _case("ConstantOfShape", np.array(_MAP, np.int64))
    yield _case("Range", *(np.array(v, np.float32) for v in (0, 20000, 1)))
    yield _case("CenterCropPad", x, c([48, 64]), axes=[2, 3])
    yield _case("EyeLike", f(512, 512))
    yield _case("Trilu", f(8, 256, 256), upper=0)
    yield _case("ReverseSequence", f(128, 16, 256), n(16, low=1, high=128), time_axis=0, batch_axis=1)


def _indexed() -> Iterator[Case]:
    table = f(512, 512)
    yield _case("Gather", f(30000, 256), n(128, high=30000))
    yield _case("GatherElements", table, n(512, 512, high=512), axis=1)
    yield _case("GatherND", table, n(4096, 2, high=512))
    yield _case("ScatterElements", table, n(512, 512, high=512), f(512, 512), axis=1, reduction="add")
    yield _case("Scatter", table, n(64, 512, high=512), f(64, 512), opset=10)
    rows = _RNG.permutation(512)[:128, None].astype(np.int64)
    yield _case("ScatterND", table, rows, f(128, 512))
    yield _case("TensorScatter", f(1, 8, 512, 64), f(1, 8, 1, 64), np.array([17], np.int64), opset=24)
    yield _case("TopK", f(1, 100000), c([100]), outputs=2)
    for op in ("ArgMax", "ArgMin"):
        yield _case(op, f(64, 4096), axis=1)
    yield _case("Hardmax", f(*_ROWS))
    yield _case("OneHot", n(512, high=1000), c(1000, np.int64), c([0.0, 1.0]))
    yield _case("NonZero", (f(512, 512) > 0.8).astype(np.float32))
    yield _case("Compress", f(1024, 256), b(1024), axis=0)
    yield _case("Unique", n(20000, high=500), outputs=4)
    corners = f(1, 2000, 2, low=0.0, high=600.0)
    boxes = np.concatenate([corners, corners + f(1, 2000, 2, low=5.0, high=60.0)], 2)
    limits = c([100]), c([0.5]), c([0.3])
    yield _case("NonMaxSuppression", boxes, f(1, 20, 2000, low=0.0), *limits)
    yield _case("CumSum", f(4, 256, 256), c(1, np.int64))
    yield _case("CumProd", f(4, 256, 256, low=0.9, high=1.1), c(1, np.int64), opset=26)


def _others() -> Iterator[Case]:
    for op in _REDUCTIONS.split():
        yield _case(f"Reduce{op}", f(*_ROWS, low=0.5), c([1]))
    for op in ("Softmax", "LogSoftmax"):
        yield _case(op, f(*_ROWS))
    for op in _WINDOWS.split():
        yield _case(f"{op}Window", np.array(400))
    yield _case("DFT", f(1, 100, 512, 1), None, c(-2, np.int64), onesided=1, opset=20)
    window = c(np.hanning(400).astype(np.float32))
    yield _case("STFT", f(1, 16000), c(160, np.int64), window, c(400, np.int64))
    yield _case("MelWeightMatrix", c(80), c(400), c(16000), c(0.0), c(8000.0))
    yield _case("SoftmaxCrossEntropyLoss", f(*_ROWS), n(128, high=768))
    yield _case("NegativeLogLikelihoodLoss", f(*_ROWS), n(128, high=768))
    for op in ("RandomNormalLike", "RandomUniformLike"):
        yield _case(op, f(*_MAP), opset=1)
    for op in ("RandomNormal", "RandomUniform"):
        yield _case(op, shape=list(_MAP), opset=1)
    yield _case("Bernoulli", f(*_MAP, low=0.0), opset=15)
    yield _case("Multinomial", f(8, 1000), sample_size=8, opset=7)
    ngrams = {"ngram_counts": [0, 50], "ngram_indexes": list(range(100)), "pool_int64s": list(range(150))}
    lengths = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"}
    yield _case("TfIdfVectorizer", n(2000, high=60), **ngrams, **lengths)
    words = np.array(["some", "words", "of", "text"] * 250, object)
    yield _case("StringConcat", words, words)
    yield _case("StringNormalizer", words, case_change_action="LOWER", locale="C")
    yield _case("StringSplit", np.array(["a few words"] * 500, object), outputs=2, delimiter=" ")
    yield _case("RegexFullMatch", words, pattern="w.*")
    yield _case("Constant", value=numpy_helper.from_array(f(64, 64)))


def _text(op: str, text: str, *operands: Any, opset: int = OPSET) -> Case:
    return Case(op, operands, {}, 1, opset, text)


def _control() -> Iterator[Case]:
    x = f(*_ROWS)
    yield _text("If", "(bool p, float[128,768] x) => (float[128,768] y) { y = If (p) <"
                "then_branch = a () => (float[128,768] u) { u = Relu(x) },"
                "else_branch = b () => (float[128,768] v) { v = Neg(x) }> }", np.array(True), x)  # fmt: skip
    body = "body = g (int64 i, bool c, float[128,768] s) => (bool d, float[128,768] t) {d = Identity(c) t = Relu(s)}"
    yield _text("Loop", f"(int64 n, float[128,768] x) => (float[128,768] y) {{ y = Loop (n, , x) <{body}> }}",
                np.array(20), x)  # fmt: skip
    step = "body = g (float[768] s, float[768] e) => (float[768] t, float[768] o) { t = Add(s, e) o = Relu(t) }"
    yield _text("Scan", "(float[768] s, float[128,768] x) => (float[768] t, float[128,768] y) "
                f"{{ t, y = Scan <num_scan_inputs = 1, {step}> (s, x) }}", f(768), x)  # fmt: skip
    make = "s = SequenceConstruct(x, x)"
    constants = "k = Constant<value_int = 1>()"
    for op, body in {
        "SequenceConstruct": f"{make} {constants} y = SequenceAt(s, k)",
        "SequenceEmpty": f"s = SequenceEmpty() t = SequenceInsert(s, x) {constants} z = Sub(k, k) y = SequenceAt(t, z)",
        "SequenceErase": f"{make} t = SequenceErase(s) {constants} z = Sub(k, k) y = SequenceAt(t, z)",
        "ConcatFromSequence": f"{make} y = ConcatFromSequence<axis = 0>(s)",
        "SplitToSequence": "s = SplitToSequence<axis = 0>(x) y = ConcatFromSequence<axis = 0>(s)",
        "SequenceMap": f"{make} t = SequenceMap<body = g (float[128,768] i) => (float[128,768] o) {{ o = Relu(i) }}>(s)"
        " y = ConcatFromSequence<axis = 0>(t)",
        "Optional": "o = Optional(x) y = OptionalGetElement(o)",
    }.items():
        result = "(float[128,768] x) => (float[M,N] y)"
        yield _text(op, f"{result} {{ {body} }}", x)
    yield _text("SequenceLength", f"(float[128,768] x) => (int64 y) {{ {make} y = SequenceLength(s) }}", x)
    yield _text("OptionalHasElement", "(float[128,768] x) => (bool y) { y = OptionalHasElement(x) }", x)


COVERED_BY_OTHERS = {
    "SequenceAt": "SequenceConstruct",
    "SequenceInsert": "SequenceEmpty",
    "OptionalGetElement": "Optional",
}


@functools.cache
def names() -> frozenset[str]:
    """Every operator that a case stands for."""
    return frozenset({case.op for case in cases()} | set(COVERED_BY_OTHERS))
