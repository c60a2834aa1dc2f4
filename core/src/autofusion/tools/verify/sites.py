"""Step 1: every fused site on its own. The kernel's result against its body by the reference kernels, on real operands.

The production plan runs, and each step is judged as it passes, in tails and control-flow bodies too. Ordinary steps
are judged as well, unless a reference kernel runs them: level off runs the same kernels, so it cannot tell. Passes are
repeated: the same operands must give the same bits, or the kernel depends on something that it should not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autofusion.errors import AutofusionError
from autofusion.ir.graph import FUSED, Graph, Node
from autofusion.kernels.evaluation import reference_pack
from autofusion.lowering.plan import Step
from autofusion.numerics import Numerics
from autofusion.runtime.executor import Stage
from autofusion.runtime.session import Session
from autofusion.tools.verify.exact import Book, body_of
from autofusion.tools.verify.tolerance import EQUAL, Judged, Tolerances, judge, judge_bits, perturbed

UNSTABLE = "the same operands gave different results in different runs"


@dataclass(slots=True)
class SiteResult:
    """What was found of one step, over all cases and passes; ``judged`` is the worst."""

    site: str
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    rule: str
    kind: str
    kernel: str
    version: str
    judged: Judged = EQUAL
    case: str = ""
    runs: int = 0
    unstable: bool = False
    note: str = ""

    @property
    def fused(self) -> bool:
        """True for a fused site, False for an ordinary step."""
        return bool(self.kind)

    @property
    def reason(self) -> str:
        """What is wrong, or an empty string."""
        return self.judged.reason or (UNSTABLE if self.unstable else "")

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "site": self.site,
            "nodes": list(self.nodes),
            "operators": list(self.operators),
            "rule": self.rule,
            "kind": self.kind,
            "kernel": self.kernel,
            "version": self.version,
            "error": self.judged.error,
            "limit": self.judged.limit,
            "share": self.judged.share,
            "case": self.case,
            "runs": self.runs,
            "reason": self.reason,
            "note": self.note,
        }


def site_name(node: Node) -> str:
    """What reports and switches call a step: the source node that its anchor stands for."""
    return node.name if node.name in node.origin or not node.origin else node.origin[0]


@dataclass(slots=True)
class SiteChecker:
    """Judges the steps of a session's runs. ``all_steps`` judges those of reference kernels as well; ``nodes``, unless
    None, only those that stand for one of these source nodes.
    """

    session: Session
    tolerances: Tolerances = field(default_factory=Tolerances)
    all_steps: bool = False
    nodes: frozenset[str] | None = None
    progress: Callable[[str], None] = lambda doing: None
    results: dict[tuple[str, ...], SiteResult] = field(default_factory=dict)
    _book: Book | None = None
    _seen: dict[tuple[Any, ...], set[bytes]] = field(default_factory=dict)
    _case: str = ""
    _judging: bool = True

    def run(self, inputs: Mapping[str, Any], case: str, *, judge: bool = True) -> dict[str, Any]:
        """Run the session once, step by step, judging each step unless told not to; return its outputs."""
        session = self.session
        self._case, self._judging = case, judge
        with session.context.observation.by(self._observe):
            outputs = session.executor.attempt(session.arguments(inputs), self._observe, replace_failing=False)
        return dict(zip(session.graph.output_names, outputs, strict=True))

    def _observe(self, stage: Stage, inputs: Sequence[Any]) -> list[Any]:
        steps = stage.runner.plan.steps
        self._announce(steps, 0)

        def see(number: int, step: Step, operands: list[Any], results: list[Any]) -> None:
            if self._judging and self._concerns(step):
                self._judge(step, operands, results)
            self._announce(steps, number + 1)

        # Looking at every step, not only at fused ones, tells exactly which one a crash was in.
        results = stage.runner.run_watched(inputs, range(len(steps)), see)
        self.progress(f"{self._case}: finishing")
        return stage.join(results)

    def _concerns(self, step: Step) -> bool:
        if step.is_reorder or not (self.all_steps or step.node.op == FUSED or not step.pack.is_reference):
            return False
        if step.node.op != FUSED and any(isinstance(a, Graph) for a in step.node.attrs.values()):
            return False  # what runs in a body of control flow is judged there
        return self.nodes is None or not self.nodes.isdisjoint(step.node.origin or (step.node.name,))

    def _announce(self, steps: Sequence[Step], number: int) -> None:
        if number < len(steps):
            step = steps[number]
            self.progress(f"{self._case}: running {step.kernel} at '{site_name(step.node)}'")

    def _judge(self, step: Step, operands: list[Any], results: list[Any]) -> None:
        node = step.node
        key = (step.kernel, node.name, *node.origin)
        found = self.results.get(key)
        if found is None:
            found = self.results[key] = SiteResult(
                site_name(node),
                node.origin or (node.name,),
                tuple(n.op for n in node.body.nodes) if node.op == FUSED else (node.op,),
                str(node.attr("rule", "")),
                str(node.attr("kind", "")),
                step.kernel,
                step.pack.version,
            )
        found.runs += 1
        variable = [x for v, x in zip(node.inputs, operands, strict=True) if v is not None and v.const is None]
        inputs, outputs = _digest(variable), _digest(results)
        before = self._seen.setdefault((node, inputs), set())
        if outputs in before:
            return
        found.unstable = found.unstable or bool(before)
        before.add(outputs)
        self._compare(step, operands, results, found)

    def _compare(self, step: Step, operands: list[Any], results: list[Any], found: SiteResult) -> None:
        if self._book is None:
            self._book = Book(reference_pack(self.session.context.kernel_packs), self.session.context.target)
        body = body_of(step.node)
        operands = [x for v, x in zip(step.node.inputs, operands, strict=True) if v is not None]
        try:
            plain = self._book.plain(body, operands)
        except AutofusionError as error:
            found.note = f"not judged: {error}"
            return
        exact: Sequence[Any] = [None] * len(plain)
        moved: Sequence[Any] = exact
        try:
            exact = self._book.exact(body, operands)
            moved = self._book.exact(body, [perturbed(x, i) for i, x in enumerate(operands)])
        except Exception as error:  # some operators exist in single precision only
            found.note = f"compared in single precision: {type(error).__name__}: {error}"
        clean = all(map(_finite, operands))
        for value, got, want, precise, other in zip(step.node.outputs, results, plain, exact, moved, strict=True):
            if value.use_count and isinstance(got, np.ndarray):
                judged = judge(got, want, precise, other, self.tolerances, step.offer.numerics, clean)
                if step.offer.numerics is self.session.context.options.numerics is Numerics.EXACT and judged.fine:
                    judged = judge_bits(got, want, judged)
                if judged.share > found.judged.share:
                    found.judged, found.case = judged, self._case


def _finite(value: Any) -> bool:
    """True unless ``value`` is an array with infinities or NaN."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fV":
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(value.astype(np.float32) if value.dtype.kind == "V" else value).all())


def _digest(values: Sequence[Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            digest.update(str((value.dtype.str, value.shape)).encode())
            digest.update(np.ascontiguousarray(value).view(np.uint8).reshape(-1).data if value.size else b"")
        else:
            digest.update(repr(value).encode())
    return digest.digest()
