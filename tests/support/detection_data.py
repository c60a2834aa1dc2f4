"""Pictures with a few large characters to find, and what makes boxes of the outputs of a detector with three grids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

SIZE = 416
CHARACTERS = "ABCDEFGHKLMNPRSTUVWXYZ23456789"
SCORE, OVERLAP = 0.05, 0.45


def picture(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """An image ``[1, 3, 416, 416]`` (0..255) and the boxes ``[M, 4]`` of the characters on it."""
    from PIL import Image, ImageDraw, ImageFilter, ImageFont

    random = np.random.default_rng(seed)
    low = random.integers(90, 230, (6, 6, 3)).astype(np.uint8)
    image = Image.fromarray(low).resize((SIZE, SIZE), Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(3))
    draw = ImageDraw.Draw(image)
    boxes = []
    places = random.permutation(9)[: int(random.integers(2, 6))]
    for place in places:
        font = ImageFont.load_default(int(random.integers(60, 100)))
        x, y = 20 + 135 * (place % 3) + random.integers(0, 25), 15 + 135 * (place // 3) + random.integers(0, 25)
        text = CHARACTERS[int(random.integers(len(CHARACTERS)))]
        color = tuple(int(c) for c in random.integers(0, 120, 3))
        draw.text((int(x), int(y)), text, fill=color, font=font, stroke_width=1)
        boxes.append(draw.textbbox((int(x), int(y)), text, font=font, stroke_width=1))
    pixels = np.asarray(image, np.float32)[:, :, ::-1].transpose(2, 0, 1)
    return np.ascontiguousarray(pixels[None]), np.array(boxes, np.float32)


def boxes(outputs: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes, scores, classes of rows (centre, log size, objectness, class) on grids of stride 8, 16 and 32."""
    (rows,) = (np.asarray(v, np.float64)[0] for v in outputs.values())
    grids, strides = [], []
    for stride in (8, 16, 32):
        side = SIZE // stride
        ys, xs = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
        grids.append(np.stack([xs, ys], 2).reshape(-1, 2))
        strides.append(np.full((side * side, 1), stride))
    grid, stride = np.concatenate(grids), np.concatenate(strides)
    centres, sizes = (rows[:, :2] + grid) * stride, np.exp(rows[:, 2:4]) * stride
    scores = rows[:, 4] * rows[:, 5]
    found = np.concatenate([centres - sizes / 2, centres + sizes / 2], 1)
    kept: list[int] = []
    for index in np.argsort(-scores):
        if scores[index] < SCORE:
            break
        if all(_overlap(found[index], found[other]) < OVERLAP for other in kept):
            kept.append(int(index))
    return found[kept], scores[kept], np.ones(len(kept), np.int64)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    inner = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None).prod()
    return float(inner / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inner))


def write(folder: Path, count: int, name: str) -> Path:
    """A data set for ``verify``: one picture a sample."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        image, found = picture(number)
        np.savez(
            folder / f"picture{number:03}.npz", **{name: image, "boxes": found, "classes": np.ones(len(found), int)}
        )
    return folder
