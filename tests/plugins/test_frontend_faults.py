"""The kit's tests of frontends find what is wrong: a sound one passes all, each seeded fault fails the right one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.errors import ModelError, PluginError
from autofusion.frontends.contract import LoadOptions
from autofusion.ir.graph import Graph
from autofusion.ir.infer import infer_graph
from autofusion.ir.types import TensorType
from autofusion.testing import FrontendTests
from autofusion.testing.frontends import Model
from tests.support.kit import failures

F32 = np.dtype(np.float32)
_count = itertools.count()


class Scale:
    """Models of one line: ``scale NAME FACTOR``."""

    name, version, suffixes = "scale", "1.0", (".scale",)

    def recognises(self, path: Path) -> bool:
        try:
            return path.read_bytes()[:6] == b"scale "
        except OSError:
            return False

    def load(self, path: Path, options: LoadOptions) -> Graph:
        try:
            name, factor = self.read(path)
        except (OSError, ValueError) as error:
            raise ModelError(f"'{path}' is not a model of one scale: {error}") from error
        for wanted in (*options.inputs, *options.outputs):
            if wanted not in ("x", "y"):
                raise ModelError(f"'{path}' has no value '{wanted}'")
        graph = Graph(name)
        x = graph.add_input("x", TensorType(F32, (3,)))
        node = graph.node(
            "Mul", [x, graph.constant(np.asarray(factor, np.float32))], name=name, origin=self.origin(name)
        )
        graph.add_output(node.output, "y")
        infer_graph(graph)
        return graph

    def read(self, path: Path) -> tuple[str, float]:
        word, name, factor = path.read_text().split()
        if word != "scale":
            raise ValueError(f"expected 'scale', found {word!r}")
        return name, float(factor)

    def origin(self, name: str) -> list[str]:
        return [name]

    def reference(self, path: Path, options: LoadOptions) -> Any:
        raise PluginError("there is none")


class ChokesOnGarbage(Scale):
    def recognises(self, path: Path) -> bool:
        return path.read_bytes()[:6] == b"scale "


class TakesAnything(Scale):
    def recognises(self, path: Path) -> bool:
        return True


class Raises(Scale):
    def load(self, path: Path, options: LoadOptions) -> Graph:
        self.read(path)
        return super().load(path, options)


class RaisesWhenDamaged(Scale):
    def read(self, path: Path) -> tuple[str, float]:
        words = path.read_text().split()
        return words[1], float(words[2])


class NoOrigin(Scale):
    def origin(self, name: str) -> list[str]:
        return []


class Nameless(Scale):
    def load(self, path: Path, options: LoadOptions) -> Graph:
        return super().load(path, LoadOptions())


class OtherNumbers(Scale):
    def read(self, path: Path) -> tuple[str, float]:
        name, factor = super().read(path)
        return name, factor * 1.001


class OtherEachTime(Scale):
    def origin(self, name: str) -> list[str]:
        return [f"{name}{next(_count)}"]


class WrongType(Scale):
    def load(self, path: Path, options: LoadOptions) -> Graph:
        graph = super().load(path, options)
        graph.outputs[0].type = TensorType(F32, (4,))
        return graph


class Rewrites(Scale):
    def load(self, path: Path, options: LoadOptions) -> Graph:
        graph = super().load(path, options)
        path.write_text(path.read_text() + "\n")
        return graph


class KeepsTo(Scale):
    """Says nothing of a file that is not there."""

    def read(self, path: Path) -> tuple[str, float]:
        return super().read(path) if path.exists() else ("none", 1.0)


FAULTS = {
    ChokesOnGarbage: "test_no_file",
    TakesAnything: "test_garbage",
    Raises: "test_garbage",
    RaisesWhenDamaged: "test_damaged",
    NoOrigin: "test_origins",
    Nameless: "test_unknown_names",
    OtherNumbers: "test_parity",
    OtherEachTime: "test_repeatable",
    WrongType: "test_graph_is_valid",
    Rewrites: "test_repeatable",
    KeepsTo: "test_no_file",
}


def kit(frontend: Any, folder: Path) -> type[FrontendTests]:
    path = folder / "half.scale"
    path.write_text("scale half 0.5")
    x = np.float32([1, 2, -4])
    model = Model(path, {"x": x}, {"y": x / 2})

    class Seeded(FrontendTests):
        @classmethod
        def subject(cls) -> Any:
            return frontend

        @classmethod
        def models(cls) -> Sequence[Model]:
            return [model]

    return Seeded


def test_a_sound_frontend_passes(tmp_path: Path) -> None:
    assert failures(kit(Scale(), tmp_path)) == {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault_is_found(fault: type[Scale], tmp_path: Path) -> None:
    found = failures(kit(fault(), tmp_path))
    assert FAULTS[fault] in found, found
