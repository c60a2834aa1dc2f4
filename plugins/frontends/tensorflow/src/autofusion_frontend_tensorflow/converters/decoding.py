"""From scores to sequences of classes (CTC), and from sparse and ragged tensors to dense ones."""

from __future__ import annotations

import numpy as np

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def _count(call: Call, size: Value) -> Value:
    """0, 1, ..., size - 1, for a vector of one number."""
    return call.emit("Range", call.ints(0), call.squeeze(size, 0), call.ints(1))


@converter("CTCGreedyDecoder", outputs=("decoded_indices", "decoded_values", "decoded_shape", "log_probability"))
def ctc_greedy_decoder(call: Call) -> list[Value]:
    """Operands: scores [steps, batch, classes] and how many steps of each sequence count.

    The best class of each step, without blanks and, if the attribute says so, without what repeats the step before. As
    a sparse tensor: places, classes, shape; and of each sequence the negative sum of the best scores.
    """
    scores, lengths = call.operand(0), call.as_ints(call.operand(1))
    steps, batch, classes = (call.dim(scores, axis) for axis in range(3))
    best = call.transpose(call.emit("ArgMax", scores, axis=2, keepdims=0), [1, 0])
    counts = call.emit("Less", call.unsqueeze(_count(call, steps), 0), call.unsqueeze(lengths, 1))
    blank = int(call.attr("blank_index", -1))
    empty = call.ints([blank]) if blank >= 0 else call.emit("Add", classes, call.ints([blank]))
    kept = call.emit("And", counts, call.emit("Not", call.emit("Equal", best, empty)))
    if call.attr("merge_repeated", False):
        before = call.emit("Pad", best, call.ints([0, 1, 0, -1]), call.ints(-1))
        kept = call.emit("And", kept, call.emit("Not", call.emit("Equal", best, before)))
    number = call.cast(kept, np.int64)
    places = call.transpose(call.emit("NonZero", kept), [1, 0])
    column = call.emit("Sub", call.emit("CumSum", number, call.ints(1)), call.ints(1))
    row = call.slice(places, 1, 0, 1)
    indices = call.emit("Concat", row, call.unsqueeze(call.emit("GatherND", column, places), 1), axis=1)
    longest = call.emit("ReduceSum", number, call.ints([1]), keepdims=0)
    # Without a sequence there is no longest.
    longest = call.emit("ReduceMax", call.emit("Pad", longest, call.ints([0, 1])), call.ints([0]), keepdims=1)
    shape = call.emit("Concat", batch, longest, axis=0)
    top = call.transpose(call.emit("ReduceMax", scores, call.ints([2]), keepdims=0), [1, 0])
    total = call.emit("ReduceSum", call.emit("Where", counts, top, call.like(0, top)), call.ints([1]), keepdims=1)
    return [indices, call.emit("GatherND", best, places), shape, call.emit("Neg", total)]


@converter("SparseToDense")
def sparse_to_dense(call: Call) -> Value:
    """Operands: places (one number, a vector, or one place a row), shape, values (or one for all), default."""
    places, shape, values, default = call.as_ints(call.operand(0)), call.vector(call.operand(1)), *call.inputs[2:4]
    rank = call.rank(places)
    if rank < 2:
        places = call.reshape(places, [-1, 1])
    if call.rank(values) == 0:
        values = call.emit("Expand", values, call.dim(places, 0))
    whole = call.emit("Expand", default, shape)
    return call.emit("ScatterND", whole, places, values)


@converter("RaggedTensorToTensor")
def ragged_to_dense(call: Call) -> Value:
    """Operands: shape (-1 for what follows from the rows), values, default, and what tells the rows apart.

    For one ragged axis: where each row ends, or the number of rows and the row of each value.
    """
    kinds = [str(kind) for kind in call.attr("row_partition_types", [])]
    shape, values, default, *parts = call.inputs
    if kinds == ["ROW_SPLITS"]:
        splits = call.as_ints(parts[0])
        rows = call.emit("Sub", call.dim(splits, 0), call.ints([1]))
        ends = call.slice(splits, 0, 1, np.iinfo(np.int64).max)
        place = call.unsqueeze(_count(call, call.dim(values, 0)), 1)
        passed = call.cast(call.emit("GreaterOrEqual", place, call.unsqueeze(ends, 0)), np.int64)
        row = call.emit("ReduceSum", passed, call.ints([1]), keepdims=0)
        first = call.emit("Gather", splits, row, axis=0)
    elif kinds == ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]:
        rows, row = call.vector(parts[0]), call.as_ints(parts[1])
        before = call.cast(call.emit("Less", call.unsqueeze(row, 0), call.unsqueeze(row, 1)), np.int64)
        first = call.emit("ReduceSum", before, call.ints([1]), keepdims=0)
    else:
        call.fail(
            f"a tensor with rows told apart by {', '.join(kinds) or 'nothing'} is not supported; one ragged axis is"
        )
    column = call.emit("Sub", _count(call, call.dim(values, 0)), first)
    widest = call.emit(
        "ReduceMax", call.emit("Pad", column, call.ints([1, 0]), call.ints(-1)), call.ints([0]), keepdims=1
    )
    sizes = call.emit("Concat", rows, call.emit("Add", widest, call.ints([1])), axis=0)
    wanted = call.vector(shape)
    if call.rank(shape) == 1:
        wanted = call.slice(wanted, 0, 0, 2)
        sizes = call.emit("Where", call.emit("Less", wanted, call.ints(0)), sizes, wanted)
    return _placed(call, sizes, row, column, values, default)


def _placed(call: Call, sizes: Value, row: Value, column: Value, values: Value, default: Value) -> Value:
    """``values`` at their rows and columns; what lies outside of ``sizes`` is left out."""
    inner = [call.emit("Shape", values, start=1)] if call.rank(values) > 1 else []
    places = call.emit("Concat", call.unsqueeze(row, 1), call.unsqueeze(column, 1), axis=1)
    inside = call.cast(call.emit("Less", places, sizes), np.int64)
    both = call.emit("Equal", call.emit("ReduceSum", inside, call.ints([1]), keepdims=0), call.ints(2))
    kept = call.squeeze(call.emit("NonZero", both), 0)
    places, values = (call.emit("Gather", v, kept, axis=0) for v in (places, values))
    whole = call.emit("Expand", default, call.emit("Concat", sizes, *inner, axis=0))
    return call.emit("ScatterND", whole, places, values)
