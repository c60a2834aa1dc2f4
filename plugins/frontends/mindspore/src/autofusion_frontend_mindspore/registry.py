"""The table of converters: what a primitive of MindSpore means in the IR's operators.

A converter is a function from a ``Call`` to the primitive's result: an IR value, a Python value, or a tuple of them.
Other packages add some by entry points, one a primitive, in the group `autofusion.converters.mindspore`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from autofusion.plugins.converters import Converters

if TYPE_CHECKING:
    from autofusion_frontend_mindspore.call import Call

Converter = Callable[["Call"], Any]

_TABLE: dict[str, Converter] = {}


def converter(*primitives: str) -> Callable[[Converter], Converter]:
    """Let the decorated function convert these primitives."""

    def decorate(function: Converter) -> Converter:
        for primitive in primitives:
            assert primitive not in _TABLE, f"two converters for '{primitive}'"
            _TABLE[primitive] = function
        return function

    return decorate


@cache
def added() -> Converters:
    """The converters of other packages."""
    return Converters("mindspore")


def is_known(primitive: str) -> bool:
    """True if there is a converter for ``primitive``."""
    from autofusion_frontend_mindspore import converters  # noqa: F401  (imported to register)

    return primitive in _TABLE or added().find(primitive) is not None


def find_converter(primitive: str, node: str) -> Converter:
    """The converter for ``primitive``; raise UnsupportedOperatorError, which names ``node``, if there is none."""
    from autofusion_frontend_mindspore import converters  # noqa: F401  (imported to register)

    function = _TABLE.get(primitive) or added().find(primitive)
    if function is None:
        raise added().unknown(primitive, node, sorted(_TABLE))
    return function
