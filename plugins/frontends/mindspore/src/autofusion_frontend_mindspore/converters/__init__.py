"""Converters, one module a family; importing this package registers them all."""

from autofusion_frontend_mindspore.converters import (  # noqa: F401  (imported to register)
    activation,
    arithmetic,
    contraction,
    convolution,
    creation,
    indexing,
    joining,
    normalisation,
    numbers,
    padding,
    pointwise,
    pooling,
    recurrent,
    reduction,
    resampling,
    searching,
    shapes,
    slicing,
    spectral,
    state,
)
