"""The conformance tests of a frontend. An author subclasses ``FrontendTests`` and says where its models are."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from autofusion.errors import AutofusionError, ModelError, PluginError
from autofusion.frontends.contract import Frontend, LoadOptions
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.text import to_text
from autofusion.ir.verify import verify
from autofusion.plugins.registry import Registry, default_registry
from autofusion.runtime.compile import compile as compile_model
from autofusion.testing import numbers
from autofusion.testing.apply import installed_reference
from autofusion.testing.golden import random_inputs
from autofusion.testing.standard import StandardTests

DAMAGED = 40
"""Damaged copies of each model that are tried."""
_GARBAGE: Mapping[str, bytes] = {
    "empty": b"",
    "zeros": bytes(4096),
    "text": b"not a model\n" * 50,
    "noise": random.Random(1).randbytes(4096),
    "zip": b"PK\x03\x04" + bytes(100),
    "json": b'{"nodes": []}',
}


@dataclass(frozen=True)
class Model:
    """A model file. ``expected`` holds outputs for ``inputs`` by name; without it, the frontend's own framework is the
    judge. ``sizes`` are for symbols of the inputs, where no ``inputs`` are given (2 if they are not named)."""

    path: Path
    inputs: Mapping[str, np.ndarray] | None = None
    expected: Mapping[str, np.ndarray] | None = None
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    options: LoadOptions = dataclasses.field(default_factory=LoadOptions)
    rtol: float | None = None

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"


class FrontendTests(StandardTests):
    """Everything that must hold of a frontend, whatever its format::

        class TestAcme(FrontendTests):
            plugin = "acme"
            folder = Path(__file__).parent / "models"

    ``folder`` holds model files, and beside a model ``NAME.ext`` may lie ``NAME.npz`` with arrays ``in:NAME`` and
    ``out:NAME``. Override ``models`` to make them in another way.
    """

    group = "autofusion.frontends"
    folder: ClassVar[Path | str | None] = None

    @classmethod
    def frontend(cls) -> Frontend:
        """The frontend under test."""
        frontend: Frontend = cls.subject()
        return frontend

    @classmethod
    def models(cls) -> Sequence[Model]:
        """The models to try."""
        if cls.folder is None:
            return ()
        suffixes = tuple(s.lower() for s in cls.frontend().suffixes)
        paths = sorted(p for p in Path(cls.folder).iterdir() if p.name.lower().endswith(suffixes))
        return [_with_arrays(path) for path in paths]

    @classmethod
    def parameters(cls) -> dict[str, list[Any]]:
        """What the tests run over: the models, and content that is none."""
        try:
            models = list(cls.models())
        except PluginError:  # test_plugin_is_loaded says why
            models = []
        return {"model": models, "garbage": list(_GARBAGE)}

    # ---- models -----------------------------------------------------------------------------------------------------

    def test_there_are_models(self) -> None:
        """A frontend is tried with models of its format."""
        self.need(bool(self.models()), "no models: set 'folder', or override 'models'")

    def test_recognises(self, model: Model) -> None:
        """The content is recognised, and among all installed frontends this one is chosen."""
        assert self.frontend().recognises(model.path), f"'{model}' is not recognised"
        chosen = default_registry().frontend_for(model.path)
        assert chosen.name == self.frontend().name, f"'{model}' is read by frontend '{chosen.name}'"

    def test_graph_is_valid(self, model: Model) -> None:
        """The graph verifies and its types follow from its inputs."""
        graph = self._load(model)
        verify(graph)
        infer_graph(graph)
        assert graph.outputs, f"'{model}' has no outputs"

    def test_origins(self, model: Model) -> None:
        """Every node says which source nodes it stands for: all reports speak in those names."""
        for node in self._load(model).nodes:
            assert node.origin and all(isinstance(name, str) and name for name in node.origin), (
                f"{node.label} of '{model}' has no origin"
            )

    def test_repeatable(self, model: Model) -> None:
        """Loading twice gives the same graph, and leaves the file as it was."""
        before = _digest(model.path)
        first, second = (to_text(self._load(model), with_names=True) for _ in range(2))
        assert first == second, f"'{model}' loads as another graph the second time"
        assert _digest(model.path) == before, f"loading changes '{model}'"

    def test_parity(self, model: Model) -> None:
        """Run by the reference kernels, the graph gives what the framework gives."""
        graph = self._load(model)
        inputs = model.inputs or random_inputs(graph, model.sizes)
        expected = self._expected(model, inputs)
        # A session without rules, on the reference kernels alone: it also runs control flow.
        by_the_book = compile_model(graph, level="off", registry=Registry.of(kernel_packs=[installed_reference()]))
        self._compare(graph, list(by_the_book.run(inputs).values()), expected, model)

    def test_levels(self, model: Model) -> None:
        """With all installed rules and kernels, at every level, the result is the same."""
        graph = self._load(model)
        inputs = model.inputs or random_inputs(graph, model.sizes)
        expected = self._expected(model, inputs)
        for level in ("off", "basic", "full"):
            outputs = compile_model(self._load(model), level=level).run(inputs)
            self._compare(graph, list(outputs.values()), expected, model)

    # ---- what is wrong ----------------------------------------------------------------------------------------

    def test_garbage(self, garbage: str, tmp_path: Path) -> None:
        """What is not a model is not recognised, and loading it is a ModelError that names the file."""
        for suffix in ("", *self.frontend().suffixes):
            path = tmp_path / f"garbage{suffix}"
            path.write_bytes(_GARBAGE[garbage])
            assert self.frontend().recognises(path) is False, f"{garbage} is recognised as a model"
            with pytest.raises(ModelError, match="garbage"):
                self.frontend().load(path, LoadOptions())

    def test_no_file(self, tmp_path: Path) -> None:
        """Neither a file that is not there nor an empty folder makes it raise anything but a ModelError."""
        for path in (tmp_path / "missing", tmp_path):
            assert self.frontend().recognises(path) is False
            with pytest.raises(ModelError):
                self.frontend().load(path, LoadOptions())

    def test_damaged(self, model: Model, tmp_path: Path) -> None:
        """A truncated or altered model is refused by name or still loads; nothing else is raised."""
        if model.path.is_dir():
            pytest.skip("the model is a folder")
        for what, content in _damaged(model.path.read_bytes()):
            path = tmp_path / model.path.name
            path.write_bytes(content)
            try:
                self.frontend().recognises(path)
                self.frontend().load(path, model.options)
            except AutofusionError:
                continue
            except Exception as error:
                raise AssertionError(f"'{model}' {what} raises {type(error).__name__}: {error}") from error

    def test_unknown_names(self, model: Model) -> None:
        """Inputs and outputs that the model does not have are refused by name."""
        for options in (LoadOptions(inputs=("no_such_value",)), LoadOptions(outputs=("no_such_value",))):
            with pytest.raises(AutofusionError, match="no_such_value"):
                self.frontend().load(model.path, options)

    # ---- inside -----------------------------------------------------------------------------------------------------

    @classmethod
    def _load(cls, model: Model) -> Graph:
        return cls.frontend().load(model.path, model.options)

    def _expected(self, model: Model, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        if model.expected is not None:
            return model.expected
        try:
            reference_run = self.frontend().reference(model.path, model.options)
        except PluginError as error:
            pytest.skip(f"no expected outputs, and the framework is not installed: {error}")
        return reference_run(inputs)

    @staticmethod
    def _compare(graph: Graph, found: Sequence[Any], expected: Mapping[str, np.ndarray], model: Model) -> None:
        assert sorted(graph.output_names) == sorted(expected), f"'{model}' has outputs {graph.output_names}"
        for name, got in zip(graph.output_names, found, strict=True):
            said = numbers.difference(got, expected[name], model.rtol)
            assert not said, f"'{model}', output '{name}': {said}"


def _with_arrays(path: Path) -> Model:
    beside = path.with_suffix(".npz")
    if not beside.exists():
        return Model(path)
    with np.load(beside) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    inputs = {name[3:]: array for name, array in found.items() if name.startswith("in:")}
    expected = {name[4:]: array for name, array in found.items() if name.startswith("out:")}
    return Model(path, inputs, expected)


def _digest(path: Path) -> Any:
    if path.is_dir():
        return sorted((str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in path.rglob("*"))
    return path.read_bytes()


def _damaged(content: bytes) -> Iterator[tuple[str, bytes]]:
    rng = random.Random(len(content))
    for index in range(DAMAGED // 2):
        size = len(content) * index // (DAMAGED // 2)
        yield f"cut to {size} bytes", content[:size]
    for index in range(DAMAGED // 2):
        changed = bytearray(content)
        places = [rng.randrange(len(changed)) for _ in range(1 + index % 3)]
        for place in places:
            changed[place] = rng.randrange(256)
        yield f"with bytes {places} changed", bytes(changed)
