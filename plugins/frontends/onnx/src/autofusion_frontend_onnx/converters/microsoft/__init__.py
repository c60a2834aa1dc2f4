"""Fused operators that onnxruntime writes into the models it optimises, said in ordinary operators.

The IR's own rules then find the fusions again, for whatever machine the model runs on. What these converters do not
know stays an opaque node.
"""

from autofusion_frontend_onnx.converters.microsoft import (  # noqa: F401  (imported to register)
    activation,
    arrays,
    attention,
    blocks,
    contraction,
    experts,
    group_query,
    inverse,
    mixers,
    normalisation,
    quantised,
    recurrent,
    renamed,
)

DOMAIN = "com.microsoft"
