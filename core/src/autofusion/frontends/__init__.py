"""What an author of a frontend needs: the contract, load options, kinds of files, the errors of damaged models.

A frontend reads model files of one format into a graph (``autofusion.ir``). It sees neither rules nor kernels.
docs/writing-a-frontend.md is the guide.
"""

from typing import TYPE_CHECKING, Any

from autofusion import lazy
from autofusion.hooks import hookimpl

if TYPE_CHECKING:
    from autofusion.errors import (
        AutofusionError,
        GraphError,
        InputError,
        ModelError,
        OptionError,
        PluginError,
        ShapeError,
        UnsupportedOperatorError,
        nearest,
    )
    from autofusion.frontends.contract import Exporter, Frontend, LoadOptions, Oracle

__all__ = [
    "AutofusionError",
    "Exporter",
    "Frontend",
    "GraphError",
    "InputError",
    "LoadOptions",
    "ModelError",
    "OptionError",
    "Oracle",
    "PluginError",
    "ShapeError",
    "UnsupportedOperatorError",
    "hookimpl",
    "nearest",
]
_MODULES = (
    "autofusion.errors",
    "autofusion.frontends.contract",
)


def __getattr__(name: str) -> Any:
    return lazy.find(name, __all__, _MODULES, globals())
