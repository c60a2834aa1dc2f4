"""What an author of a frontend needs: the contract, ``Call`` and the table of converters, the errors of damaged models.

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
    from autofusion.frontends.call import Call
    from autofusion.frontends.contract import (
        Adviser,
        Converter,
        Converters,
        Exporter,
        Frontend,
        LoadOptions,
        Reference,
    )
    from autofusion.frontends.failures import DAMAGE, naming_file, naming_node
    from autofusion.frontends.folding import fold
    from autofusion.frontends.origins import Origins
    from autofusion.frontends.table import ConverterTable, by_operator, listed

__all__ = [
    "DAMAGE",
    "Adviser",
    "AutofusionError",
    "Call",
    "Converter",
    "ConverterTable",
    "Converters",
    "Exporter",
    "Frontend",
    "GraphError",
    "InputError",
    "LoadOptions",
    "ModelError",
    "OptionError",
    "Origins",
    "PluginError",
    "Reference",
    "ShapeError",
    "UnsupportedOperatorError",
    "by_operator",
    "fold",
    "hookimpl",
    "listed",
    "naming_file",
    "naming_node",
    "nearest",
]
_MODULES = (
    "autofusion.errors",
    "autofusion.frontends.contract",
    "autofusion.frontends.call",
    "autofusion.frontends.failures",
    "autofusion.frontends.folding",
    "autofusion.frontends.origins",
    "autofusion.frontends.table",
)


def __getattr__(name: str) -> Any:
    return lazy.find(name, __all__, _MODULES, globals())
