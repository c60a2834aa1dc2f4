"""The frontend object that core finds: recognises and loads frozen graphs, and runs them in TensorFlow itself."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from autofusion.frontends import LoadOptions, Reference
from autofusion.ir.graph import Graph
from autofusion_frontend_tensorflow import sniff


class TensorflowFrontend:
    """See ``autofusion.frontends.Frontend``."""

    name: str = "tensorflow"
    version: str = version("autofusion-frontend-tensorflow")
    suffixes: Sequence[str] = (".pb", ".pbtxt")

    def recognises(self, path: Path) -> bool:
        """True for a GraphDef, binary (truncated ones included) or text, and for a SavedModel folder or its file."""
        return sniff.kind_of(Path(path)) is not sniff.Kind.UNKNOWN

    def advise(self, path: Path) -> str | None:
        """What a file of Keras or TensorFlow Lite is, neither of which is read, and what to do with it."""
        return sniff.relative_of(Path(path))

    def load(self, path: Path, options: LoadOptions) -> Graph:
        """Read the model; raise ModelError if it is not one, or uses what has no converter."""
        from autofusion_frontend_tensorflow.load import load_model

        return load_model(Path(path), options)

    def reference(self, path: Path, options: LoadOptions) -> Reference:
        """The model run by TensorFlow, without graph optimisations."""
        from autofusion_frontend_tensorflow.reference import reference

        return reference(Path(path), options)
