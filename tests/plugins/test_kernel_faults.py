"""The kit's tests of kernels find what is wrong: a sound pack passes all, each seeded fault fails the right one."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from autofusion.ir.graph import FUSED, Node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import PLAIN, Layout, Offer, Operand
from autofusion.kernels.target import Target
from autofusion.kinds import ATTENTION, POINTWISE, FusedKind
from autofusion.numerics import Numerics
from autofusion.refusal import Refusal
from autofusion.testing import KernelPackTests
from autofusion.testing.bench import stored
from tests.support.kit import failures

F32 = np.dtype(np.float32)
Function = Callable[..., np.ndarray]


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, np.float32(0))


def _add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x + y


SOUND: Mapping[str, Function] = {"Relu": _relu, "Add": _add}


class Pack:
    """Relu and Add in NumPy, and fused nodes of kind ``pointwise`` that are made of them alone."""

    name = "seeded"
    version = "1.0"
    kinds: Sequence[FusedKind] = (POINTWISE,)
    is_reference = False
    blocks: Sequence[int] = ()
    launch_seconds = 5e-6

    def __init__(self, **functions: Function) -> None:
        self.functions = {**SOUND, **functions}

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        values = [v for v in (*node.inputs, *node.outputs) if v is not None]
        if not all(isinstance(v.type, TensorType) and v.type.is_static and v.dtype == F32 for v in values):
            return Refusal("it is not all of single precision and static shape")
        if node.op == FUSED and (node.attrs["kind"] != "pointwise" or any(n.op not in SOUND for n in node.body.nodes)):
            return Refusal("its body is not made of Relu and Add")
        if node.op != FUSED and node.op not in self.functions:
            return Refusal(f"the pack has no '{node.op}'")
        return [self.made(node)]

    def made(self, node: Node) -> Offer:
        return Offer(
            f"seeded.{node.op}",
            tuple(None if v is None else Operand(strided=True) for v in node.inputs),
            tuple(Operand(strided=True) for _ in node.outputs),
            self.binder(node),
            numerics=Numerics.EXACT,
        )

    def binder(self, node: Node) -> Any:
        def bind(context: Any, inputs: Any, outputs: Any) -> Any:
            return self.kernel(node)

        return bind

    def kernel(self, node: Node) -> Any:
        if node.op != FUSED:
            return lambda arrays: [np.asarray(self.functions[node.op](*arrays))]

        def run(arrays: Sequence[Any]) -> list[np.ndarray]:
            values: dict[Any, Any] = dict(zip(node.body.inputs, arrays, strict=True))
            for inner in node.body.nodes:
                operands = [v.const if v.const is not None else values[v] for v in inner.inputs if v is not None]
                values[inner.output] = np.asarray(SOUND[inner.op](*operands))
            return [values[v] for v in node.body.outputs]

        return run

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        return None

    def assemble(self, steps: Any, memory: Any, target: Target) -> None:
        return None


def kit(pack: Any) -> type[KernelPackTests]:
    class Seeded(KernelPackTests):
        @classmethod
        def subject(cls) -> Any:
            return pack

    return Seeded


def test_a_sound_pack_passes() -> None:
    assert failures(kit(Pack())) == {}


# ---- faults -------------------------------------------------------------------------------------------------------


def _in_fours(x: np.ndarray) -> np.ndarray:
    """A vector loop that forgets what is left over."""
    y = np.array(x)
    flat = y.reshape(-1)
    whole = flat.size // 4 * 4
    flat[:whole] = np.maximum(flat[:whole], 0)
    return y


def _fmax(x: np.ndarray) -> np.ndarray:
    """Comparisons with NaN are false, so NaN becomes 0."""
    return np.where(x > 0, x, np.float32(0))


def _not_empty(x: np.ndarray) -> np.ndarray:
    assert x.size, "always at least one"
    return _relu(x)


def _writes_operand(x: np.ndarray) -> np.ndarray:
    np.maximum(x, 0, out=x)
    return x.copy()


def _double(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0).astype(np.float64)


def _flat(x: np.ndarray) -> np.ndarray:
    return _relu(x).reshape(-1)


def _ulp(x: np.ndarray) -> np.ndarray:
    return _relu(x) * np.float32(1.0000001)


class Stateful(Pack):
    """Adds up what it has seen."""

    def kernel(self, node: Node) -> Any:
        sound, calls = super().kernel(node), []

        def run(arrays: Sequence[Any]) -> list[np.ndarray]:
            calls.append(1)
            return [y + np.float32(len(calls) - 1) for y in sound(arrays)]

        return run


class SharedScratch(Pack):
    """One buffer for every kernel that it binds."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: dict[tuple[int, ...], np.ndarray] = {}
        self._lock = threading.Lock()

    def kernel(self, node: Node) -> Any:
        sound = super().kernel(node)

        def run(arrays: Sequence[Any]) -> list[np.ndarray]:
            results = sound(arrays)
            with self._lock:
                buffers = [self._buffers.setdefault(y.shape, np.empty_like(y)) for y in results]
            for buffer, y in zip(buffers, results, strict=True):
                buffer[...] = y
            time.sleep(1e-4)
            return [buffer.copy() for buffer in buffers]

        return run


class Greedy(Pack):
    """Offers to run anything."""

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        return [self.made(node)]


class Raises(Pack):
    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        if node.op == "Conv":
            raise KeyError("kernel_shape")
        return super().offer(node, target)


class Silent(Pack):
    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        answer = super().offer(node, target)
        return Refusal("") if isinstance(answer, Refusal) else answer


class NoOffers(Pack):
    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        answer = super().offer(node, target)
        return [] if isinstance(answer, Refusal) else answer


class Idle(Pack):
    """States a kind that it never runs."""

    kinds: Sequence[FusedKind] = (POINTWISE, ATTENTION)


class OneFormula(Pack):
    """Runs every body of its kind as the one that its author had in mind."""

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        if node.op == FUSED and node.attrs["kind"] == "pointwise" and len(node.inputs) == 2 and len(node.outputs) == 1:
            if {v.dtype for v in (*node.inputs, *node.outputs) if v is not None} == {F32}:
                return [self.made(node)]
        return super().offer(node, target)

    def kernel(self, node: Node) -> Any:
        if node.op != FUSED:
            return super().kernel(node)
        shape = node.output.tensor.static_shape
        return lambda arrays: [np.broadcast_to(_relu(arrays[0] + arrays[1]), shape).copy()]


class Changed(Pack):
    """Changes every offer."""

    def __init__(self, change: Callable[[Offer], Any]) -> None:
        super().__init__()
        self._change = change

    def made(self, node: Node) -> Offer:
        return self._change(super().made(node))  # type: ignore[no-any-return]


class Slow(Pack):
    """Far from what it says."""

    def made(self, node: Node) -> Offer:
        return dataclasses.replace(super().made(node), seconds=1e-9)

    launch_seconds = 1e-9


class SlowKind(Pack):
    """Says of fused nodes that they take a second."""

    def made(self, node: Node) -> Offer:
        offer = super().made(node)
        return dataclasses.replace(offer, seconds=1.0) if node.op == FUSED else offer


class Blocked(Pack):
    """Uses channel blocks of four, and copies into them with the spatial axes transposed."""

    blocks: Sequence[int] = (4,)

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            x = arrays[0]
            if result.layout.block:
                return [stored(x[..., ::-1], 4, 0)]
            count, blocks, *spatial, block = x.shape
            joined = np.moveaxis(x, -1, 2).reshape(count, blocks * block, *spatial)
            return [np.ascontiguousarray(joined[:, : type_.static_shape[1]])]

        strided = (dataclasses.replace(source, strided=True),), (dataclasses.replace(result, strided=True),)
        return Offer("copy", *strided, lambda *_: run, numerics=Numerics.EXACT)


def _in_place(offer: Offer) -> Offer:
    """Says that the result may lie over the operand, and reads the operand again after writing."""
    return dataclasses.replace(offer, inplace=((0, 0),), bind=lambda context, inputs, outputs: _Twice(inputs, outputs))


class _Twice:
    """Doubles in two steps through the result's memory; only right if that is not the operand's."""

    def __init__(self, inputs: Any, outputs: Any) -> None:
        self._same = inputs[0] is outputs[0]

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [_relu(arrays[0]) + np.float32(1 if self._same else 0)]


FAULTS: dict[str, tuple[Any, str]] = {
    "remainders left out": (Pack(Relu=_in_fours), "test_numbers"),
    "an operand of another shape": (Pack(Add=lambda x, y: np.resize(x, y.shape) + y), "test_numbers"),
    "nothing but the empty tensor": (Pack(Relu=_not_empty), "test_numbers"),
    "another element type": (Pack(Relu=_double), "test_numbers"),
    "another shape": (Pack(Relu=_flat), "test_numbers"),
    "writes to its operand": (Pack(Relu=_writes_operand), "test_numbers"),
    "exact, it says": (Pack(Relu=_ulp), "test_numbers"),
    "NaN lost": (Pack(Relu=_fmax), "test_special_numbers"),
    "state between runs": (Stateful(), "test_repeatable"),
    "scratch that all share": (SharedScratch(), "test_threads"),
    "offers anything": (Greedy(), "test_refuses_what_nobody_knows"),
    "raises instead of refusing": (Raises(), "test_answers"),
    "refuses without a reason": (Silent(), "test_answers"),
    "neither offers nor refuses": (NoOffers(), "test_answers"),
    "a kind that it never runs": (Idle(), "test_kind_is_run"),
    "one formula for all bodies": (OneFormula(), "test_runs_what_the_body_says"),
    "too few operands": (Changed(lambda offer: dataclasses.replace(offer, inputs=offer.inputs[:1])), "test_answers"),
    "an offer of another type": (Changed(lambda offer: offer.kernel), "test_answers"),
    "negative time": (Changed(lambda offer: dataclasses.replace(offer, seconds=-1.0)), "test_answers"),
    "a hint far off": (Slow(), "test_hints"),
    "a hint of a kind far off": (SlowKind(), "test_hints_of_kinds"),
    "a layout that it does not state": (
        Changed(lambda offer: dataclasses.replace(offer, outputs=(Operand(Layout(4)),))),
        "test_layouts",
    ),
    "a wrong copy between layouts": (Blocked(), "test_layouts"),
    "in place, it says": (Changed(lambda o: _in_place(o) if o.kernel == "seeded.Relu" else o), "test_in_place"),
}


def test_there_are_twelve() -> None:
    assert len(FAULTS) >= 12
    assert PLAIN == Layout(0)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault: str) -> None:
    pack, expected = FAULTS[fault]
    found = failures(kit(pack))
    assert expected in found, found
