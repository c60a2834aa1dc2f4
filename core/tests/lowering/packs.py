"""A kernel pack for the tests: NumPy kernels that offer plain and blocked layouts, so that lowering has choices to
make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import PLAIN, BindContext, Layout, Offer, Operand
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind
from autofusion.refusal import Refusal

TARGET = Target(
    isa="generic", lanes=4, threads=1, peak_flops=1e10, l1_bytes=1 << 15, l2_bytes=1 << 20, l3_bytes=1 << 24,
    bandwidth_l2=1e11, bandwidth_l3=5e10, bandwidth_memory=2e10, transcendentals=1e9,
)  # fmt: skip

BLOCK = 4


def to_blocked(x: np.ndarray, block: int = BLOCK) -> np.ndarray:
    """``[N, C, *S]`` as ``[N, ceil(C/b), *S, b]`` with NaN in the lanes past C: nobody may use them."""
    n, c, *spatial = x.shape
    count = -(-c // block)
    padded = np.full((n, count * block, *spatial), np.nan, x.dtype)
    padded[:, :c] = x
    return np.ascontiguousarray(np.moveaxis(padded.reshape(n, count, block, *spatial), 2, -1))


def from_blocked(x: np.ndarray, channels: int) -> np.ndarray:
    """The inverse of ``to_blocked``."""
    n, count, *spatial, block = x.shape
    return np.ascontiguousarray(np.moveaxis(x, -1, 2).reshape(n, count * block, *spatial)[:, :channels])


FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": np.negative,
    "Add": np.add,
    "Mul": np.multiply,
}


class FakePack:
    """Pointwise operators in both layouts (``blocked`` is cheaper if ``prefer_blocked``), Transpose and Concat
    plain only.
    """

    name = "fake"
    version = "1"
    kinds: Sequence[FusedKind] = ()
    is_reference = False
    launch_seconds = 1e-6
    blocks = (BLOCK,)

    def __init__(self, prefer_blocked: bool = True) -> None:
        self.prefer_blocked = prefer_blocked
        self.bound: list[str] = []

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        if node.op == "Transpose":
            return [
                self._offer(
                    node, "transpose", PLAIN, 1e-5, lambda x: np.ascontiguousarray(x.transpose(node.attrs["perm"]))
                )
            ]
        if node.op == "Concat":
            return [self._offer(node, "concat", PLAIN, 1e-3, lambda *x: np.concatenate(x, node.attrs["axis"]))]
        if node.op not in FUNCTIONS:
            return Refusal("it is no operator of the fake pack")
        offers = [self._offer(node, "plain", PLAIN, 2e-5, FUNCTIONS[node.op], inplace=True)]
        ranks = {len(v.tensor.static_shape) for v in node.inputs if v is not None}
        same = len({v.tensor.static_shape for v in node.inputs if v is not None}) == 1
        if ranks == {4} and same and all(v is not None and v.const is None for v in node.inputs):
            price = 1e-5 if self.prefer_blocked else 1e-3
            offers.append(self._offer(node, "blocked", Layout(BLOCK), price, FUNCTIONS[node.op], inplace=True))
        return offers

    def _offer(
        self,
        node: Node,
        kernel: str,
        layout: Layout,
        seconds: float,
        function: Callable[..., np.ndarray],
        inplace: bool = False,
    ) -> Offer:
        def bind(context: BindContext, inputs: Any, outputs: Any) -> Any:
            self.bound.append(f"{node.op}:{kernel}")
            return lambda arrays: [function(*arrays)]

        operand = Operand(layout, bordered=True)
        pairs = ((0, 0),) if inplace else ()
        return Offer(kernel, tuple(operand for _ in node.inputs), (operand,), bind, seconds=seconds, inplace=pairs)

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        def bind(context: BindContext, inputs: Any, outputs: Any) -> Any:
            self.bound.append(f"reorder {source.layout}->{result.layout}")

            def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
                x = arrays[0]
                if source.layout.block:
                    x = from_blocked(x, type_.static_shape[1])
                return [to_blocked(x) if result.layout.block else x.copy()]

            return run

        return Offer("copy", (source,), (Operand(result.layout, bordered=True),), bind, seconds=1e-5)

    def assemble(self, steps: Any, memory: Any, target: Target) -> None:
        return None
