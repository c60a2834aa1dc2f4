"""A plugin with faults, as other people's plugins might have them. ``TRUST_FAULTS`` says which of them are there.

Each fault is a rewrite rule that changes the meaning, or a kernel for fused nodes that is wrong in one way. Kernels
run the node's body by the reference kernels, and then do harm; they are offered at one place only (``TRUST_SITES``,
nodes' names for each fault), and claim to take next to no time, so that they are taken.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from autofusion.hooks import hookimpl
from autofusion.kinds import CONV, MATMUL, POINTWISE

ACTIVE = [name for name in os.environ.get("TRUST_FAULTS", "").split(",") if name]
SITES = {
    fault: set(nodes.split("+"))
    for item in os.environ.get("TRUST_SITES", "").split(",")
    if item
    for fault, nodes in [item.split("=")]
}


# ---- kernels -------------------------------------------------------------------------------------------------------


def one_channel(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Five parts in a hundred thousand too large, in one channel: little more than the tolerance."""
    y = x.copy()
    y[:, 3] *= np.float32(1.00005)
    return y


def crash(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Reads what it must not."""
    import ctypes

    ctypes.string_at(0)
    return x


def hang(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Waits for what never comes."""
    threading.Event().wait()
    return x


def slow(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Right, but it takes its time."""
    time.sleep(0.02)
    return x


def nan_of_negative(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """As if it took the square root of what comes in; right as long as nothing is negative."""
    y = x.copy()
    source = np.asarray(operands[0])
    if (source < -1.5).any():
        y.reshape(-1)[0] = np.nan
    return y


def race(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Two threads add up halves into the same place without waiting for each other."""
    total = np.zeros_like(x)

    def work(part: np.ndarray, nap: float) -> None:
        seen = total.copy()
        time.sleep(nap)
        total[...] = seen + part

    naps = np.random.default_rng().random(2) * 2e-3
    threads = [threading.Thread(target=work, args=(x * 0.5, float(nap))) for nap in naps]
    for thread in threads:
        thread.start()
        time.sleep(float(np.random.default_rng().random()) * 2e-3)
    for thread in threads:
        thread.join()
    return total


def odd_width(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Forgets the last column of an odd number of them."""
    y = x.copy()
    if x.shape[-1] % 2:
        y[..., -1] = 0
    return y


def ordinary(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """A hundredth too large, and not for a fused node."""
    return x * np.float32(1.01)


KERNELS = {f.__name__: f for f in (one_channel, crash, hang, slow, nan_of_negative, race, odd_width, ordinary)}


class FaultyKernels:
    """Offers its kernels for fused nodes that stand for the source nodes in ``SITES``."""

    name = "faulty"
    version = "3.1"
    kernels: Mapping[str, Any] = MappingProxyType(KERNELS)
    kinds = (CONV, MATMUL, POINTWISE)
    is_reference = False
    blocks = ()
    launch_seconds = 0.0
    ordinary: tuple[str, ...] = ("ordinary",)
    """Faults of ordinary operators; the others are of fused nodes."""

    def numerics(self, fault: str) -> Any:
        """What the kernel claims."""
        from autofusion.numerics import Numerics

        return Numerics.REASSOCIATED

    def offer(self, node: Any, target: Any) -> Any:
        from autofusion.kernels.contract import Offer, Operand, Refusal

        for fault in ACTIVE:
            fused = node.op == "Fused"
            here = not SITES.get(fault, set()).isdisjoint(node.origin)
            if here and fault in self.kernels and fused == (fault not in self.ordinary):
                return [
                    Offer(
                        f"{node.attrs['kind'] if fused else node.op}.{fault}",
                        tuple(Operand() for _ in node.inputs),
                        tuple(Operand() for _ in node.outputs),
                        lambda context, inputs, outputs, fault=fault: self._kernel(node, self.kernels[fault], target),
                        seconds=1e-9,
                        numerics=self.numerics(fault),
                    )
                ]
        return Refusal("it is not a place of this pack")

    def harmed(self, harm: Any, x: np.ndarray, operands: list[Any], target: Any) -> np.ndarray:
        """What ``harm`` makes of the right result ``x``."""
        result: np.ndarray = harm(x, operands)
        return result

    def _kernel(self, node: Any, harm: Any, target: Any) -> Any:
        from autofusion_kernels_reference.evaluate import function_of

        right = function_of(node)

        def run(operands: list[Any]) -> list[Any]:
            return [self.harmed(harm, result, operands, target).astype(result.dtype) for result in right(operands)]

        return run

    def reorder(self, type_: Any, source: Any, result: Any, target: Any) -> None:
        return None

    def assemble(self, steps: Any, memory: Any, target: Any) -> None:
        return None


@hookimpl
def autofusion_kernel_packs(target: Any) -> list[Any]:
    return [FaultyKernels()]


# ---- rules ---------------------------------------------------------------------------------------------------------


def at_site(fault: str, match: Any) -> Any:
    """A refusal, unless the match is at a place of ``fault``."""
    from autofusion.rules.rule import Refusal

    here = not SITES.get(fault, set()).isdisjoint(match.root.origin)
    return None if here else Refusal("it is not a place of this pack")


def unless(refuses: Any, rewrite: Any) -> Any:
    """``rewrite``, where ``refuses(match)`` is None."""
    return lambda match, builder: refuses(match) or rewrite(match, builder)


def _rules() -> list[Any]:
    from autofusion.rules.pattern import op, var
    from autofusion.rules.rule import Refusal, RewriteRule

    def check_epsilon(match: Any) -> Any:
        if match.root.attr("epsilon") == 0.05:
            return Refusal("it is there already")
        return at_site("wrong_epsilon", match)

    def rewrite_epsilon(match: Any, builder: Any) -> Any:
        root = match.root
        node = builder.node("BatchNormalization", list(root.inputs), {**root.attrs, "epsilon": 0.05}, name=root.name)
        return node.outputs

    def rewrite_residual(match: Any, builder: Any) -> Any:
        return [builder.op("Relu", match["x"], name=match.root.name)]

    def check_axis(match: Any) -> Any:
        if match.root.attr("axis", -1) == 0:
            return Refusal("it is there already")
        return at_site("wrong_axis", match)

    def rewrite_axis(match: Any, builder: Any) -> Any:
        return [builder.op("Softmax", match["x"], name=match.root.name, axis=0)]

    def die(match: Any, builder: Any) -> Any:
        return [crash(np.zeros(1), [])]

    statistics = [var(name) for name in ("scale", "shift", "mean", "variance")]
    return [
        RewriteRule(
            "faulty.wrong_epsilon",
            op("BatchNormalization", var("x"), *statistics),
            unless(check_epsilon, rewrite_epsilon),
            priority=100,
        ),
        RewriteRule(
            "faulty.dropped_residual",
            op("Relu", op("Add", var("x"), var("y"))),
            unless(lambda match: at_site("dropped_residual", match), rewrite_residual),
            priority=100,
        ),
        RewriteRule("faulty.wrong_axis", op("Softmax", var("x")), unless(check_axis, rewrite_axis), priority=100),
        RewriteRule(
            "faulty.dropped_shift",
            op("Add", var("x"), var("shift")),
            unless(lambda match: at_site("dropped_shift", match), lambda match, builder: [match["x"]]),
            priority=100,
        ),
        RewriteRule(
            "faulty.dies_compiling",
            op("Add", var("x"), var("y")),
            unless(lambda match: at_site("dies_compiling", match), die),
            priority=100,
        ),
    ]


@hookimpl
def autofusion_rule_packs() -> list[Any]:
    from autofusion.rules.rule import RulePack

    rules = tuple(rule for rule in _rules() if rule.name.partition(".")[2] in ACTIVE)
    return [RulePack("faulty", "3.1", rules)] if rules else []
