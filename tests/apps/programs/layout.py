"""Finds paragraphs, titles and figures on pages (rapid-layout)."""

import inputs
from measure import measure
from rapid_layout import ModelType, RapidLayout


def call(engine, image):
    found = engine(image)
    return {"texts": found.class_names, "boxes": [list(b) for b in found.boxes], "scores": list(found.scores)}


measure(
    lambda: RapidLayout(model_type=ModelType.PP_LAYOUT_CDLA),
    call,
    [inputs.page(seed, (800, 1000), 1 + seed % 2) for seed in range(10)],
)
