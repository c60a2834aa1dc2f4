"""Shape arithmetic that the operator schemas share: operands, axes, broadcasting, windows.

Dims follow one rule everywhere: equal symbols are equal sizes, and what cannot be told for certain is None. A rule or
a kernel may therefore rely on every symbol and every integer that inference gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from autofusion.errors import ShapeError
from autofusion.ir.dtypes import dtype_name
from autofusion.ir.graph import Node, Value
from autofusion.ir.operators.schema import attribute
from autofusion.ir.types import Dim, Shape, TensorType, Type

MOST_AXES = 1024
"""Far above any real rank."""


def fail(node: Node, message: str) -> NoReturn:
    """Raise ShapeError in the name of the node."""
    raise ShapeError(f"{node.label}: {message}")


# ---- operands ----------------------------------------------------------------------------------------------


def tensor(node: Node, index: int) -> TensorType | None:
    """Tensor type of operand ``index``; None if it is absent or of unknown type; ShapeError if it is not a tensor."""
    value = node.operand(index)
    if value is None or value.type is None:
        return None
    if not isinstance(value.type, TensorType):
        fail(node, f"operand {index} '{value.name}' is {value.type}, expected a tensor")
    return value.type


def shape(node: Node, index: int) -> Shape | None:
    """Shape of operand ``index``, or None."""
    type_ = tensor(node, index)
    return None if type_ is None else type_.shape


def dtype(node: Node, index: int) -> np.dtype | None:
    """Element type of operand ``index``, or None."""
    type_ = tensor(node, index)
    return None if type_ is None else type_.dtype


def of(dtype: np.dtype | None, shape: Sequence[Dim] | None) -> TensorType | None:
    """A tensor type, or None as long as the element type is unknown."""
    if dtype is None:
        return None
    return TensorType(dtype, None if shape is None else tuple(shape))


def constant(node: Node, index: int) -> np.ndarray | None:
    """Data of operand ``index`` if it is a constant."""
    value = node.operand(index)
    return None if value is None else value.const


def ints(node: Node, index: int) -> list[int] | None:
    """Data of a constant integer operand (scalar or vector) as a list; None if it is absent or not constant.

    ShapeError if it is known to hold something else than integers.
    """
    kind = dtype(node, index)
    if kind is not None and kind.kind not in "iu":
        fail(node, f"operand {index} must hold integers, found {name_of(kind)}")
    data = constant(node, index)
    return None if data is None else [int(x) for x in data.reshape(-1)]


def is_present(node: Node, index: int) -> bool:
    """True if optional operand ``index`` is there."""
    return node.operand(index) is not None


def length(node: Node, index: int) -> int | None:
    """Number of elements of a vector operand (a shape, axes, ...), or None if it is not known."""
    dims = shape(node, index)
    if dims is None or len(dims) != 1 or not isinstance(dims[0], int):
        return None
    if dims[0] > MOST_AXES:  # a damaged model may ask for any rank, and a shape of it fills the memory
        fail(node, f"operand {index} stands for {dims[0]} axes, expected at most {MOST_AXES}")
    return dims[0]


def same_dtype(node: Node, indices: Sequence[int]) -> np.dtype | None:
    """The common element type of these operands; ShapeError if two known ones differ."""
    found: Value | None = None
    for index in indices:
        value = None if tensor(node, index) is None else node.inputs[index]
        if value is None:
            continue
        if found is None:
            found = value
        elif found.dtype != value.dtype:
            fail(
                node,
                f"operands '{found.name}' and '{value.name}' must have one element type, "
                f"found {name_of(found.dtype)} and {name_of(value.dtype)}",
            )
    return None if found is None else found.dtype


def dtype_attribute(node: Node, name: str) -> np.dtype | None:
    """An attribute that names an element type, or None if it is not stated."""
    stated = attribute(node, name)
    if stated is not None and not isinstance(stated, np.dtype):
        fail(node, f"'{name}' must be an element type, found {stated!r}")
    return stated


def name_of(dtype: np.dtype | None) -> str:
    """Short name of an element type for messages."""
    return "?" if dtype is None else dtype_name(dtype)


def show(dims: Shape | None) -> str:
    """A shape for messages, as the text form writes it."""
    return "[*]" if dims is None else f"[{', '.join('?' if d is None else str(d) for d in dims)}]"


def rank_at_least(node: Node, index: int, rank: int) -> Shape | None:
    """Shape of operand ``index``; ShapeError if its known rank is smaller than ``rank``."""
    dims = shape(node, index)
    if dims is not None and len(dims) < rank:
        fail(node, f"operand {index} must have at least {rank} axes, found {show(dims)}")
    return dims


def rank_is(node: Node, index: int, rank: int) -> Shape | None:
    """Shape of operand ``index``; ShapeError if its known rank is not ``rank``."""
    dims = shape(node, index)
    if dims is not None and len(dims) != rank:
        fail(node, f"operand {index} must have {rank} axes, found {show(dims)}")
    return dims


def axis_of(node: Node, axis: int, rank: int, what: str = "axis") -> int:
    """``axis`` counted from the front; ShapeError if it is out of range for ``rank`` axes."""
    if not -rank <= axis < rank:
        fail(node, f"{what} {axis} is out of range, expected {-rank} to {rank - 1} for {rank} axes")
    return axis % rank


def axes_of(node: Node, axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front; ShapeError if one is out of range or stated twice."""
    result = [axis_of(node, a, rank) for a in axes]
    if len(set(result)) != len(result):
        fail(node, f"axes {list(axes)} name an axis twice")
    return result


# ---- dims --------------------------------------------------------------------------------------------------


def product(dims: Sequence[Dim]) -> Dim:
    """Product of dims; a lone symbol times ones stays itself, and a zero makes everything zero."""
    if 0 in dims:
        return 0
    others = [d for d in dims if d != 1]
    if len(others) == 1:
        return others[0]
    return integer_product(others) if all(isinstance(d, int) for d in others) else None


def integer_product(dims: Sequence[Dim]) -> int:
    """Product of the integers among dims."""
    return math.prod(d for d in dims if isinstance(d, int))


def total(dims: Sequence[Dim]) -> Dim:
    """Sum of dims; a lone symbol plus zeros stays itself."""
    others = [d for d in dims if d != 0]
    if len(others) == 1:
        return others[0]
    return sum(d for d in others if isinstance(d, int)) if all(isinstance(d, int) for d in others) else None


def shifted(dim: Dim, by: int) -> Dim:
    """``dim + by``."""
    return dim + by if isinstance(dim, int) else (dim if by == 0 else None)


def scaled(dim: Dim, by: int) -> Dim:
    """``dim * by``."""
    return product((dim, by))


def divided(node: Node, dim: Dim, by: int, what: str) -> Dim:
    """``dim / by``; ShapeError if it is not whole, or if ``by`` is not positive."""
    if by < 1:
        fail(node, f"{what} cannot be divided by {by}, expected at least 1")
    if by == 1:
        return dim
    if not isinstance(dim, int):
        return None
    if dim % by:
        fail(node, f"{what} must be a multiple of {by}, found {dim}")
    return dim // by


def agree(node: Node, a: Dim, b: Dim, what: str) -> Dim:
    """The more certain of two dims that must be equal; ShapeError if two integers differ."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        fail(node, f"{what} must be equal, found {a} and {b}")
    if isinstance(a, int) or b is None:
        return a
    return b if isinstance(b, int) or a is None else a


def agree_shapes(node: Node, a: Shape | None, b: Shape | None, what: str) -> Shape | None:
    """``agree`` dim by dim."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        fail(node, f"{what} must be equal, found {show(a)} and {show(b)}")
    return tuple(agree(node, x, y, what) for x, y in zip(a, b, strict=True))


def common(a: Shape | None, b: Shape | None) -> Shape | None:
    """What two shapes have in common, for a result that may have either (the branches of an If)."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def broadcast(node: Node, *shapes: Shape | None) -> Shape | None:
    """The multidirectional broadcast of the shapes; ShapeError if they do not fit."""
    if len(shapes) == 2 and shapes[0] == shapes[1] and shapes[0] is not None and None not in shapes[0]:
        return shapes[0]
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    rank = max((len(s) for s in known), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in known]
    result: list[Dim] = []
    for position in range(rank):
        dims = {s[position] for s in padded} - {1}
        sizes = {d for d in dims if isinstance(d, int)}
        if len(sizes) > 1:
            fail(node, f"shapes {' and '.join(show(s) for s in known)} do not broadcast on axis {position - rank}")
        if sizes:
            result.append(sizes.pop())
        else:
            result.append(1 if not dims else dims.pop() if len(dims) == 1 else None)
    return tuple(result)


# ---- windows (convolution and pooling) ---------------------------------------------------------------------


def window_dim(
    size: Dim, kernel: Dim, stride: int, pads: tuple[int, int], dilation: int, auto_pad: str, ceil: bool | None = None
) -> Dim:
    """Number of window positions along one axis (the formula of the operator set).

    ``ceil`` is None for convolutions. Of pooling, explicit pads leave one window where it is larger than the padded
    axis by less than a stride, though the formula gives none: the quotient is rounded towards zero, as in onnxruntime.
    """
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return -(-size // stride) if isinstance(size, int) else (size if stride == 1 else None)
    if not isinstance(kernel, int):
        return None
    extent = (kernel - 1) * dilation + 1
    padded = 0 if auto_pad == "VALID" else sum(pads)
    if not isinstance(size, int):
        return size if stride == 1 and padded == extent - 1 else None
    room = size + padded - extent
    if not ceil:
        partial = ceil is False and auto_pad == "NOTSET" and room < 0
        return 1 - (-room // stride) if partial else room // stride + 1
    positions = -(-room // stride) + 1
    begin = 0 if auto_pad == "VALID" else pads[0]
    # A window that would start in the end padding does not count.
    return positions - 1 if (positions - 1) * stride >= size + begin else positions


def spatial(node: Node, name: str, rank: int, default: int) -> list[int]:
    """An attribute with one entry for each spatial axis (``strides``, ``dilations``)."""
    stated = attribute(node, name)
    if stated is None:
        return [default] * rank
    if len(stated) != rank:
        fail(node, f"'{name}' must have {rank} entries, found {list(stated)}")
    return [int(x) for x in stated]


def paddings(node: Node, rank: int) -> list[tuple[int, int]]:
    """``pads`` as (begin, end) for each spatial axis; zeros if they are not stated."""
    stated = attribute(node, "pads")
    if stated is None:
        return [(0, 0)] * rank
    if len(stated) != 2 * rank:
        fail(node, f"'pads' must have {2 * rank} entries, found {list(stated)}")
    return [(int(stated[i]), int(stated[i + rank])) for i in range(rank)]


def window_dims(node: Node, sizes: Sequence[Dim], kernel: Sequence[Dim], *, ceil: bool | None = None) -> list[Dim]:
    """Spatial output dims of a convolution or pooling with the node's pads, strides and dilations."""
    rank = len(sizes)
    if len(kernel) != rank:
        fail(node, f"the kernel must have {rank} spatial axes, found {show(tuple(kernel))}")
    strides, dilations, pads = (
        spatial(node, "strides", rank, 1),
        spatial(node, "dilations", rank, 1),
        paddings(node, rank),
    )
    if min(strides, default=1) < 1 or min(dilations, default=1) < 1:
        fail(node, f"strides and dilations must be at least 1, found {strides} and {dilations}")
    auto_pad = node.attr("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        fail(node, f"'auto_pad' must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, found '{auto_pad}'")
    result: list[Dim] = []
    for size, taps, stride, padding, dilation in zip(sizes, kernel, strides, pads, dilations, strict=True):
        dim = window_dim(size, taps, stride, padding, dilation, auto_pad, ceil)
        if isinstance(dim, int) and dim < 0:
            fail(node, f"a window of {taps} does not fit an axis of {size} with these pads")
        result.append(dim)
    return result


# ---- checks of outputs -------------------------------------------------------------------------------------


def only(type_: Type | None) -> tuple[Type | None]:
    """The result of an operator with one output."""
    return (type_,)
