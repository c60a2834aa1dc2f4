"""The conformance tests of a kernel pack. An author subclasses ``KernelPackTests`` and names the pack's entry point."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from autofusion.cost.calibrate import calibrate
from autofusion.errors import PluginError
from autofusion.ir.graph import FUSED, Graph, Node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import PLAIN, KernelPack, Layout, Offer, Operand
from autofusion.kernels.target import Target
from autofusion.kinds import ANY_KIND, find
from autofusion.numerics import Numerics
from autofusion.refusal import Refusal
from autofusion.testing import numbers
from autofusion.testing.apply import run_node, this_target
from autofusion.testing.bench import Bench
from autofusion.testing.bodies import resized, unforeseen
from autofusion.testing.nodes import NodeCase, cases_in, fused_cases, node_case, ordinary_cases
from autofusion.testing.sizes import Sized
from autofusion.testing.standard import StandardTests

APPROXIMATE = 2e-3
"""Tolerance for kernels that say of themselves that they approximate."""
HINT_FACTOR = 3.0
"""How far a cost hint may be from what is measured, either way."""
HINT_FLOOR = 2e-6
"""Seconds below which a step is mostly the measurement's own overhead."""
KIND_HINT_FACTOR, KIND_HINT_FLOOR = 30.0, 2e-5
"""The same for fused nodes, which the kit only has in small sizes."""


class KernelPackTests(StandardTests):
    """Everything that must hold of a kernel pack, whatever it runs::

        class TestAcme(KernelPackTests):
            plugin = "acme"
            cases = Path(__file__).parent / "cases"

    The kit asks the pack about every node that it knows: ordinary operators on awkward shapes, and the fused nodes that
    installed rules make of its networks. ``cases`` is a folder of ``.ir`` files whose nodes are tried too: a pack with
    a kind of its own needs one, unless an installed rule emits the kind on the kit's networks.
    """

    group = "autofusion.kernels"
    cases: ClassVar[Path | str | None] = None

    @classmethod
    def kernel_pack(cls) -> KernelPack:
        """The pack under test."""
        pack: KernelPack = cls.subject()
        return pack

    @classmethod
    def parameters(cls) -> dict[str, list[Any]]:
        """What the tests run over: operators and fused kinds that the pack offers to run, and the kinds it states."""
        try:
            pack = cls.kernel_pack()
        except PluginError:  # test_plugin_is_loaded says why
            return {"runs": [], "kind": []}
        return {
            "runs": sorted(cls._offered()),
            "kind": sorted({kind.name for kind in pack.kinds} - {ANY_KIND.name}),
        }

    # ---- offers -----------------------------------------------------------------------------------------------------

    def test_answers(self) -> None:
        """Asked about any node, the pack offers or refuses with a reason; it does not raise."""
        pack = self.kernel_pack()
        for case in self._all_cases():
            try:
                answer = pack.offer(case.node, this_target())
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                raise AssertionError(f"pack '{pack.name}' raised where it should refuse: {said}; {case}") from error
            if isinstance(answer, Refusal):
                assert isinstance(answer.reason, str) and answer.reason, f"it refuses without a reason: {case}"
                continue
            assert isinstance(answer, Sequence) and answer, f"it offers nothing and does not refuse: {case}"
            for offer in answer:
                self._check_offer(offer, case)

    def test_refuses_what_nobody_knows(self) -> None:
        """Operators and kinds that exist nowhere, and operands of open shape, are refused."""
        pack = self.kernel_pack()
        for node in _unknown_nodes(any_kind=find(pack.kinds, ANY_KIND.name) is not None):
            answer = pack.offer(node, this_target())
            assert isinstance(answer, Refusal), f"pack '{pack.name}' offers to run {node.label} ({node.op}): {answer}"

    def test_offers_something(self) -> None:
        """There is something that the pack runs."""
        reason = f"pack '{self.kernel_pack().name}' refuses every node that the kit knows; add cases"
        self.need(bool(self._offered()), reason)

    def test_kind_is_run(self, kind: str) -> None:
        """A stated kind is one that the pack runs."""
        self.need(
            f"{FUSED}:{kind}" in self._offered(),
            f"pack '{self.kernel_pack().name}' states kind '{kind}', but runs no node of it that the kit knows; add a "
            "case, or leave the kind out",
        )

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def test_numbers(self, runs: str) -> None:
        """Every offer computes what the operator, or the body, says; on unfriendly memory, touching nothing else."""
        for case, offer in self._offers(runs):
            for hostile in (True, False):
                self._compare(case, offer, hostile=hostile)

    def test_special_numbers(self, runs: str) -> None:
        """NaN, infinities and zeros of both signs come out as the operator says."""
        for case, offer in self._offers(runs):
            # Another algorithm may spread an infinity, and NaN as an integer is whatever a machine makes of it.
            if offer.numerics is not Numerics.APPROXIMATE and case.node.op != "Cast":
                self._compare(case.with_specials(), offer)

    def test_repeatable(self, runs: str) -> None:
        """The same operands give the same bits again, whatever was computed in between."""
        for case, offer in self._offers(runs):
            bench = Bench(self.kernel_pack(), case, offer, this_target())
            first = bench.run(case.arrays)
            bench.run(_others(case))
            for old, new in zip(first, bench.run(case.arrays), strict=True):
                assert _same_bits(old, new), f"kernel '{offer.kernel}' gives other numbers the second time: {case}"

    def test_in_place(self, runs: str) -> None:
        """Where an offer says that a result may take an operand's memory, it may."""
        for case, offer in self._offers(runs):
            if offer.inplace:
                self._compare(case, offer, hostile=False, inplace=True)

    def test_threads(self, runs: str) -> None:
        """One thread and several give the same numbers, and two bound kernels may run at the same time."""
        several = dataclasses.replace(this_target(), threads=max(2, this_target().threads))
        for target in (dataclasses.replace(several, threads=1), several):
            for case, offer in self._offers(runs, target):
                self._compare(case, offer, target=target)
        for case, offer in list(self._offers(runs, several))[:2]:
            self._together(case, offer, several)

    def test_runs_what_the_body_says(self, kind: str) -> None:
        """A fused node whose body is not the usual one, or in other sizes, is run as its body says, or refused."""
        for case, _ in self._offers(f"{FUSED}:{kind}"):
            for what, changed in (*unforeseen(case), *resized(case)):
                answer = self.kernel_pack().offer(changed.node, this_target())
                for offer in [] if isinstance(answer, Refusal) else answer:
                    self._compare(changed, offer, note=f" with {what}")

    def test_resize(self, runs: str) -> None:
        """An offer that says that it can be resized says of other sizes what the pack offers for them, and computes the
        right numbers, also once the node has its old sizes again.
        """
        pack, target = self.kernel_pack(), this_target()
        for case in self._offered().get(runs, []):
            sized = Sized(case)
            answer = pack.offer(sized.node, target)
            for offer in [] if isinstance(answer, Refusal) else answer:
                for size in sized.sizes() if offer.resize is not None else ():
                    self._check_resize(sized, offer, {size: 2 * size + 1}, target)
                    self._check_resize(sized, offer, {size: 3 * size}, target)

    # ---- layouts ----------------------------------------------------------------------------------------------------

    def test_layouts(self) -> None:
        """Offers use layouts that the pack states, and the pack copies between each of them and plain storage."""
        pack = self.kernel_pack()
        stated = {0, *pack.blocks}
        for key in self._offered():
            for _, offer in self._offers(key):
                used = {o.layout.block for o in (*offer.inputs, *offer.outputs) if o is not None}
                assert used <= stated, f"kernel '{offer.kernel}' uses blocks {used - stated}, 'blocks' is {pack.blocks}"
        for block in pack.blocks:
            for shape in ((2, block + 1, 3, 5), (1, 1, 1, 1), (1, 2 * block, 4)):
                self._check_reorder(shape, block)

    # ---- cost -------------------------------------------------------------------------------------------------------

    def test_hints(self) -> None:
        """Where an offer states its seconds, that is within a factor of three of what it takes here, as a rule.

        On one thread, and with measured rates for this machine: what is tried is the pack's formula, not our guesses.
        """
        pack = self.kernel_pack()
        if pack.is_reference:
            return  # its estimates are slow on purpose, so that any other pack is preferred
        wrong, count = [], 0
        target = calibrate(dataclasses.replace(this_target(), threads=1))
        for case in _large_cases():
            answer = pack.offer(case.node, target)
            for offer in [] if isinstance(answer, Refusal) else answer:
                if offer.seconds is None:
                    continue
                stated = offer.seconds + pack.launch_seconds
                taken = self._measure(case, offer, target)
                count += 1
                if max(taken, stated) > HINT_FLOOR and not stated / HINT_FACTOR <= taken <= stated * HINT_FACTOR:
                    wrong.append(f"kernel '{offer.kernel}' on {case}: stated {stated:.3g} s, took {taken:.3g} s")
        # A machine that does other work disturbs a measurement now and then; a wrong formula is wrong for many nodes.
        assert len(wrong) <= count // 4, f"{len(wrong)} of {count} hints are wrong: " + "; ".join(wrong)

    def test_hints_of_kinds(self, kind: str) -> None:
        """Fused nodes are small here, and much of what is measured is the call: a hint may be off, but not far off."""
        pack = self.kernel_pack()
        wrong, count = [], 0
        target = dataclasses.replace(this_target(), threads=1)
        for case, offer in () if pack.is_reference else self._offers(f"{FUSED}:{kind}", target):
            if offer.seconds is None or 0 in [size for a in case.arrays if a is not None for size in a.shape]:
                continue
            count += 1
            stated, taken = offer.seconds + pack.launch_seconds, self._measure(case, offer, target, 0.01)
            far = not stated / KIND_HINT_FACTOR <= taken <= stated * KIND_HINT_FACTOR
            if far and max(taken, stated) > KIND_HINT_FLOOR:
                wrong.append(f"kernel '{offer.kernel}' on {case}: stated {stated:.3g} s, took {taken:.3g} s")
        assert len(wrong) <= count // 4, f"{len(wrong)} of {count} hints are far off: " + "; ".join(wrong)

    # ---- inside -----------------------------------------------------------------------------------------------------

    @classmethod
    def _all_cases(cls) -> list[NodeCase]:
        if cls not in _CASES:
            _CASES[cls] = [*ordinary_cases(), *fused_cases(), *cases_in(cls.cases)]
        return _CASES[cls]

    @classmethod
    def _offered(cls) -> dict[str, list[NodeCase]]:
        """Operator or kind -> the cases that the pack offers to run."""
        if cls not in _OFFERED:
            found: dict[str, list[NodeCase]] = {}
            for case in cls._all_cases():
                try:
                    answer = cls.kernel_pack().offer(case.node, this_target())
                except Exception:  # test_answers says so
                    continue
                if not isinstance(answer, Refusal) and answer:
                    found.setdefault(case.key, []).append(case)
            _OFFERED[cls] = found
        return _OFFERED[cls]

    @classmethod
    def _offers(cls, key: str, target: Target | None = None) -> Iterator[tuple[NodeCase, Offer]]:
        for case in cls._offered().get(key, []):
            answer = cls.kernel_pack().offer(case.node, target or this_target())
            for offer in [] if isinstance(answer, Refusal) else answer:
                yield case, offer

    def _check_offer(self, offer: Any, case: NodeCase) -> None:
        pack = self.kernel_pack()
        what = f"an offer of pack '{pack.name}' for {case}"
        assert isinstance(offer, Offer), f"{what} is of type {type(offer).__name__}"
        assert offer.kernel, f"{what} has no kernel name"
        assert len(offer.inputs) == len(case.node.inputs), f"{what} has {len(offer.inputs)} operands"
        assert len(offer.outputs) == len(case.node.outputs), f"{what} has {len(offer.outputs)} results"
        for value, operand in zip(case.node.inputs, offer.inputs, strict=True):
            assert (value is None) == (operand is None), f"{what} confuses which operands are absent"
        if offer.seconds is not None:
            assert np.isfinite(offer.seconds) and offer.seconds >= 0, f"{what} takes {offer.seconds} s"
        assert offer.scratch >= 0, f"{what} wants {offer.scratch} bytes of scratch"

    def _compare(
        self,
        case: NodeCase,
        offer: Offer,
        *,
        target: Target | None = None,
        hostile: bool = True,
        inplace: bool = False,
        note: str = "",
    ) -> None:
        """Raise AssertionError unless the offer gives what the reference gives."""
        bench = Bench(self.kernel_pack(), case, offer, target or this_target(), hostile=hostile, inplace=inplace)
        expected = run_node(case.node, list(case.arrays))
        for number, (got, want) in enumerate(zip(bench.run(case.arrays), expected, strict=True)):
            said = numbers.difference(got, want, _tolerance(offer, np.asarray(want).dtype))
            assert not said, f"kernel '{offer.kernel}' on {case}{note}, result {number}: {said}"

    def _check_resize(self, sized: Sized, offer: Offer, sizes: dict[int, int], target: Target) -> None:
        other = sized.resize(sizes)
        if other is None or offer.resize is None:
            return
        pack, resized = self.kernel_pack(), offer.resize()
        answer = pack.offer(other.node, target)
        anew = [
            o
            for o in ([] if isinstance(answer, Refusal) else answer)
            if o.kernel == offer.kernel and _layouts(o) == _layouts(offer)
        ]
        if resized is not None and anew:
            for field in ("kernel", "inputs", "outputs", "seconds", "scratch", "numerics", "inplace"):
                found, wanted = getattr(resized, field), getattr(anew[0], field)
                assert found == wanted, f"resized, kernel '{offer.kernel}' says {field} {found}, not {wanted}: {other}"
            expected = run_node(other.node, list(other.arrays))
            bench = Bench(pack, other, resized, target)
            sized.restore()
            for number, (got, want) in enumerate(zip(bench.run(other.arrays), expected, strict=True)):
                said = numbers.difference(got, want, _tolerance(offer, np.asarray(want).dtype))
                assert not said, f"resized, kernel '{offer.kernel}' on {other}, result {number}: {said}"
        assert resized is None or anew, f"resized, kernel '{offer.kernel}' is offered, asked anew it is not: {other}"
        sized.restore()

    def _together(self, case: NodeCase, offer: Offer, target: Target) -> None:
        data = [case.arrays, _others(case)]
        benches = [Bench(self.kernel_pack(), case, offer, target) for _ in data]
        wanted = [bench.run(arrays) for bench, arrays in zip(benches, data, strict=True)]
        wrong: list[str] = []

        def repeat(index: int) -> None:
            try:
                for _ in range(10):
                    for old, new in zip(wanted[index], benches[index].run(data[index]), strict=True):
                        if not _same_bits(old, new):
                            wrong.append("gives other numbers")
            except Exception as error:
                wrong.append(f"raised {type(error).__name__}: {error}")

        threads = [threading.Thread(target=repeat, args=(index,)) for index in range(len(data))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, f"kernel '{offer.kernel}' {wrong[0]} while another one runs: {case}"

    def _check_reorder(self, shape: tuple[int, ...], block: int) -> None:
        pack, type_ = self.kernel_pack(), TensorType(np.dtype(np.float32), shape)
        case = node_case("Identity", [numbers.random_array(type_, np.random.default_rng(1))])
        for source, result in ((PLAIN, Layout(block)), (Layout(block), PLAIN)):
            offer = pack.reorder(type_, Operand(source), Operand(result), this_target())
            assert offer is not None, f"pack '{pack.name}' states block {block}, but does not copy {source} to {result}"
            (found,) = Bench(pack, case, offer, this_target()).run(case.arrays)
            said = numbers.difference(found, case.arrays[0], 0.0)
            assert not said, f"pack '{pack.name}' copies {type_} from {source} to {result} wrongly: {said}"

    def _measure(self, case: NodeCase, offer: Offer, target: Target, seconds: float = 0.05) -> float:
        bench = Bench(self.kernel_pack(), case, offer, target, hostile=False)
        bench.run(case.arrays)
        best, end = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            bench.run_kernel()
            best = min(best, time.perf_counter() - start)
        return best


_CASES: dict[type, list[NodeCase]] = {}
_OFFERED: dict[type, dict[str, list[NodeCase]]] = {}


def _tolerance(offer: Offer, dtype: np.dtype) -> float:
    if offer.numerics is Numerics.EXACT:
        return 0.0
    least = APPROXIMATE if offer.numerics is Numerics.APPROXIMATE else 0.0
    return max(least, numbers.tolerance(dtype))


def _layouts(offer: Offer) -> list[Layout | None]:
    return [None if operand is None else operand.layout for operand in (*offer.inputs, *offer.outputs)]


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _others(case: NodeCase) -> list[np.ndarray | None]:
    """Other data of the same types; constants stay."""
    rng = np.random.default_rng(99)
    return [
        data if data is None or value is None or value.const is not None else numbers.random_array(value.tensor, rng)
        for value, data in zip(case.node.inputs, case.arrays, strict=True)
    ]


def _unknown_nodes(*, any_kind: bool) -> Iterator[Node]:
    f32 = np.dtype(np.float32)
    graph = Graph("unknown")
    x = graph.add_input("x", TensorType(f32, (3, 5)))
    yield graph.node("no.such.domain::NoSuchOperator", [x], outputs=[x.type], name="unknown")
    body = Graph("body")
    inner = body.node("no.such.domain::NoSuchOperator", [body.add_input("x", x.type)], outputs=[x.type])
    body.add_output(inner.output)
    attrs = {"kind": "no.such.kind", "rule": "no.such.rule@1", "body": body}
    yield graph.node(FUSED, [x], attrs, outputs=[x.type], name="fused_unknown")
    if not any_kind:
        known = Graph("body")
        known.add_output(known.node("Relu", [known.add_input("x", x.type)], outputs=[x.type]).output)
        yield graph.node(FUSED, [x], {**attrs, "body": known}, outputs=[x.type], name="kind_unknown")
        text = graph.add_input("text", TensorType(np.dtype(object), (3,)))
        yield graph.node("Relu", [text], outputs=[text.type], name="relu_of_texts")


def _large_cases() -> list[NodeCase]:
    """Nodes that are worth timing."""
    rng = np.random.default_rng(0)

    def data(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    image = data(1, 64, 56, 56)
    return [
        node_case("Relu", [image]),
        node_case("Sigmoid", [image]),
        node_case("Add", [image, data(1, 64, 56, 56)]),
        node_case("Mul", [image, data(64, 1, 1)]),
        node_case("Conv", [image, data(64, 64, 3, 3) / 24, data(64)], constants=[1, 2], pads=[1, 1, 1, 1]),
        node_case("Conv", [image, data(128, 64, 1, 1) / 8], constants=[1]),
        node_case("Conv", [image, data(64, 1, 3, 3)], constants=[1], pads=[1, 1, 1, 1], group=64),
        node_case("MatMul", [data(128, 256), data(256, 512)], constants=[1]),
        node_case("MatMul", [data(8, 128, 64), data(8, 64, 128)]),
        node_case("Softmax", [data(8, 128, 128)], axis=-1),
        node_case("LayerNormalization", [data(128, 768), data(768), data(768)], constants=[1, 2], axis=-1),
        node_case("ReduceMean", [data(64, 3136), np.array([1], np.int64)], constants=[1]),
        node_case("MaxPool", [image], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node_case("GlobalAveragePool", [image]),
        node_case("Transpose", [image], perm=[0, 2, 3, 1]),
        node_case("Concat", [image, image], axis=1),
    ]
