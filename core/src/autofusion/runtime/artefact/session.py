"""An artefact loaded: a session that runs the plans of a file. Imports neither rules, frontends nor compilers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autofusion.errors import InputError, KernelError
from autofusion.ir.graph import Graph
from autofusion.ir.literals import type_from_text
from autofusion.ir.types import TensorType, of_array
from autofusion.lowering.plan import Border, OutputSpec, Plan
from autofusion.numerics import NotFinite
from autofusion.runtime.arena import Arena
from autofusion.runtime.artefact.container import Container
from autofusion.runtime.artefact.trust import is_trusted
from autofusion.runtime.interface import Interface
from autofusion.runtime.runner import PlanRunner

if TYPE_CHECKING:
    from autofusion.fusion.ledger import Ledger
    from autofusion.runtime.session import Session

KERNEL_GROUP = "autofusion.kernels"


def load_artefact(path: str | PathLike[str], *, trust: str | None = None) -> SavedSession:
    """The session that ``Session.save`` or ``autofusion compile`` wrote to ``path``, ready to run its shapes.

    Machine code from the file only runs if this user wrote the file, or if ``trust`` is its digest (as ``autofusion
    compile`` prints it); otherwise kernels are generated again from the graph inside. Raises ModelError for a file that
    is damaged or not an artefact, and KernelError if no installed kernel pack runs it on this machine.
    """
    return SavedSession(Path(path), trust)


class SavedSession(Interface):
    """Runs the plans of an artefact. Safe to call from several threads; runs take turns.

    ``restored`` is True if the code of the file runs; otherwise ``reason`` says why it was generated again.
    """

    def __init__(self, path: Path, trust: str | None = None) -> None:
        self.container = container = Container(path)
        self.manifest = container.manifest
        self.graph = self._read_interface()
        self._closed = False
        self._session: Session | None = None
        self._runners: dict[Any, PlanRunner] = {}
        self.restored, self.reason = False, ""
        if self.manifest["segments"] is None:
            self.reason = self.manifest["unsaved"]
        elif not is_trusted(container.digest, trust):
            self.reason = "the file is not trusted (another user wrote it; trust= takes its digest)"
        else:
            try:
                self._restore()
                self.restored = True
            except KernelError as error:
                self.reason = str(error)
        if not self.restored:
            self._rebuild()

    # ---- making plans --------------------------------------------------------------------------------------------

    def _read_interface(self) -> Graph:
        graph = Graph(self.manifest["name"])
        for each in self.manifest["inputs"]:
            default = None if each["default"] is None else self._array(each["default"])
            graph.add_input(each["name"], type_from_text(each["type"]), default)
        graph.output_names[:] = [name for name, _ in self.manifest["outputs"]]
        return graph

    def _array(self, about: Sequence[Any]) -> np.ndarray:
        start, shape, dtype = about
        count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        array: np.ndarray = self.container.section("weights")[start : start + count].view(dtype).reshape(shape)
        array.flags.writeable = False
        return array

    def _restore(self) -> None:
        """Plans from the file's own code."""
        name = self.manifest["segments"]
        found = [point for point in entry_points(group=KERNEL_GROUP) if point.name == name]
        function = getattr(found[0].load(), "restore_segments", None) if found else None
        if function is None:
            raise KernelError(f"kernel pack '{name}', which it was compiled with, is not installed")
        self.container.check("segments", "code", "weights")
        saved = self.container.json("segments")
        plans = self.manifest["plans"]
        arena = Arena(max(plan["arena"] for plan in plans))
        total = sum(plan["segments"] for plan in plans)
        segments = list(
            function(saved, self.container.section("code"), self.container.section("weights"), [arena.base] * total)
        )
        for about in plans:
            own, segments = segments[: about["segments"]], segments[about["segments"] :]
            plan = self._plan(about)
            self._runners[_key_of_texts(about["key"])] = PlanRunner(plan, None, arena, own)

    def _plan(self, about: Mapping[str, Any]) -> Plan:
        outputs = [
            OutputSpec(
                each["name"],
                type_from_text(each["type"]),
                each["slot"],
                None if each["constant"] is None else self._array(each["constant"]),
            )
            for each in about["outputs"]
        ]
        borders = tuple(
            Border(at, np.dtype(t), tuple(shape), tuple(widths)) for at, t, shape, widths in about["borders"]
        )
        external = [type_from_text(text) for text in about["external"]]
        plan = Plan(self.graph, [], external, about["input_slots"], outputs, about["arena"], about["peak"], borders)  # type: ignore[arg-type]
        return plan

    def _rebuild(self) -> None:
        """Plans made again from the graphs in the file, with the kernels that were chosen for them."""
        from autofusion.runtime.artefact.rebuild import rebuild

        for key, runner in rebuild(self.container, self.reason).items():
            self._runners[_key_of_texts(key)] = runner

    @property
    def session(self) -> Session:
        """The model compiled anew from the graph in the file, with whatever packs are installed: for other shapes."""
        if self._session is None:
            from autofusion.runtime.artefact.rebuild import compile_again

            self._session = compile_again(self.container)
        return self._session

    @property
    def ledger(self) -> Ledger:
        """Every decision that was made when the model was compiled."""
        from autofusion.runtime.artefact.rebuild import read_ledger

        return read_ledger(self.container)

    # ---- running -------------------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run on ``inputs`` by name; return the outputs by name. Inputs with a stored default may be left out.

        Raises InputError for a wrong name, dtype or shape, and for a shape without a plan if the file says so.
        """
        given = self.arguments(inputs)
        key = tuple(
            (str(x.dtype), x.shape) if isinstance(x, np.ndarray) and x.dtype.kind != "O" else str(v.type)
            for v, x in zip(self.graph.inputs, given, strict=True)
        )
        runner = self._runners.get(key)
        if runner is None:
            return self._run_other(inputs, given)
        try:
            results = runner.run(given)
        except NotFinite:
            return self.session.run(inputs)
        return dict(zip(self.graph.output_names, results, strict=True))

    def _run_other(self, inputs: Mapping[str, Any], given: Sequence[Any]) -> dict[str, Any]:
        if self.manifest["other_shapes"] == "error" and self._runners:
            found = ", ".join(str(of_array(x)) if isinstance(x, np.ndarray) else "?" for x in given)
            planned = "; ".join(", ".join(plan["key"]) for plan in self.manifest["plans"])
            raise InputError(
                f"'{self.container.path}' has no plan for inputs {found}, and was compiled to refuse other shapes; it "
                f"has plans for {planned}"
            )
        return self.session.run(inputs)

    @property
    def shapes(self) -> list[list[str]]:
        """The input types that the file has plans for."""
        return [list(plan["key"]) for plan in self.manifest["plans"]]

    # ---- the session's life --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of plans and activations. Afterwards runs raise InputError. Closing twice does nothing."""
        self._closed = True
        self._runners.clear()
        if self._session is not None:
            self._session.close()

    def __enter__(self) -> SavedSession:
        self._require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles name the file, which is loaded once more, and must be the same."""
        return _load_again, (str(self.container.path.absolute()), self.container.digest, self.restored)

    def _require_open(self) -> None:
        if self._closed:
            raise InputError(f"the session of '{self.graph.name}' is closed: load the artefact again to run it")

    def _agree(self, shapes: Mapping[str, Any]) -> None:
        """Shapes that were compiled are known to agree; others are checked by the session that compiles them."""


def _load_again(path: str, digest: str, trusted: bool) -> SavedSession:
    return SavedSession(Path(path), digest if trusted else None)


def _key_of_texts(texts: Sequence[str]) -> tuple[Any, ...]:
    key = []
    for text in texts:
        type_ = type_from_text(text)
        tensor = isinstance(type_, TensorType) and type_.is_static and type_.dtype.kind != "O"
        key.append((str(type_.dtype), type_.static_shape) if tensor else str(type_))  # type: ignore[union-attr]
    return tuple(key)
