"""Converters, one module a family; importing this package registers them all."""

from autofusion_frontend_onnx.converters import constants  # noqa: F401  (imported to register)
