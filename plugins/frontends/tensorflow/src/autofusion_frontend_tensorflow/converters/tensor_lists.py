"""TensorList and TensorArray operators: a list is a tensor whose first axis counts its elements."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion.ir.types import Shape
from autofusion_frontend_tensorflow import lists
from autofusion_frontend_tensorflow.attributes import ShapeAttribute
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.lists import Reserved, filled
from autofusion_frontend_tensorflow.registry import converter

_ARRAY_VERSIONS = ("V2", "V3")


def _array(name: str) -> tuple[str, ...]:
    return tuple(f"TensorArray{name}{version}" for version in _ARRAY_VERSIONS)


def _dims(call: Call, index: int) -> Shape | None:
    """An element shape given as an operand: -1 for the whole, or for a size, means that it is not known."""
    data = call.operand(index).const
    if data is None or data.ndim == 0:
        return None
    return tuple(int(d) if d >= 0 else None for d in data)


def _element_type(call: Call, name: str) -> np.dtype:
    return call.dtype_attr(name, np.float32)


@converter("TensorListReserve")
def reserve(call: Call) -> Value:
    """Operands: shape of an element, number of elements."""
    return Reserved(call.name, call.operand(1), _element_type(call, "element_dtype"), _dims(call, 0))


@converter("EmptyTensorList")
def empty(call: Call) -> Value:
    """A list that grows."""
    return Reserved(call.name, call.const(0, np.int32), _element_type(call, "element_dtype"), _dims(call, 0))


@converter(*_array(""), outputs=("handle", "flow"))
def array(call: Call) -> list[Value]:
    """The list's value is what flows; the handle only tells whether it may grow."""
    dims = call.attr("element_shape", ShapeAttribute(None)).dims
    made = Reserved(call.name, call.operand(0), _element_type(call, "dtype"), dims)
    return [call.const(bool(call.attr("dynamic_size", False)), np.int32, "handle"), made]


@converter("TensorListFromTensor", "TensorListStack")
def same(call: Call) -> Value:
    """The tensor is the list."""
    return filled(call, call.operand(0))


@converter("TensorListGetItem")
def get_item(call: Call) -> Value:
    """Operands: list, place, shape of an element."""
    return call.emit("Gather", filled(call, call.operand(0)), call.operand(1), axis=0)


@converter(*_array("Read"))
def read(call: Call) -> Value:
    """Operands: handle, place, list."""
    return call.emit("Gather", filled(call, call.operand(2)), call.operand(1), axis=0)


@converter("TensorListSetItem")
def set_item(call: Call) -> Value:
    """Operands: list, place, element."""
    grows = bool(call.attr("resize_if_index_out_of_bounds", False))
    return _set(call, call.operand(0), call.operand(1), call.operand(2), grows)


@converter(*_array("Write"))
def write(call: Call) -> Value:
    """Operands: handle, place, element, list."""
    handle = call.operand(0).const
    return _set(call, call.operand(3), call.operand(1), call.operand(2), handle is None or bool(handle.any()))


def _set(call: Call, list_: Value, place: Value, element: Value, grows: bool) -> Value:
    """The list with ``element`` at ``place``; one that grows is first as long as that needs, what is new being zero."""
    whole = filled(call, list_, element)
    row = call.unsqueeze(element, 0)
    if grows:
        whole = _like_elements(call, whole, element)
        missing = call.emit("Sub", call.emit("Add", call.vector(place), call.ints([1])), call.dim(whole, 0))
        if missing.const is None:
            whole = _lengthened(call, whole, call.emit("Max", missing, call.ints([0])))
        elif int(missing.const[0]) == 1:
            return call.emit("Concat", whole, row, axis=0)
        elif int(missing.const[0]) > 1:
            whole = _lengthened(call, whole, missing)
    index = call.reshape(call.as_ints(place), [1, 1])
    return call.emit("ScatterND", whole, index, row)


def _like_elements(call: Call, whole: Value, element: Value) -> Value:
    """A list that may still be empty, of elements whose sizes were not known: then there is no element to differ."""
    if whole.shape is not None and None not in whole.shape[1:] and whole.shape[1:] == element.shape:
        return whole
    return call.reshape(whole, call.emit("Concat", call.dim(whole, 0), call.shape(element), axis=0))


def _lengthened(call: Call, list_: Value, more: Value) -> Value:
    """``more`` zeros (a vector of one number) behind the list."""
    rank = call.rank(list_)
    after = [call.ints([0] * (rank - 1))] if rank > 1 else []
    return call.emit("Pad", list_, call.emit("Concat", call.ints([0] * rank), more, *after, axis=0))


@converter("TensorListResize")
def resize(call: Call) -> Value:
    """Operands: list, size. A list without elements stays one."""
    list_, size = call.operand(0), call.operand(1)
    if isinstance(list_, Reserved):
        return Reserved(call.name, size, list_.element, list_.dims)
    size = call.vector(size)
    more = call.emit("Max", call.emit("Sub", size, call.dim(list_, 0)), call.ints([0]))
    return call.emit("Slice", _lengthened(call, list_, more), call.ints([0]), size, call.ints([0]))


@converter("TensorListPushBack")
def push_back(call: Call) -> Value:
    """Operands: list, element."""
    row = call.unsqueeze(call.operand(1), 0)
    list_ = call.operand(0)
    if isinstance(list_, Reserved) and list_.size.const is not None and not int(list_.size.const.reshape(())):
        return row
    return call.emit("Concat", filled(call, list_, call.operand(1)), row, axis=0)


@converter("TensorListPopBack", outputs=("output_handle", "tensor"))
def pop_back(call: Call) -> list[Value]:
    """Operands: list, shape of an element."""
    list_ = filled(call, call.operand(0))
    last = call.emit("Gather", list_, call.ints(-1), axis=0)
    return [call.slice(list_, 0, 0, -1), last]


@converter("TensorListGather")
def gather(call: Call) -> Value:
    """Operands: list, places, shape of an element."""
    return call.emit("Gather", filled(call, call.operand(0)), call.operand(1), axis=0)


@converter(*_array("Gather"))
def array_gather(call: Call) -> Value:
    """Operands: handle, places, list."""
    return call.emit("Gather", filled(call, call.operand(2)), call.operand(1), axis=0)


@converter("TensorListScatter", "TensorListScatterV2")
def scatter(call: Call) -> Value:
    """Operands: values, places, shape of an element, and the size, -1 where it is that of the places."""
    value, places = call.operand(0), call.operand(1)
    if len(call.inputs) > 3 and call.known_int(3, "size") >= 0:
        size = call.const(call.known_int(3, "size"), np.int32)
    else:
        size = call.cast(call.reshape(call.dim(places, 0), []), np.int32)
    return _scattered(call, Reserved(call.name, size, call.dtype(value), None), places, value)


@converter(*_array("Scatter"))
def array_scatter(call: Call) -> Value:
    """Operands: handle, places, values, list."""
    return _scattered(call, call.operand(3), call.operand(1), call.operand(2))


def _scattered(call: Call, list_: Value, places: Value, values: Value) -> Value:
    """Rows at their places; all rows in order are the list itself."""
    at, count = places.const, values.shape[0] if values.shape else None
    if isinstance(list_, Reserved):
        size = list_.size.const
        whole = size is None or (at is not None and int(size.reshape(())) == len(at))
        in_order = at is not None and at.tolist() == list(range(len(at)))
        if (in_order and whole and count == len(at)) or _is_range(places):
            return values
    like = call.emit("Gather", values, call.ints(0), axis=0)
    index = call.unsqueeze(call.as_ints(places), 1)
    return call.emit("ScatterND", filled(call, list_, like), index, values)


def _is_range(places: Value) -> bool:
    """True for Range(0, n, 1), which is how TensorFlow unstacks a tensor whose size it does not know."""
    node = places.producer
    if node is None or node.op != "Range":
        return False
    start, _, step = (v.const if v is not None else None for v in node.inputs)
    return start is not None and step is not None and int(start) == 0 and int(step) == 1


@converter("TensorListLength")
def length(call: Call) -> Value:
    """How many elements it has."""
    return _length(call, call.operand(0))


@converter(*_array("Size"))
def array_size(call: Call) -> Value:
    """Operands: handle, list."""
    return _length(call, call.operand(1))


def _length(call: Call, list_: Value) -> Value:
    if isinstance(list_, Reserved):
        return call.cast(list_.size, np.int32)
    return call.cast(call.reshape(call.dim(list_, 0), []), np.int32)


@converter("TensorListConcat", "TensorListConcatV2", outputs=("tensor", "lengths"))
def concat(call: Call) -> list[Value]:
    """Elements joined along their own first axis."""
    return _joined(call, filled(call, call.operand(0)))


@converter(*_array("Concat"), outputs=("value", "lengths"))
def array_concat(call: Call) -> list[Value]:
    """Operands: handle, list."""
    return _joined(call, filled(call, call.operand(1)))


def _joined(call: Call, list_: Value) -> list[Value]:
    """All elements have one size here."""
    rank = call.rank(list_)
    if rank < 2:
        call.fail(f"elements must have an axis to be joined along, found {list_.type}")
    length = call.dim(list_, 1)
    rest = [call.emit("Shape", list_, start=2)] if rank > 2 else []
    shape = call.emit("Concat", call.emit("Mul", call.dim(list_, 0), length), *rest, axis=0)
    return [call.reshape(list_, shape), call.emit("Expand", length, call.dim(list_, 0))]


@converter("TensorListSplit")
def split(call: Call) -> Value:
    """Operands: tensor, shape of an element, lengths."""
    return _split(call, call.operand(0), 2)


@converter(*_array("Split"))
def array_split(call: Call) -> Value:
    """Operands: handle, tensor, lengths, list."""
    return _split(call, call.operand(1), 2)


def _split(call: Call, tensor: Value, lengths: int) -> Value:
    sizes = call.known_ints(lengths, "lengths")
    if len(set(sizes)) != 1:
        call.fail(f"elements of a list must have one shape, found lengths {sizes}")
    shape = call.emit("Concat", call.ints([len(sizes), sizes[0]]), call.emit("Shape", tensor, start=1), axis=0)
    return call.reshape(tensor, shape)


lists.AWARE.update(
    {
        "TensorListFromTensor",
        "TensorListStack",
        "TensorListGetItem",
        "TensorListSetItem",
        "TensorListPushBack",
        "TensorListGather",
        "TensorListScatter",
        "TensorListScatterV2",
        "TensorListLength",
        "TensorListResize",
        *_array("Read"),
        *_array("Write"),
        *_array("Gather"),
        *_array("Scatter"),
        *_array("Size"),
    }
)
