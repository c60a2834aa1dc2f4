"""Fused operators that onnxruntime writes into the models it optimises, said in ordinary operators.

The IR's own rules then find the fusions again, for whatever machine the model runs on. What these converters do not
know stays an opaque node.
"""

DOMAIN = "com.microsoft"
