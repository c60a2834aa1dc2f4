"""Autofusion: find the places in a trained network that can run as one kernel, and run them so.

    import autofusion as af
    session = af.compile("model.onnx", shapes={"x": (1, 3, 224, 224)}, level="full", threads=2)
    y = session.run({"x": x})["y"]

Importing the package imports neither plugins nor NumPy: attributes load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autofusion.errors import AutofusionError

if TYPE_CHECKING:
    from autofusion._version import __version__
    from autofusion.options import Options
    from autofusion.runtime.artefact.session import load_artefact
    from autofusion.runtime.compile import compile, load
    from autofusion.runtime.session import Session

__all__ = ["AutofusionError", "Options", "Session", "__version__", "compile", "load", "load_artefact"]

_LAZY = {
    "Options": "autofusion.options",
    "__version__": "autofusion._version",
    "compile": "autofusion.runtime.compile",
    "load": "autofusion.runtime.compile",
    "load_artefact": "autofusion.runtime.artefact.session",
    "Session": "autofusion.runtime.session",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        from autofusion.ir.collector import collector_paused

        with collector_paused():  # a hundred modules
            return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'autofusion' has no attribute '{name}'")
