"""Finds the clickable parts of a picture (the detector of ddddocr)."""

import inputs
from ddddocr import DdddOcr
from measure import measure

measure(
    lambda: DdddOcr(det=True, ocr=False, show_ad=False),
    lambda engine, content: {"boxes": engine.detection(content)},
    [inputs.word_picture(seed) for seed in range(100, 112)],
)
