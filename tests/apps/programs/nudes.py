"""Finds parts of bodies in pictures (nudenet)."""

import inputs
from measure import measure
from nudenet import NudeDetector


def call(engine, image):
    found = engine.detect(image)
    return {
        "texts": [each["class"] for each in found],
        "boxes": [each["box"] for each in found],
        "scores": [each["score"] for each in found],
    }


SIZES = ((640, 480), (480, 640), (500, 500))
measure(NudeDetector, call, [inputs.scene(seed, SIZES[seed % 3]) for seed in range(30)])
