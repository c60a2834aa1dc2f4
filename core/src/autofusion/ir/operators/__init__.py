"""Operator schemas of the default domain, one module a family; importing this package registers them all."""

from autofusion.ir.operators import (  # noqa: F401  (imported to register)
    contraction,
    control,
    indexing,
    movement,
    opaque,
    pointwise,
    pooling,
    recurrent,
    reduction,
)
from autofusion.ir.operators.schema import (
    DTYPE_ATTRIBUTES,
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
    single,
    traffic,
    work,
)

__all__ = [
    "DTYPE_ATTRIBUTES",
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
    "single",
    "traffic",
    "work",
]
