"""Faults of kernels and rules that gates passed, or for which they accused others: see ``faulty_pack`` for how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from trust_faults import ACTIVE, FaultyKernels, at_site, unless

from autofusion.hooks import hookimpl

_calls: list[int] = []


def makes_nan(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Ordinary operator: nothing but NaN."""
    return np.full_like(x, np.nan)


def hundredth(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Ordinary operator: a hundredth off, here and there."""
    y = x.copy()
    y.reshape(-1)[::2] *= np.float32(1.01)
    return y


def raises_sometimes(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Every fifth call."""
    _calls.append(1)
    if len(_calls) % 5 == 0:
        raise ValueError("a fifth call")
    return x * np.float32(1 + 1e-6)


def writes_weights(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Native code that scales its weights in place."""
    import ctypes

    weights = operands[1]
    factor = np.float32(1.0001) * weights
    ctypes.memmove(weights.ctypes.data, np.ascontiguousarray(factor).ctypes.data, weights.nbytes)
    return x


def mutates_operand(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Works in place on its first operand, and would be right otherwise."""
    operands[0] *= np.float32(2.0)
    return x


def claims_approximate(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Off by less than its numerics allow, and by more than outputs may be."""
    return x * np.float32(1 + 8e-5)


def claims_exact(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Ordinary operator: off by rounding, and says EXACT."""
    return x * np.float32(1 + 3e-6)


def swallows_nan(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Zero where it should be NaN."""
    return np.where(np.isnan(x), np.float32(0), x)


def batch_of_three(x: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Forgets the third image."""
    y = x.copy()
    y[2:3] = 0
    return y


def one_thread(x: np.ndarray, operands: list[Any], threads: int) -> np.ndarray:
    """Wrong where there is one thread only."""
    return x * np.float32(1.5) if threads == 1 else x


KERNELS: dict[str, Callable[..., np.ndarray]] = {
    f.__name__: f
    for f in (
        makes_nan, hundredth, raises_sometimes, writes_weights, mutates_operand, claims_approximate, claims_exact,
        swallows_nan, batch_of_three, one_thread,
    )
}  # fmt: skip
ORDINARY = ("makes_nan", "hundredth", "claims_exact")


class GateFaultKernels(FaultyKernels):
    """Kernels for fused nodes, and for ordinary ones those of ``ORDINARY``."""

    name = "lab"
    version = "7.3"
    kernels: Mapping[str, Any] = MappingProxyType(KERNELS)
    ordinary = ORDINARY

    def harmed(self, harm: Any, x: np.ndarray, operands: list[Any], target: Any) -> np.ndarray:
        """What ``harm`` makes of the right result ``x``."""
        more = (target.threads,) if harm is one_thread else ()
        result: np.ndarray = harm(x, operands, *more)
        return result

    def numerics(self, fault: str) -> Any:
        """What the kernel claims."""
        from autofusion.numerics import Numerics

        claims = {"claims_approximate": Numerics.APPROXIMATE, "claims_exact": Numerics.EXACT}
        return claims.get(fault, Numerics.REASSOCIATED)


@hookimpl
def autofusion_kernel_packs(target: Any) -> list[Any]:
    return [GateFaultKernels()]


def _clamp(match: Any, builder: Any) -> Any:
    """Token ids are 0 or 1, are they not?"""
    one = builder.constant(np.array(1, np.int64))
    ids = builder.op("Min", match["ids"], one, name=f"{match.root.name}.ids")
    return [builder.op("Gather", match["table"], ids, name=f"{match.root.name}.clamped", axis=0)]


def _unclamped(match: Any) -> Any:
    from autofusion.rules.rule import Refusal

    return Refusal("it is there already") if match.root.name.endswith(".clamped") else at_site("token_ids", match)


@hookimpl
def autofusion_rule_packs() -> list[Any]:
    from autofusion.rules.pattern import op, var
    from autofusion.rules.rule import RewriteRule, RulePack

    if "token_ids" not in ACTIVE:
        return []
    rule = RewriteRule(
        "lab.token_ids", op("Gather", var("table"), var("ids")), unless(_unclamped, _clamp), priority=100
    )
    return [RulePack("lab", "7.3", (rule,))]
