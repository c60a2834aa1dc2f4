"""Operator schemas of the default domain, one module a family; importing this package registers them all."""

from autofusion.ir.operators import (  # noqa: F401  (imported to register)
    contraction,
    control,
    movement,
    opaque,
    pointwise,
    reduction,
)
from autofusion.ir.operators.schema import (
    OPSET,
    REQUIRED,
    OpClass,
    Operator,
    Work,
    attribute,
    find,
    known_names,
    op_class,
    register,
    traffic,
    work,
)

__all__ = [
    "OPSET",
    "REQUIRED",
    "OpClass",
    "Operator",
    "Work",
    "attribute",
    "find",
    "known_names",
    "op_class",
    "register",
    "traffic",
    "work",
]
