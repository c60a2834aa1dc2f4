"""Reads pages of text."""

import inputs
from measure import measure
from rapidocr_onnxruntime import RapidOCR


def call(engine, image):
    found, _ = engine(image)
    boxes, texts, scores = zip(*(found or [((), "", 0.0)]), strict=True)
    return {"texts": texts, "boxes": boxes, "scores": [float(s) for s in scores]}


measure(RapidOCR, call, [inputs.page(seed) for seed in range(8)])
