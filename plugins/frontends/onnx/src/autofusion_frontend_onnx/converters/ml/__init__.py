"""Operators of the domain ai.onnx.ml, in which pipelines of classical models come, said in standard operators."""

from autofusion_frontend_onnx.converters.ml import features, linear, trees  # noqa: F401  (imported to register)
