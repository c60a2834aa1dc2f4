"""The table of converters: how an operator of TensorFlow is said in the IR's operators.

Other packages add converters by entry point (group ``autofusion.converters.tensorflow``; see
``autofusion.plugins.converters``). They are looked for where this table has none, so that they cannot change what a
known operator means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from autofusion.ir.graph import Value
from autofusion.plugins.converters import Converters

if TYPE_CHECKING:
    from autofusion_frontend_tensorflow.call import Call

Converter = Callable[["Call"], "Value | Sequence[Value | None]"]
"""Emits IR nodes for one source node, and returns one value for each of its results; None for one that nobody wants."""

_TABLE: dict[str, Converter] = {}
_OUTPUTS: dict[str, tuple[str, ...]] = {}


def converter(*ops: str, outputs: Sequence[str] = ()) -> Callable[[Converter], Converter]:
    """Register the decorated function for one or more operators.

    ``outputs`` are the names of their results, as TensorFlow has them, where there is more than one: inside functions
    results are called by name.
    """

    def decorate(function: Converter) -> Converter:
        for op in ops:
            _TABLE[op] = function
            if outputs:
                _OUTPUTS[op] = tuple(outputs)
        return function

    return decorate


def name_outputs(op: str, *outputs: str) -> None:
    """State the names of the results of an operator without a converter of its own."""
    _OUTPUTS[op] = outputs


@cache
def extra() -> Converters:
    """The converters of other packages."""
    return Converters("tensorflow")


def find_converter(op: str) -> Converter | None:
    """The converter for ``op``, or None."""
    return _TABLE.get(op) or extra().find(op)


def output_names(op: str) -> Sequence[str] | None:
    """Names of the results of ``op``; None if there is one, or one list of them."""
    if op in _OUTPUTS or op in _TABLE:
        return _OUTPUTS.get(op)
    return getattr(extra().find(op), "outputs", None)


def known_operators() -> list[str]:
    """Every operator that has a converter."""
    return sorted({*_TABLE, *extra().names})
