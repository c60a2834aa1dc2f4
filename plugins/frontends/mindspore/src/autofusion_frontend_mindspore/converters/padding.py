"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

from autofusion.ir.graph import Value
from autofusion_frontend_mindspore.call import Call
from autofusion_frontend_mindspore.registry import converter

_MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "edge": "edge",
    "replicate": "edge",
    "circular": "wrap",
    "wrap": "wrap",
}


def padded(call: Call, value: Value, pairs: Sequence[tuple[int, int]], mode: str, fill: Value | None = None) -> Value:
    """``value`` with (before, after) elements more on each axis."""
    pads = [low for low, _ in pairs] + [high for _, high in pairs]
    return call.emit("Pad", value, call.ints(pads), fill, mode=mode)


def from_the_last(call: Call, value: Value, flat: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs for every axis from numbers that begin with the last axis and may not reach the first."""
    rank = call.rank(value)
    if len(flat) % 2 or len(flat) > 2 * rank:
        call.fail(f"{len(flat)} pads do not fit a tensor of rank {rank}")
    pairs = [(0, 0)] * rank
    for i in range(len(flat) // 2):
        pairs[rank - 1 - i] = (int(flat[2 * i]), int(flat[2 * i + 1]))
    return pairs


@converter("Pad")
def pad(call: Call) -> Value:
    """With zeros, by pairs for each axis."""
    pairs = call.argument(1, "paddings")
    return padded(call, call.tensor(0), [(int(a), int(b)) for a, b in pairs], "constant")


@converter("PadV3", "ConstantPadND")
def pad_v3(call: Call) -> Value:
    """(x, pads, fill); the pads lie in pairs from the last axis on, or in all beginnings and then all ends."""
    value, flat = call.tensor(0), call.int_arguments(1, "padding")
    mode = str(call.attrs.get("mode", "constant"))
    if mode not in _MODES:
        call.fail(f"unknown mode '{mode}'")
    if not call.attrs.get("paddings_contiguous", True):
        half = len(flat) // 2
        flat = tuple(v for pair in zip(flat[:half], flat[half:], strict=True) for v in pair)
    fill = None
    if _MODES[mode] == "constant" and call.has(2):
        fill = call.emit("Reshape", call.cast(call.tensor(2, value.dtype), value.dtype), call.ints([]))
    return padded(call, value, from_the_last(call, value, flat), _MODES[mode], fill)


@converter("MirrorPad")
def mirror_pad(call: Call) -> Value:
    """(x, pairs for each axis): mirrored at the border, without (REFLECT) or with (SYMMETRIC) the border itself."""
    value, pairs = call.tensor(0), call.argument(1, "paddings")
    mode = str(call.attrs.get("mode", "REFLECT")).upper()
    pairs = [(int(a), int(b)) for a, b in pairs]
    if mode == "REFLECT":
        return padded(call, value, pairs, "reflect")
    if mode != "SYMMETRIC":
        call.fail(f"unknown mode '{mode}'")
    for axis, (low, high) in enumerate(pairs):
        if low or high:
            size = call.static_dim(value, axis)
            if max(low, high) > size:
                call.fail(f"axis {axis} has {size} elements, too few to mirror {max(low, high)}")
            places = [*reversed(range(low)), *range(size), *(size - 1 - i for i in range(high))]
            value = call.emit("Gather", value, call.ints(places), axis=axis)
    return value


def _register(primitive: str, mode: str) -> None:
    def convert(call: Call) -> Value:
        value = call.tensor(0)
        return padded(call, value, from_the_last(call, value, call.int_arguments(1, "padding")), mode)

    converter(primitive)(convert)


for _rank in (1, 2, 3):
    _register(f"ReflectionPad{_rank}D", "reflect")
    _register(f"ReplicationPad{_rank}D", "edge")
