"""A compiled model: arrays in, arrays out, and every decision that was made on the way."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofusion.errors import InputError, SizeWarning, nearest
from autofusion.forks import RenewedLock
from autofusion.fusion.ledger import Ledger
from autofusion.ir.graph import Graph, Value
from autofusion.ir.mapped import mapped_files, reading
from autofusion.ir.operators.control import without_symbols
from autofusion.ir.shared import constants
from autofusion.ir.types import TensorType
from autofusion.lowering.plan import Plan
from autofusion.offers.guard import guarded
from autofusion.rules.level import Level
from autofusion.runtime.context import Context
from autofusion.runtime.executor import Executor, Stage
from autofusion.runtime.feeds import check_shape, missing_shapes
from autofusion.runtime.interface import Interface
from autofusion.runtime.statistics import Statistics

if TYPE_CHECKING:
    from os import PathLike

    from autofusion.runtime.watch import Watched


class Session(Interface):
    """Runs one model. Safe to call from several threads; runs in the same memory take turns, and making a plan for new
    shapes does not hold up runs of known ones.

    A session is also a context manager, which closes it at the end. Copies and pickles of it name the file and the
    options, from which they are compiled again.

    ``source`` is the graph as the frontend gave it, ``graph`` the prepared one (shape-independent rules applied).
    """

    def __init__(self, source: Graph, context: Context) -> None:
        self.source = source
        self.context = context
        context.files = mapped_files(value.const for value in constants(source) if value.const is not None)
        with reading(context.files):
            self.graph, self.prepared_ledger = context.prepare(source)
        self.executor = Executor(self.graph, context)
        self._stage_with_known_kernels: Stage | None = None
        self.has_bodies = any(isinstance(a, Graph) for n in self.graph.nodes for a in n.attrs.values())
        self.recipe: tuple[str, Mapping[str, Any]] | None = None
        """The file and the arguments of ``compile`` that make the same session, or None."""
        self._closed = False
        self._separating = RenewedLock()

    # ---- running ---------------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run on ``inputs`` by name; return the outputs by name. Inputs with a stored default may be left out.

        Raises InputError (naming the input, what was expected and found) for a wrong name, dtype or shape.
        """
        results = self.executor.attempt(self.arguments(inputs), self._run)
        return dict(zip(self.graph.output_names, results, strict=True))

    def prepare(self, shapes: Mapping[str, tuple[int, ...]]) -> Stage:
        """Compile for these input shapes now. Inputs that are left out need static declared shapes or defaults."""
        self._require_open()
        names = [v.name for v in self.graph.inputs]
        for name in shapes:
            if name not in names:
                raise InputError(f"the model has no input '{name}'; expected {self._signature()}{nearest(name, names)}")
        key = []
        stated: dict[str, tuple[int, ...]] = {}
        missing: list[Value] = []
        for value in self.graph.inputs:
            type_ = value.type
            if value.name in shapes and isinstance(type_, TensorType):
                shape = stated[value.name] = tuple(int(d) for d in shapes[value.name])
                check_shape(value, shape)
                type_ = type_.with_shape(shape)
            elif value.default is not None and isinstance(type_, TensorType):
                type_ = TensorType(type_.dtype, value.default.shape)
            if isinstance(type_, TensorType) and not type_.is_static:
                missing.append(value)
            key.append(type_)
        if missing:
            raise missing_shapes(missing)
        self._agree(stated)
        stage = self.executor.stage(tuple(key))
        self._require_known_kernels(stage)
        return stage

    def _agree(self, shapes: Mapping[str, Any]) -> None:
        """If inputs of these shapes give one symbol two sizes, warn, and go on as if its dims had no names.

        Equal symbols are equal sizes, and what was prepared may rely on that: it is prepared again without them.
        """
        sizes: dict[str, tuple[int, str]] = {}
        apart: dict[str, str] = {}
        for value in self.graph.inputs:
            if value.shape is None or value.name not in shapes:
                continue
            for axis, (want, found) in enumerate(zip(value.shape, shapes[value.name], strict=True)):
                if isinstance(want, str):
                    size, first = sizes.setdefault(want, (found, value.name))
                    if size != found:
                        apart[want] = (
                            f"dim '{want}' is {size} in input '{first}', but {found} on axis {axis} of '{value.name}'"
                        )
        if apart:
            self._separate(apart.keys())
            warnings.warn(
                f"{'; '.join(apart.values())}: the model gives different sizes one name, and from here on each of "
                "these dims is taken for one of its own",
                SizeWarning,
                stacklevel=_outside(),
            )

    def _separate(self, symbols: Collection[str]) -> None:
        with self._separating:
            source = self.source.copy()
            kept = {d for v in source.values() for d in v.shape or () if isinstance(d, str)} - set(symbols)
            for value in source.values():
                value.type = without_symbols(value.type, kept)
            with reading(self.context.files):
                graph, ledger = self.context.prepare(source)
            self.source, self.graph, self.prepared_ledger = source, graph, ledger
            self.executor = Executor(graph, self.context)

    def watch(self, names: Iterable[str], inputs: Mapping[str, Any]) -> Watched:
        """Run on ``inputs`` and also return the values of these source nodes or values, inside fused nodes or not.

        The production plan runs unchanged: the outputs are bit for bit those of ``run``.
        """
        from autofusion.runtime.watch import watch

        return watch(self, names, inputs)

    def _run(self, stage: Stage, inputs: Sequence[Any]) -> list[Any]:
        if stage is not self._stage_with_known_kernels:
            self._require_known_kernels(stage)
            self._stage_with_known_kernels = stage
        return stage.run(inputs)

    def _require_known_kernels(self, stage: Stage) -> None:
        """Raise OptionError if a kernel to switch off does not exist, once all that might offer it is planned."""
        if stage.tail is None and not self.has_bodies and self.context.options.level is not Level.OFF:
            # Otherwise some other part of the model, planned later, might still have the kernel, or a fused node.
            self.context.kernel_switches.require_known()

    def statistics(self) -> Statistics:
        """What has been counted since the session was made: plans, hits, evictions, fallbacks, bytes, seconds."""
        packs = map(guarded, self.context.kernel_packs)
        return replace(self.context.plans.statistics(), quarantined=sum(len(p.quarantine_reasons) for p in packs))

    # ---- looking ---------------------------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        """What was compiled last; raise InputError if nothing was yet."""
        if not self.executor.stages:
            raise InputError("nothing is compiled yet: run the session, or state shapes, so that the plan is known")
        return self.executor.stages[-1]

    @property
    def stages(self) -> list[Stage]:
        """The last compiled stage, the tails that have been planned behind it, then those of control-flow bodies."""
        found = [stage for last in self.executor.stages[-1:] for stage in _with_tails(last)]
        for body in self.context.bodies.values():
            found += [stage for last in body.executor.stages[-1:] for stage in _with_tails(last)]
        return found

    @property
    def plan(self) -> Plan:
        """The plan of the last compiled stage."""
        return self.stage.runner.plan

    @property
    def ledger(self) -> Ledger:
        """Every decision: of preparation, of the last compiled stage with its tails, and of control-flow bodies."""
        bodies = [body.ledger for body in self.context.bodies.values()]
        return Ledger.joined(self.prepared_ledger, [*bodies, *(stage.ledger for stage in self.stages)])

    def save(self, path: str | PathLike[str], *, other_shapes: str = "plan") -> str:
        """Write the session, with the plans it has, to one file that ``autofusion.load_artefact`` starts from at once.

        ``other_shapes`` says what it does with shapes that no plan was saved for: ``plan`` compiles them when they
        come, ``error`` raises InputError. Returns the digest that ``load_artefact(trust=)`` takes. Raises InputError if
        nothing is compiled yet.
        """
        from autofusion.runtime.artefact.save import save

        self._require_open()
        return save(self, Path(path), other_shapes=other_shapes)

    # ---- the session's life ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of plans, activations and packed weights; a run that is under way ends first. Statistics remain.

        Afterwards runs raise InputError. Closing twice does nothing. Without it, memory is freed with the session.
        """
        self._closed = True
        self._stage_with_known_kernels = None
        self.executor.close()
        for body in self.context.bodies.values():
            body.executor.close()
        self.context.bodies.clear()
        self.context.cache.clear()

    def _require_open(self) -> None:
        if self._closed:
            raise InputError(f"the session of '{self.graph.name}' is closed: compile the model again to run it")

    def __enter__(self) -> Session:
        self._require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are compiled again, from the file with the options that were stated."""
        if self.recipe is None:
            raise TypeError(
                f"the session of '{self.graph.name}' cannot be copied or pickled: it was not compiled from a file "
                "alone (but from a graph, or with a registry); compile it again where it is needed"
            )
        path, arguments = self.recipe
        return _compile_again, (path, dict(arguments))


def _compile_again(path: str, arguments: Mapping[str, Any]) -> Session:
    from autofusion.runtime.compile import compile

    return compile(path, **arguments)


def _with_tails(stage: Stage) -> list[Stage]:
    later = stage.tail.stages[-1:] if stage.tail is not None else []
    return [stage, *(s for each in later for s in _with_tails(each))]


def _outside() -> int:
    """How many frames lie between the caller of this function and the first one outside this package."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("autofusion", "contextlib")):
        frame, depth = frame.f_back, depth + 1
    return depth
