"""Mean average precision of detectors, over intersections from 0.5 to 0.95, as COCO counts it (faster-coco-eval)."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autofusion.errors import OptionError, PluginError
from autofusion.tools.metrics import Arrays, target

Decode = Callable[[Arrays], tuple[Any, Any, Any]]
"""Outputs -> boxes [M, 4] as (left, top, right, bottom), scores [M], classes [M]."""


class MeanAveragePrecision:
    """``boxes`` [M, 4] (left, top, right, bottom) and ``classes`` [M] of one image, against what ``decode`` makes of
    the outputs; by default an output [M, 6] of rows (class, score, left, top, right, bottom).
    """

    name = "map"

    def __init__(self, decode: Decode | None = None) -> None:
        try:
            import faster_coco_eval  # noqa: F401
        except ImportError as error:
            raise PluginError("matching boxes needs faster-coco-eval: pip install autofusion[metrics]") from error
        self._decode = decode or rows
        self._truth: list[dict[str, Any]] = []
        self._found: list[dict[str, Any]] = []
        self._images = 0

    def add(self, outputs: Arrays, targets: Arrays) -> None:
        """Count an image."""
        self._images += 1
        boxes, classes = target(targets, "boxes", self.name), target(targets, "classes", self.name)
        for box, kind in zip(boxes.reshape(-1, 4), classes.reshape(-1), strict=True):
            entry = self._entry(box, kind)
            self._truth.append(entry | {"id": len(self._truth) + 1, "area": entry["bbox"][2] * entry["bbox"][3]})
        for box, score, kind in zip(*map(np.asarray, self._decode(outputs)), strict=True):
            self._found.append(self._entry(box, kind) | {"score": float(score)})

    def _entry(self, box: Any, kind: Any) -> dict[str, Any]:
        left, top, right, bottom = (float(x) for x in box)
        size = [left, top, right - left, bottom - top]
        return {"image_id": self._images, "category_id": int(kind), "bbox": size, "iscrowd": 0}

    def value(self) -> float:
        """The mean average precision; 0 if nothing was found."""
        from faster_coco_eval import COCO, COCOeval_faster

        if not self._found or not self._truth:
            return 0.0
        kinds = sorted({e["category_id"] for e in (*self._truth, *self._found)})
        size = {"width": 1, "height": 1}  # only masks need it
        with contextlib.redirect_stdout(io.StringIO()):
            truth = COCO(
                {
                    "images": [{"id": i + 1, **size} for i in range(self._images)],
                    "annotations": self._truth,
                    "categories": [{"id": kind, "name": str(kind)} for kind in kinds],
                }
            )
            counted = COCOeval_faster(truth, truth.loadRes(self._found), "bbox")
            counted.evaluate()
            counted.accumulate()
            counted.summarize()
        return max(0.0, float(counted.stats[0]))


def rows(outputs: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes, scores and classes of an output whose rows are (class, score, left, top, right, bottom)."""
    for value in outputs.values():
        array = np.asarray(value)
        if array.ndim == 2 and array.shape[1] == 6:
            kept = array[array[:, 0] >= 0]
            return kept[:, 2:], kept[:, 1], kept[:, 0].astype(np.int64)
    shapes = ", ".join(f"'{n}' {list(np.shape(v))}" for n, v in outputs.items())
    raise OptionError(
        "no output has rows (class, score, left, top, right, bottom); pass --decode MODULE:FUNCTION that makes boxes, "
        f"scores and classes of the outputs {shapes}"
    )
