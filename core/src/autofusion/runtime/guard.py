"""Kernel packs at arm's length: whatever one does wrong is put down to it by name, and its kernel is put aside.

Packs are other people's code. One that raises, answers with something that is no offer, or returns results of another
shape must not cost the user the model, as long as someone else runs the node: the reference kernels always do. What was
put aside, and why, is logged, and explain shows it as a refusal.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autofusion.errors import PLUGIN_FAULTS, InputError, KernelError
from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import BindContext, BoundStep, KernelPack, Memory, Offer, Operand, Segment, TensorView
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind
from autofusion.numerics import NotFinite
from autofusion.plugins.discovery import STRICT
from autofusion.plugins.records import LOG, describe
from autofusion.refusal import Refusal

_PASSED_ON = (InputError, NotFinite)
"""What a kernel may raise without having failed: the caller's data is at fault, or it is another's turn."""
ALL = "*"
"""In place of a kernel's name: everything that the pack offers."""


class KernelFailure(KernelError):
    """A kernel of ``pack`` did something wrong; the message says what, with the pack's version."""

    def __init__(self, pack: GuardedPack, kernel: str, message: str) -> None:
        super().__init__(message)
        self.pack, self.kernel = pack, kernel


def guarded(pack: KernelPack) -> KernelPack:
    """``pack`` behind a guard; the oracle as it is, since there is nobody to take its place."""
    return pack if pack.oracle or isinstance(pack, GuardedPack) else GuardedPack(pack)


class GuardedPack:
    """A kernel pack whose answers are checked, and whose failures say whose they are."""

    oracle = False

    def __init__(self, pack: KernelPack) -> None:
        self._pack = pack
        self.name, self.version = pack.name, pack.version
        self.blocks: Sequence[int] = pack.blocks
        self.launch_seconds = pack.launch_seconds
        self.kinds: Sequence[FusedKind] = pack.kinds
        self._aside: dict[str, str] = {}
        """Kernel -> why it is not used any more."""

    def put_aside(self, kernel: str, reason: str) -> None:
        """Never offer ``kernel`` again in this session; raise the reason instead under ``AUTOFUSION_STRICT=1``."""
        if os.environ.get(STRICT, "") not in ("", "0"):
            raise KernelError(f"{reason} ({STRICT} is set)")
        self._aside[kernel] = reason
        LOG.warning("kernel put aside: %s", reason)

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """The pack's offers without those put aside; a refusal for whatever is no answer."""
        if ALL in self._aside:
            return Refusal(self._aside[ALL])
        try:
            answer = self._pack.offer(node, target)
        except PLUGIN_FAULTS as error:
            return Refusal(f"it (version {self.version}) raised {describe(error)}")
        if isinstance(answer, Refusal):
            return answer
        if not isinstance(answer, list | tuple):
            return Refusal(f"it (version {self.version}) answered with {type(answer).__name__}, expected offers")
        found, reasons = [], []
        for offer in answer:
            problem = _problem(offer, node)
            if problem:
                reasons.append(f"it (version {self.version}) made an offer that {problem}")
            elif offer.kernel in self._aside:
                reasons.append(self._aside[offer.kernel])
            else:
                found.append(dataclasses.replace(offer, bind=self._binder(offer, node.label)))
        return found or Refusal("; ".join(reasons) or "it offers nothing")

    def _binder(self, offer: Offer, label: str) -> Callable[..., Any]:
        def bind(context: BindContext, inputs: Sequence[TensorView | None], outputs: Sequence[TensorView]) -> Any:
            try:
                kernel = offer.bind(context, inputs, outputs)
            except PLUGIN_FAULTS as error:
                raise self._failure(offer.kernel, label, f"raised {describe(error)} when bound") from error
            return _Kernel(kernel, self, offer.kernel, label, outputs) if callable(kernel) else kernel

        return bind

    def _failure(self, kernel: str, label: str, what: str) -> KernelFailure:
        who = "" if kernel == ALL else f"kernel '{kernel}' of "
        return KernelFailure(self, kernel, f"{who}pack '{self.name}' {self.version} {what}, for {label}")

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """The pack's copy between layouts; None if it has none, or fails."""
        if ALL in self._aside:
            return None
        try:
            offer = self._pack.reorder(type_, source, result, target)
        except PLUGIN_FAULTS as error:
            LOG.warning("pack '%s' %s raised in reorder: %s", self.name, self.version, describe(error))
            return None
        if not isinstance(offer, Offer) or offer.kernel in self._aside:
            return None
        return dataclasses.replace(offer, bind=self._binder(offer, f"a copy of {type_}"))

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> Segment:
        """The pack's native call for ``steps``, which have kernels that are not callable."""
        others = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
        what = f"{steps[0].node.label}{others}"
        try:
            segment = self._pack.assemble(steps, memory, target)
        except PLUGIN_FAULTS as error:
            raise self._failure(ALL, what, f"raised {describe(error)} when assembled") from error
        if segment is None:
            raise self._failure(ALL, what, "bound kernels that are not callable, but assembles none")
        return _Segment(segment, self, what)


class _Kernel:
    """A bound kernel in Python."""

    __slots__ = ("_expected", "_kernel", "_label", "_name", "_pack")

    def __init__(self, kernel: Any, pack: GuardedPack, name: str, label: str, outputs: Sequence[TensorView]) -> None:
        self._kernel, self._pack, self._name, self._label = kernel, pack, name, label
        self._expected = [(_stored_shape(view), view.type.dtype) for view in outputs]

    def __call__(self, arrays: Sequence[Any]) -> Sequence[Any]:
        try:
            results: Sequence[Any] = self._kernel(arrays)
        except _PASSED_ON:
            raise
        except PLUGIN_FAULTS as error:
            raise self._pack._failure(self._name, self._label, f"raised {describe(error)}") from error
        if self._expected:
            self._check(results)
        return results

    def _check(self, results: Sequence[Any]) -> None:
        if not isinstance(results, list | tuple) or len(results) != len(self._expected):
            count = len(results) if isinstance(results, list | tuple) else type(results).__name__
            raise self._pack._failure(self._name, self._label, f"returned {count} results, not {len(self._expected)}")
        for result, (shape, dtype) in zip(results, self._expected, strict=True):
            if not isinstance(result, np.ndarray) or result.shape != shape or result.dtype != dtype:
                is_array = isinstance(result, np.ndarray)
                found = f"{result.dtype}{list(result.shape)}" if is_array else type(result).__name__
                what = f"returned {found}, expected {dtype}{list(shape)}"
                raise self._pack._failure(self._name, self._label, what)


class _Segment:
    """Assembled steps."""

    def __init__(self, segment: Segment, pack: GuardedPack, what: str) -> None:
        self._segment, self._pack, self._what = segment, pack, what

    def run(self, addresses: Sequence[int], start: int = 0, stop: int | None = None) -> None:
        """Run the steps from ``start`` up to ``stop``."""
        try:
            self._segment.run(addresses, start, stop)
        except _PASSED_ON:
            raise
        except PLUGIN_FAULTS as error:
            raise self._pack._failure(ALL, self._what, f"raised {describe(error)}") from error

    def run_timed(self, addresses: Sequence[int]) -> Sequence[float]:
        """Run all steps; the seconds that each took."""
        try:
            return self._segment.run_timed(addresses)
        except _PASSED_ON:
            raise
        except PLUGIN_FAULTS as error:
            raise self._pack._failure(ALL, self._what, f"raised {describe(error)}") from error


def _stored_shape(view: TensorView) -> tuple[int, ...]:
    shape, block = view.shape, view.layout.block
    return (shape[0], -(-shape[1] // block), *shape[2:], block) if block else shape


def _problem(offer: Any, node: Node) -> str:
    """What is wrong with an offer, as the end of a sentence; empty if nothing is."""
    if not isinstance(offer, Offer):
        return f"is of type {type(offer).__name__}"
    if not isinstance(offer.kernel, str) or not offer.kernel:
        return "does not name its kernel"
    if len(offer.inputs) != len(node.inputs) or len(offer.outputs) != len(node.outputs):
        counts = f"{len(offer.inputs)} operands and {len(offer.outputs)} results"
        return f"has {counts}, where the node has {len(node.inputs)} and {len(node.outputs)} ('{offer.kernel}')"
    if not callable(offer.bind):
        return f"cannot be bound ('{offer.kernel}')"
    seconds = offer.seconds
    if seconds is not None and not (isinstance(seconds, int | float) and math.isfinite(seconds) and seconds >= 0):
        return f"takes {seconds!r} seconds ('{offer.kernel}')"
    return ""
