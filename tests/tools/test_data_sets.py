"""Step 3 on real data: fused and unfused models are as good as each other at what they are for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofusion.tools.verify import Report, verify
from tests.support import detection_data, ocr_data
from tests.zoo import zoo

pytestmark = pytest.mark.slow
pytest.importorskip("PIL")


def verified(model: str, data: Path, metric: str, environ: dict[str, str] | None = None, **more: Any) -> Report:
    report = verify(
        zoo.model_path(model), data=data, metrics=[metric], threads=2, samples=1, speed=False, environ=environ, **more
    )
    assert report.ok, report.problems
    return report


def only_metric(report: Report) -> tuple[float, float, int]:
    (row,) = report.data["metrics"]
    return row["fused"], row["reference"], row["samples"]


def test_characters_of_rendered_lines(tmp_path: Path) -> None:
    pytest.importorskip("rapidfuzz")
    data = ocr_data.write(tmp_path / "lines", zoo.model_path("ppocrv4_rec"), 300)
    fused, reference, samples = only_metric(verified("ppocrv4_rec", data, "characters"))
    assert samples == 300 and fused == reference and fused > 0.9


def test_which_way_up_lines_are(tmp_path: Path) -> None:
    folder = tmp_path / "turned"
    folder.mkdir()
    for number, text in enumerate(ocr_data.lines(200, seed=1)):
        image = ocr_data.render(text, number)[..., :192]
        turned = number % 2
        np.savez(folder / f"{number:03}.npz", x=image[..., ::-1, ::-1] if turned else image, label=np.array([turned]))
    fused, reference, samples = only_metric(verified("ppocr_cls", folder, "top1"))
    assert samples == 200 and fused == reference and fused > 0.8


def test_boxes_of_characters(tmp_path: Path, faults: Any) -> None:
    pytest.importorskip("faster_coco_eval")
    data = detection_data.write(tmp_path / "pictures", 16, "images")
    report = verified("ddddocr_det", data, "map", faults(), decode="detection_data:boxes", exact=False)
    fused, reference, samples = only_metric(report)
    assert samples == 16 and fused == reference and fused > 0.25
