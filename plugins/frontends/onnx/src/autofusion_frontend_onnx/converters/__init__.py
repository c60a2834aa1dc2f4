"""Converters, one module a family; importing this package registers them all."""

from autofusion_frontend_onnx.converters import (  # noqa: F401  (imported to register)
    axes,
    broadcast,
    constants,
    control,
    experimental,
    microsoft,
    ml,
    newer,
    normalisation,
    pointwise,
    quantised,
    recurrent,
    resampling,
    shapes,
    training,
    windows,
)
