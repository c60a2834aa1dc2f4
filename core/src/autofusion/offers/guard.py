"""A guard around each kernel pack: whatever a pack does wrong is attributed to it, and the kernel is quarantined.

Packs are other people's code. One that raises, answers with something that is not an offer, or returns results of
another shape must not cost the user the model, as long as another pack runs the node: the reference kernels always do.
What was quarantined, and why, is logged, and explain shows it as a refusal.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np

from autofusion.errors import InputError, KernelError
from autofusion.faults import PLUGIN_FAULTS, require_own
from autofusion.ir.graph import Node
from autofusion.ir.types import TensorType
from autofusion.kernels.contract import (
    BindContext,
    BoundStep,
    KernelPack,
    Memory,
    Offer,
    Operand,
    PythonKernel,
    RepeatingSegment,
    Segment,
    TensorView,
)
from autofusion.kernels.saving import Saved, Storage
from autofusion.kernels.target import Target
from autofusion.kinds import FusedKind
from autofusion.numerics import NotFinite
from autofusion.plugins.discovery import STRICT
from autofusion.plugins.records import LOG, describe
from autofusion.plugins.watchdog import limit, limited
from autofusion.refusal import Refusal

T = TypeVar("T")

_PASSED_ON = (InputError, NotFinite)
"""What a kernel may raise without having failed: the caller's data is at fault, or it is another's turn."""
_SHORTAGES = 3
"""A kernel that runs out of memory so many times in a row asks for too much; once may be the state of the machine."""
KERNEL_FACTOR = 10.0
"""A kernel may take so much longer than a plugin's answers: it works on data."""
ALL = "*"
"""In place of a kernel's name: everything that the pack offers."""


class KernelFailure(KernelError):
    """A kernel of ``pack`` did something wrong; the message says what, with the pack's version."""

    def __init__(self, pack: GuardedPack, kernel: str, message: str) -> None:
        super().__init__(message)
        self.pack, self.kernel = pack, kernel


def guarded(pack: KernelPack) -> GuardedPack:
    """``pack`` behind a guard."""
    return pack if isinstance(pack, GuardedPack) else GuardedPack(pack)


class GuardedPack:
    """A kernel pack whose answers are checked, and whose failures say whose they are.

    What a kernel of a reference pack raises is left as it is, and what control flow raises is not a reason to plan
    again: no other pack could take its place.
    """

    def __init__(self, pack: KernelPack) -> None:
        self._pack = pack
        self.name, self.version, self.is_reference = pack.name, pack.version, pack.is_reference
        self.blocks: Sequence[int] = pack.blocks
        self.launch_seconds = pack.launch_seconds
        self.kinds: Sequence[FusedKind] = pack.kinds
        self._has_limit = not pack.is_reference and getattr(pack, "has_time_limit", True)
        self._replaceable = not pack.is_reference and getattr(pack, "replaceable", True)
        self._quarantine: dict[str, Refusal] = {}
        """Kernel -> why it is not used any more."""
        self._shortages: Counter[str] = Counter()
        """Kernel -> how many times in a row it ran out of memory."""

    def quarantine(self, kernel: str, reason: str) -> None:
        """Never offer ``kernel`` again in this session; raise the reason instead under ``AUTOFUSION_STRICT=1``."""
        if os.environ.get(STRICT, "") not in ("", "0"):
            raise KernelError(f"{reason} ({STRICT} is set)")
        self._quarantine[kernel] = Refusal(reason)
        LOG.warning("kernel quarantined: %s", reason)

    @property
    def quarantine_reasons(self) -> dict[str, str]:
        """Every kernel that is not used any more, with the reason."""
        return {kernel: refusal.reason for kernel, refusal in self._quarantine.items()}

    def quarantined(self, kernel: str) -> Refusal | None:
        """Why ``kernel`` is not used any more; None if it is."""
        return self._quarantine.get(kernel) or self._quarantine.get(ALL)

    def offer(self, node: Node, target: Target) -> Sequence[Offer] | Refusal:
        """The pack's offers; a refusal for whatever is not an answer."""
        if ALL in self._quarantine:
            return self._quarantine[ALL]
        try:
            answer = self._limited(lambda: self._pack.offer(node, target))
        except PLUGIN_FAULTS as error:
            require_own(error)
            self._pass_on_shortage(error, ALL)
            return Refusal(f"it (version {self.version}) raised {describe(error)}", node)
        if isinstance(answer, Refusal):
            return answer
        if not isinstance(answer, list | tuple):
            return Refusal(f"it (version {self.version}) answered with {type(answer).__name__}, expected offers", node)
        problems = [_problem(offer, node) for offer in answer]
        found = [offer for offer, problem in zip(answer, problems, strict=True) if problem is None]
        reasons = [problem.reason for problem in problems if problem is not None]
        whose = f"it (version {self.version}) made an offer that "
        return found or Refusal("; ".join(whose + reason for reason in reasons) or "it offers nothing", node)

    def resized(self, offer: Offer, node: Node) -> Offer | None:
        """What the pack makes of its ``offer`` for ``node``, whose sizes have changed; None if it has to be asked."""
        if offer.resize is None:
            return None
        try:
            answer = offer.resize()
        except PLUGIN_FAULTS as error:
            require_own(error)
            LOG.warning("pack '%s' %s raised in resize: %s", self.name, self.version, describe(error))
            return None
        if answer is None or _problem(answer, node) is not None:
            return None
        return self.attributed(answer, node.label)

    def _limited(self, call: Callable[[], T], factor: float = 1.0) -> T:
        """What ``call`` returns; HangError if it takes longer than a plugin's code may."""
        return limited(call, limit() * factor) if self._has_limit else call()

    def save_segments(self, segments: Sequence[Segment], storage: Storage) -> Saved | Refusal:
        """What the pack saves of its segments; see ``autofusion.kernels.saving``."""
        function = getattr(self._pack, "save_segments", None)
        if function is None:
            return Refusal(f"pack '{self.name}' cannot save what it runs")
        try:
            own = [s.unguarded if isinstance(s, GuardedSegment) else s for s in segments]
            saved: Saved | Refusal = function(own, storage)
        except PLUGIN_FAULTS as error:
            require_own(error)
            return Refusal(
                f"pack '{self.name}' (version {self.version}) could not save what it runs: {describe(error)}"
            )
        return saved

    def attributed(self, offer: Offer, label: str) -> Offer:
        """``offer``, for the node ``label``: whatever its kernel does wrong is a KernelFailure."""
        if self.is_reference:
            return offer
        o, bind = offer, partial(self._bind, offer, label)
        # Not by `dataclasses.replace`, which takes several times as long: this happens at every step of every plan.
        return Offer(o.kernel, o.inputs, o.outputs, bind, o.seconds, o.scratch, o.numerics, o.inplace, o.resize)

    def _bind(
        self,
        offer: Offer,
        label: str,
        context: BindContext,
        inputs: Sequence[TensorView | None],
        outputs: Sequence[TensorView],
    ) -> Any:
        try:
            kernel = offer.bind(context, inputs, outputs)
        except PLUGIN_FAULTS as error:
            self.fail(error, offer.kernel, label, " when bound")
        return self._called(kernel, offer.kernel, label) if callable(kernel) else kernel

    def _called(self, kernel: PythonKernel, name: str, label: str) -> PythonKernel:
        def call(arrays: Sequence[Any]) -> Sequence[Any]:
            try:
                results = self._limited(lambda: kernel(arrays), KERNEL_FACTOR)
            except PLUGIN_FAULTS as error:
                self.fail(error, name, label)
            self.succeed(name)
            return results

        return call

    def fail(self, error: BaseException, kernel: str, label: str, when: str = "") -> NoReturn:
        """Raise what the caller of a session is to see of ``error``, which the pack raised."""
        require_own(error)
        if not when and isinstance(error, _PASSED_ON):
            raise error
        self._pass_on_shortage(error, kernel)
        raise self.failure(kernel, label, f"raised {describe(error)}{when}") from error

    def succeed(self, kernel: str) -> None:
        """Say that ``kernel`` has run."""
        if self._shortages:
            self._shortages.pop(kernel, None)

    def _pass_on_shortage(self, error: BaseException, kernel: str) -> None:
        """Raise a MemoryError again, unless ``kernel`` raises one time and again: once may be the machine's state."""
        if isinstance(error, MemoryError):
            self._shortages[kernel] += 1
            if self._shortages[kernel] < _SHORTAGES:
                raise error

    def failure(self, kernel: str, label: str, what: str) -> KernelError:
        """The error for what ``kernel`` did wrong at ``label``."""
        who = "" if kernel == ALL else f"kernel '{kernel}' of "
        message = f"{who}pack '{self.name}' {self.version} {what}, for {label}"
        return KernelFailure(self, kernel, message) if self._replaceable else KernelError(message)

    def reorder(self, type_: TensorType, source: Operand, result: Operand, target: Target) -> Offer | None:
        """The pack's copy between layouts; None if it has none, or fails."""
        if ALL in self._quarantine:
            return None
        try:
            offer = self._pack.reorder(type_, source, result, target)
        except PLUGIN_FAULTS as error:
            require_own(error)
            LOG.warning("pack '%s' %s raised in reorder: %s", self.name, self.version, describe(error))
            return None
        if not isinstance(offer, Offer) or offer.kernel in self._quarantine:
            return None
        return self.attributed(offer, f"a copy of {type_}")

    def assemble(self, steps: Sequence[BoundStep], memory: Memory, target: Target) -> GuardedSegment:
        """The pack's native call for ``steps``, which have kernels that are not callable."""
        others = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
        what = f"{steps[0].node.label}{others}"
        try:
            segment = self._pack.assemble(steps, memory, target)
        except PLUGIN_FAULTS as error:
            self.fail(error, ALL, what, " when assembled")
        if segment is None:
            raise self.failure(ALL, what, "bound kernels that are not callable, but assembles none")
        return GuardedSegment(segment, self, what)


class GuardedSegment:
    """Assembled steps."""

    def __init__(self, segment: Segment, pack: GuardedPack, what: str) -> None:
        self.unguarded, self._pack, self._what = segment, pack, what
        self._repeat = segment.repeat if isinstance(segment, RepeatingSegment) else self._run_each

    def run(self, addresses: Sequence[int], start: int = 0, stop: int | None = None) -> None:
        """Run the steps from ``start`` up to ``stop``."""
        try:
            self.unguarded.run(addresses, start, stop)
        except PLUGIN_FAULTS as error:
            self._pack.fail(error, ALL, self._what)
        self._pack.succeed(ALL)

    def repeat(self, addresses: np.ndarray) -> None:
        """Run all steps once for each row of ``addresses``, [runs, slots]."""
        try:
            self._repeat(addresses)
        except PLUGIN_FAULTS as error:
            self._pack.fail(error, ALL, self._what)
        self._pack.succeed(ALL)

    def _run_each(self, addresses: np.ndarray) -> None:
        for row in addresses.tolist():
            self.unguarded.run(row)

    def run_timed(self, addresses: Sequence[int]) -> Sequence[float]:
        """Run all steps; the seconds that each took."""
        try:
            return self.unguarded.run_timed(addresses)
        except PLUGIN_FAULTS as error:
            self._pack.fail(error, ALL, self._what)


def _problem(offer: Any, node: Node) -> Refusal | None:
    """What is wrong with an offer, as the end of a sentence; None if nothing is."""
    if not isinstance(offer, Offer):
        return Refusal(f"is of type {type(offer).__name__}")
    if not isinstance(offer.kernel, str) or not offer.kernel:
        return Refusal("does not name its kernel")
    if len(offer.inputs) != len(node.inputs) or len(offer.outputs) != len(node.outputs):
        counts = f"{len(offer.inputs)} operands and {len(offer.outputs)} results"
        wanted = f"{len(node.inputs)} and {len(node.outputs)}"
        return Refusal(f"has {counts}, where the node has {wanted} ('{offer.kernel}')")
    if not callable(offer.bind):
        return Refusal(f"cannot be bound ('{offer.kernel}')")
    seconds = offer.seconds
    if seconds is not None and not (isinstance(seconds, int | float) and math.isfinite(seconds) and seconds >= 0):
        return Refusal(f"takes {seconds!r} seconds ('{offer.kernel}')")
    return None
