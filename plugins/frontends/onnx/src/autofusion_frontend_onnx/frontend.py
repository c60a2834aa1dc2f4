"""The frontend object that core finds: loads, recognises, runs by the framework, and exports ONNX models."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from autofusion.frontends import LoadOptions, Reference
from autofusion.ir.graph import Graph
from autofusion_frontend_onnx import sniff


class OnnxFrontend:
    """See ``autofusion.frontends.Frontend``; ``export`` is beyond it."""

    name: str = "onnx"
    version: str = version("autofusion-frontend-onnx")
    suffixes: Sequence[str] = (".onnx",)

    def recognises(self, path: Path) -> bool:
        """True if the file is built like an ONNX model, truncated ones included."""
        return sniff.is_onnx(Path(path))

    def advise(self, path: Path) -> str | None:
        """What a file is that ONNX models are made into or from, and what to do with it."""
        return sniff.relative_of(Path(path))

    def load(self, path: Path, options: LoadOptions) -> Graph:
        """Read the model; raise ModelError if it is not one, or says what ONNX does not allow."""
        from autofusion_frontend_onnx.load import load_model

        return load_model(Path(path), options)

    def reference(self, path: Path, options: LoadOptions) -> Reference:
        """The model run by onnxruntime without optimisations, or by ``onnx.reference`` where that is missing."""
        from autofusion_frontend_onnx.reference import reference

        return reference(Path(path), options)

    def export(self, graph: Graph, path: Path, inline: bool = False) -> None:
        """Write ``graph`` as a standard ONNX model; ``inline`` writes fused regions as plain nodes, not functions."""
        from autofusion_frontend_onnx.export import export_model

        export_model(graph, Path(path), inline)
