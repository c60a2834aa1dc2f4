"""More faults, of the kinds that ordinary inputs, one batch, one thread or one run do not show. See ``faulty_pack``.

A kernel here harms a right result; what it keeps between runs is a fault of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from trust_faults import ACTIVE, FaultyKernels, at_site, unless

from autofusion.hooks import hookimpl

Harm = Callable[[np.ndarray, list[Any], int], np.ndarray]


# ---- kernels -------------------------------------------------------------------------------------------------------


def last_block(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """Forgets the last channels, those of a block that is not full."""
    y = x.copy()
    y[:, y.shape[1] // 16 * 16 :] *= np.float32(0.999)
    return y


def second_image(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """Gives the first image's result for every image of a batch."""
    y = x.copy()
    y[1:] = y[:1]
    return y


_before: dict[tuple[int, ...], np.ndarray] = {}


def stale(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """One element is what was there in the run before."""
    y = x.copy()
    y.reshape(-1)[5] = _before.get(x.shape, x).reshape(-1)[5]
    _before[x.shape] = x.copy()
    return y


def truncated(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """Keeps the upper half of each number only, as bfloat16 does."""
    y = np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFF0000)
    return y.view(np.float32)


def off_by_one(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """The last row is the one before it."""
    y = x.copy()
    y[:, :, -1] = y[:, :, -2]
    return y


def clamps_infinity(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """Infinity becomes a large number."""
    return np.clip(x, -3e4, 3e4)


_calls: list[int] = []


def second_run(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """Can be called once."""
    if _calls:
        raise RuntimeError("the buffer is already taken")
    _calls.append(1)
    return x


def drifting(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """Scales what it returns by how often it was called, a little."""
    _calls.append(1)
    return x * np.float32(1 + 1e-3 * len(_calls))


def two_threads(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """Where the halves of two threads meet, nobody works."""
    y = x.copy()
    if threads > 1:
        y[:, :, y.shape[2] // 2] = 0
    return y


def overflows(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """As if it took powers of e without subtracting the largest first."""
    return np.where(np.abs(np.asarray(operands[0])).max() > 88, np.float32(np.nan), x)


KERNELS: dict[str, Harm] = {
    f.__name__: f
    for f in (
        last_block, second_image, stale, truncated, off_by_one, clamps_infinity, second_run,
        drifting, two_threads, overflows,
    )
}  # fmt: skip


class MoreFaultyKernels(FaultyKernels):
    """Kernels that also know how many threads there are."""

    name = "sloppy"
    kernels: Mapping[str, Any] = MappingProxyType(KERNELS)

    def harmed(self, harm: Any, x: np.ndarray, operands: list[Any], target: Any) -> np.ndarray:
        """What ``harm`` makes of the right result ``x``."""
        result: np.ndarray = harm(x, operands, target.threads)
        return result


@hookimpl
def autofusion_kernel_packs(target: Any) -> list[Any]:
    return [MoreFaultyKernels()]


# ---- rules ---------------------------------------------------------------------------------------------------------


def _rules() -> list[Any]:
    from autofusion.rules.pattern import op, var
    from autofusion.rules.rule import RewriteRule

    def swap(match: Any, builder: Any) -> Any:
        return [builder.op("Sub", match["y"], match["x"], name=match.root.name + ".swapped")]

    def forget_group(match: Any, builder: Any) -> Any:
        """Every output channel sees the sum over groups of what its weights are for one group."""
        root = match.root
        weights = root.inputs[1].const
        group = root.attr("group", 1)
        tiled = np.tile(weights, (1, group, 1, 1)).astype(weights.dtype)
        node = builder.node(
            "Conv", [root.inputs[0], builder.constant(tiled), *root.inputs[2:]], {**root.attrs, "group": 1},
            name=root.name,
        )  # fmt: skip
        return node.outputs

    def drop_transpose(match: Any, builder: Any) -> Any:
        return [match["x"]]

    def to_sum(match: Any, builder: Any) -> Any:
        return [builder.op("Add", match["x"], builder.op("Neg", match["y"]), name=match.root.name)]

    def lose_sign(match: Any, builder: Any) -> Any:
        return [builder.op("Add", match["x"], match["y"], name=match.root.name)]

    def halve_shift(match: Any, builder: Any) -> Any:
        half = builder.constant(match["shift"].const * np.float32(0.5))
        return [builder.op("Add", match["x"], half, name=match.root.name + ".halved")]

    def at(fault: str) -> Any:
        return lambda match: at_site(fault, match)

    def constant_shift(match: Any) -> Any:
        from autofusion.rules.rule import Refusal

        if match.root.name.endswith(".halved") or match["shift"].const is None:
            return Refusal("it is there already")
        return at_site("halved_shift", match)

    def unswapped(match: Any) -> Any:
        from autofusion.rules.rule import Refusal

        if match.root.name.endswith(".swapped"):
            return Refusal("it is there already")
        return at_site("swapped", match)

    def grouped(match: Any) -> Any:
        from autofusion.rules.rule import Refusal

        if match.root.attr("group", 1) == 1:
            return Refusal("it has one group")
        return at_site("forgot_group", match)

    x, y = var("x"), var("y")
    return [
        RewriteRule("sloppy.swapped", op("Sub", x, y), unless(unswapped, swap), priority=100),
        RewriteRule("sloppy.forgot_group", op("Conv", x, var("weights")), unless(grouped, forget_group), priority=100),
        RewriteRule(
            "sloppy.dropped_transpose",
            op("Transpose", x),
            unless(at("dropped_transpose"), drop_transpose),
            priority=100,
        ),
        RewriteRule("sloppy.to_sum", op("Sub", x, y), unless(at("to_sum"), to_sum), priority=100),
        RewriteRule("sloppy.lost_sign", op("Add", x, op("Neg", y)), unless(at("lost_sign"), lose_sign), priority=100),
        RewriteRule(
            "sloppy.halved_shift", op("Add", x, var("shift")), unless(constant_shift, halve_shift), priority=100
        ),
    ]


@hookimpl
def autofusion_rule_packs() -> list[Any]:
    from autofusion.rules.rule import RulePack

    rules = tuple(rule for rule in _rules() if rule.name.partition(".")[2] in ACTIVE)
    return [RulePack("sloppy", "1.0", rules)] if rules else []
