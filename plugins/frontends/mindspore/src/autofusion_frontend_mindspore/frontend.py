"""The frontend object that core finds: recognises and loads MindIR files, and runs them in MindSpore itself."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from autofusion.frontends import LoadOptions, Reference
from autofusion.ir.graph import Graph
from autofusion_frontend_mindspore import sniff


class MindsporeFrontend:
    """See ``autofusion.frontends.Frontend``."""

    name: str = "mindspore"
    version: str = version("autofusion-frontend-mindspore")
    suffixes: Sequence[str] = (".mindir",)

    def recognises(self, path: Path) -> bool:
        """True if the file is built like a MindIR, truncated and encrypted ones included."""
        return sniff.is_mindir(Path(path))

    def advise(self, path: Path) -> str | None:
        """What other kinds of files of MindSpore are, and what to do with them."""
        return sniff.relative_of(Path(path))

    def load(self, path: Path, options: LoadOptions) -> Graph:
        """Read the model; raise ModelError if it is not one, or uses what has no converter."""
        from autofusion_frontend_mindspore.load import load_model

        return load_model(Path(path), options)

    def reference(self, path: Path, options: LoadOptions) -> Reference:
        """The model run by MindSpore on the CPU, in a process of its own."""
        from autofusion_frontend_mindspore.reference import reference

        return reference(Path(path), options)
